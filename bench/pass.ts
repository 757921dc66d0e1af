/**
 * What a pass costs in stores of different sizes and shapes, beside a steady one and beside reading every record.
 *
 * npm run bench:pass -- 20 2000 10000   (sizes; with LEASEHOLD_BENCH_STORES=<directory> made stores are kept, as for 1000000)
 *
 * Each shape brings what it needs, old bundles for most, which are gone again when the next is measured.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import * as RunStore from "../src/RunStore.ts"
import { by } from "../test/support/Doors.ts"
import { series, type Spec } from "../test/support/Fabricate.ts"
import { day, hour } from "../test/support/Time.ts"
import { bytesEach, clear, large, layerOf, make, wide } from "./Stores.ts"
import { type Figure, inTurn, report, type Row, timed } from "./Table.ts"

interface Shape {
  readonly name: string
  readonly policy?: (size: number) => PolicyInput
  /** Bundles older than all others, and how many. */
  readonly guests?: { readonly count: number; readonly spec?: Partial<Spec>; readonly deep?: number }
  /** What a pass does to each of them. */
  readonly does?: "removed" | "recovered"
  readonly before?: (root: string) => void
  readonly door?: Partial<FilesApi>
  /** It takes too long in larger stores than this. */
  readonly most?: number
  readonly rounds?: number
}

// == doors to the disk

const slow = by(node, (_call, _args, perform) => Effect.delay(perform, "5 millis"))

const withClosedDays: Partial<FilesApi> = {
  readdir: (path) =>
    /\d0$/.test(path)
      ? Effect.fail(new Errno({ code: "EACCES", call: "readdir", path, cause: undefined }))
      : node.readdir(path)
}

// == shapes

const loseIndex = (root: string) => NFS.rmSync(`${root}/index.db`)

/** Has the kernel forget what it has read of the index. */
const coolIndex = (root: string) =>
  void NodeChildProcess.execFileSync("dd", [`if=${root}/index.db`, "iflag=nocache", "count=0", "status=none"])

const ten = { count: 10 }

const steady: Shape = { name: "steady", rounds: 21 }

const shapes: ReadonlyArray<Shape> = [
  steady,
  { name: "index not in memory", before: coolIndex },
  { name: "removing 10 by count", guests: ten, does: "removed", policy: (size) => ({ maxBundles: size }) },
  { name: "removing 10 by age", guests: ten, does: "removed", policy: () => ({ maxAge: "2500 days" }) },
  { name: "removing 10 by bytes", guests: ten, does: "removed", policy: (size) => ({ maxBytes: size * bytesEach }) },
  { name: "removing 10 for free space", guests: ten, does: "removed", policy: () => ({ minFree: "1000 TiB" }) },
  {
    name: "removing 10 by keep rules",
    guests: ten,
    does: "removed",
    policy: () => ({ keepLast: 10, keepWithin: "2500 days" })
  },
  {
    name: "removing 10 deep ones",
    guests: { ...ten, deep: 100 },
    does: "removed",
    policy: () => ({ maxAge: "2500 days" })
  },
  { name: "recovering 10", guests: { ...ten, spec: { status: "running" } }, does: "recovered" },
  { name: "index one day behind", guests: { count: 300 } },
  { name: "index lost", before: loseIndex, most: 10_000 },
  { name: "index lost, a tenth of the days closed", before: loseIndex, door: withClosedDays, most: 10_000 },
  { name: "5 ms for each call", door: slow, most: 2000 }
]

const today = Math.floor(Date.now() / day) * day

const plant = (root: string, { count, deep = 0, spec }: NonNullable<Shape["guests"]>): void => {
  for (const { dir } of series(root, count, today - 3000 * day + 23 * hour, spec)) {
    let path = `${dir}/artifacts`
    for (let level = 0; level < deep; level++) {
      path += "/down"
      NFS.mkdirSync(path)
      NFS.writeFileSync(`${path}/file`, "x")
    }
  }
}

/** Takes away what came before all the others, and what runs of this bench have left. */
const removeGuests = (root: string): void => {
  const [first, last] = [2900, 1].map((ago) => new Date(today - ago * day).toISOString().slice(0, 10))
  for (const name of NFS.readdirSync(`${root}/runs`)) {
    if (name < first! || name > last!) NFS.rmSync(`${root}/runs/${name}`, { recursive: true })
  }
}

const everything = { policy: wide, budget: large } as const

/** However busy the machine is, a pass comes to its end. */
const budget = { maxRemoved: 10, maxTime: "5 minutes" } as const

const figureOf = (
  { before, does, door, guests, name, policy }: Shape,
  root: string,
  size: number
): Figure<unknown, never> => ({
  name: `${name} at ${size}`,
  measure: Effect.gen(function*() {
    if (guests !== undefined) plant(root, guests)
    before?.(root)
    let done: number | undefined
    const pass = Effect.tap(
      Retention.run({ policy: policy?.(size) ?? wide, budget }),
      (report) => Effect.sync(() => void (done = does === undefined ? guests?.count : report[does].length))
    )
    const millis = yield* Effect.provideService(timed(pass), Files, { ...node, ...door })
    if (done !== guests?.count) return yield* Effect.die(new Error(`${name} at ${size}: it was ${done}`))
    if (guests === undefined && before === undefined) return millis
    removeGuests(root)
    yield* untilPaid(everything)
    return millis
  }).pipe(Effect.provide(layerOf(root)))
})

// == what runs and readers have of it

const startOf = (
  name: string,
  root: string,
  size: number,
  retention: "off" | { readonly policy: typeof wide }
): Figure<unknown, never> => ({
  name: `${name} at ${size}`,
  measure: Effect.provide(
    Effect.suspend(() => {
      const begun = performance.now()
      return Effect.sync(() => performance.now() - begun).pipe(Run.scoped({ name: "bench", retention }))
    }),
    layerOf(root)
  )
})

const wholeOf = (root: string, size: number): Figure<unknown, never> => ({
  name: `a whole run at ${size}`,
  measure: Effect.provide(
    timed(Effect.void.pipe(Run.scoped({ name: "bench", retention: { policy: wide } }))),
    layerOf(root)
  )
})

const readingOf = (root: string, size: number): Figure<unknown, never> => ({
  name: `reading every record at ${size}`,
  measure: Effect.provide(
    timed(Effect.flatMap(RunStore.RunStore, ({ list }) => Stream.runDrain(list))),
    layerOf(root)
  )
})

// == the bench

const titled = (name: string) => name.slice(0, 1).toUpperCase() + name.slice(1)

/** How many milliseconds more than the first, and not how many times as many. */
const difference = (rows: ReadonlyArray<Row>) => {
  const [first] = rows
  for (const { median, name } of rows) console.log(`${name}: ${(median - (first?.median ?? 0)).toFixed(2)} ms above`)
}

const bench = Effect.gen(function*() {
  const given = process.argv.slice(2).map(Number)
  const stores: Array<{ readonly size: number; readonly root: string }> = []
  for (const size of given.length > 0 ? given : [20, 2000, 10_000]) stores.push({ size, root: yield* make(size) })
  const [first = 20] = stores.map(({ size }) => size)

  for (const shape of shapes) {
    const within = stores.filter(({ size }) => size <= (shape.most ?? size))
    if (within.length === 0) continue
    const rows = yield* inTurn(within.map(({ root, size }) => figureOf(shape, root, size)), shape.rounds ?? 5)
    const reading = shape === steady ? { aim: "1.3 at 10000, 3 at 1000000" } : {}
    report(`${titled(shape.name)}`, rows, `${shape.name} at ${within[0]?.size}`, reading)
  }

  const middle = stores.find(({ size }) => size === 2000)
  if (middle !== undefined) {
    const torn = yield* make(middle.size, { torn: 10 })
    const rows = yield* inTurn([
      figureOf(steady, middle.root, middle.size),
      figureOf({ name: "a tenth of the records torn", rounds: 11 }, torn, middle.size)
    ], 11)
    report("Steady with torn records", rows, `steady at ${middle.size}`)
  }

  const read = stores.findLast(({ size }) => size <= 10_000)
  if (read !== undefined) {
    const rows = yield* inTurn([figureOf(steady, read.root, read.size), readingOf(read.root, read.size)], 5)
    report("Steady pass against reading", rows, `steady at ${read.size}`)
  }

  const starts = yield* inTurn(
    stores.flatMap(({ root, size }) => [
      startOf("start, retention off", root, size, "off"),
      startOf("start", root, size, { policy: wide })
    ]),
    21
  )
  report("Start of a run", starts, `start at ${first}`, { aim: "5 ms above the first" })
  difference(starts.filter(({ name }) => name.startsWith("start at")))
  report(
    "A whole run",
    yield* inTurn(stores.map(({ root, size }) => wholeOf(root, size)), 11),
    `a whole run at ${first}`
  )

  for (const { root } of stores) {
    removeGuests(root)
    yield* Effect.provide(untilPaid(everything), layerOf(root))
  }
})

await Effect.runPromise(bench).finally(clear)
