/**
 * What a pass costs in stores of different sizes, beside reading every record.
 *
 * npm run bench:pass -- 20 2000 10000
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as Retention from "../src/Retention.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import * as RunStore from "../src/RunStore.ts"
import * as SqliteIndex from "../src/SqliteIndex.ts"
import { series } from "../test/support/Fabricate.ts"
import { day, minute } from "../test/support/Time.ts"
import { type Figure, inTurn, report, timed } from "./Table.ts"

const given = process.argv.slice(2).map(Number)
const sizes = given.length > 0 ? given : [20, 2000, 10_000]

const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)

const layerOf = (root: string) => SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true })))

/** Three hundred a day, back from the day before yesterday, so that no day is being written to. */
const fill = Effect.fnUntraced(function*(root: string, size: number) {
  yield* Effect.provide(Effect.void, RunStore.layer({ root, allowTemp: true }))
  const now = Date.now()
  for (let made = 0, ago = 2; made < size; ago++) {
    const count = Math.min(300, size - made)
    series(root, count, now - ago * day + count * minute / 2)
    made += count
  }
})

const wide = { maxBundles: 10_000_000, maxAge: "36000 days", keepLast: 10 } as const

const large = { maxLooked: 1_000_000, maxRemoved: 1_000_000, maxUnlinked: 10_000_000, maxTime: "1 hour" } as const

const figuresOf = (root: string, size: number) => {
  const layer = layerOf(root)
  const within = <A, E>(effect: Effect.Effect<A, E, Layer.Success<typeof layer>>) => Effect.provide(effect, layer)
  const steady: Figure<unknown, never> = {
    name: `steady at ${size}`,
    measure: within(timed(Retention.run({ policy: wide })))
  }
  const removing: Figure<unknown, never> = {
    name: `removing 10 at ${size}`,
    measure: within(Effect.gen(function*() {
      const millis = yield* timed(Retention.run({ policy: { all: true, keepLast: 1 }, budget: { maxRemoved: 10 } }))
      series(root, 10, Date.now() - 100 * day)
      yield* Retention.run({ policy: wide, budget: large })
      return millis
    }))
  }
  const start = (name: string, retention: "off" | { readonly policy: typeof wide }): Figure<unknown, never> => ({
    name: `${name} at ${size}`,
    measure: within(Effect.suspend(() => {
      const begun = performance.now()
      return Effect.sync(() => performance.now() - begun).pipe(Run.scoped({ name: "bench", retention }))
    }))
  })
  const whole: Figure<unknown, never> = {
    name: `whole run at ${size}`,
    measure: within(timed(Effect.void.pipe(Run.scoped({ name: "bench", retention: { policy: wide } }))))
  }
  const reading: Figure<unknown, never> = {
    name: `reading every record at ${size}`,
    measure: within(timed(Effect.flatMap(RunStore.RunStore, ({ list }) => Stream.runDrain(list))))
  }
  return {
    steady,
    removing,
    started: start("start", { policy: wide }),
    plain: start("start, retention off", "off"),
    whole,
    reading
  }
}

const bench = Effect.gen(function*() {
  const stores = []
  for (const size of sizes) {
    const root = `${base}/${size}`
    yield* fill(root, size)
    yield* Effect.provide(untilPaid({ policy: wide, budget: large }), layerOf(root))
    yield* Effect.sleep(2100)
    yield* Effect.provide(Retention.run({ policy: wide, budget: large }), layerOf(root))
    stores.push({ size, ...figuresOf(root, size) })
  }
  const [first] = sizes
  const reading = stores.find(({ size }) => size === 10_000) ?? stores.at(-1)
  report("Steady pass", yield* inTurn(stores.map(({ steady }) => steady), 21), `steady at ${first}`)
  if (reading !== undefined) {
    const rows = yield* inTurn([reading.steady, reading.reading], 5)
    report("Steady pass against reading", rows, reading.steady.name)
  }
  report("Removing", yield* inTurn(stores.map(({ removing }) => removing), 5), `removing 10 at ${first}`)
  report(
    "Start of a run",
    yield* inTurn(stores.flatMap(({ plain, started }) => [plain, started]), 11),
    `start at ${first}`
  )
  report("A whole run", yield* inTurn(stores.map(({ whole }) => whole), 11), `whole run at ${first}`)
})

await Effect.runPromise(bench).finally(() => NFS.rmSync(base, { recursive: true, force: true }))
