/** An index in a directory of its own, and what a pass would find to put into it. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeSqlite from "node:sqlite"
import { format } from "../../src/internal/IndexDatabase.ts"
import * as RunId from "../../src/RunId.ts"
import { type Row, RunIndex, type Session } from "../../src/RunIndex.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import { directory, type Exit, repository, start } from "./Worker.ts"

export const now = Date.parse("2026-11-30T12:00:00.000Z")
export const hour = 3_600_000

/** The id of a run that started so many hours before `now`. */
export const id = (hoursAgo: number, suffix = 0): RunId.RunId =>
  RunId.fromParts(DateTime.makeUnsafe(now - hoursAgo * hour), [0, 0, 0, 0, 0, 0, 0, suffix])

export const row = (id: RunId.RunId, more: Partial<Row> = {}): Row => ({
  id,
  state: "finished",
  name: "build",
  status: "ok",
  tags: {},
  pin: undefined,
  endedAt: RunId.startedAt(id).epochMilliseconds + 1000,
  firstSeenEnded: undefined,
  bytes: undefined,
  problem: undefined,
  stamp: undefined,
  failures: 0,
  trimmed: false,
  lookedAt: now,
  ...more
})

export const listed = (id: RunId.RunId): Row =>
  row(id, {
    state: "listed",
    name: "",
    status: "unknown",
    endedAt: RunId.startedAt(id).epochMilliseconds,
    lookedAt: 0
  })

export const ids = (rows: ReadonlyArray<Row>) => rows.map(({ id }) => id)

export interface Place {
  readonly root: string
  readonly index: RunIndex["Service"]
  /** Uses the index for one pass. */
  readonly pass: <A, E>(use: (session: Session) => Effect.Effect<A, E>, dryRun?: boolean) => Effect.Effect<A, E>
}

export const placeAt = Effect.fnUntraced(function*(root: string) {
  const layer = SqliteIndex.layer.pipe(Layer.provide(Layer.mock(RunStore.RunStore, { root, id: "", dir: () => root })))
  const index = yield* Effect.provide(RunIndex, layer)
  const pass: Place["pass"] = (use, dryRun = false) => Effect.scoped(Effect.flatMap(index.open({ dryRun }), use))
  return { root, index, pass } satisfies Place
})

export const inPlace = <A, E>(test: (place: Place) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(Effect.flatMap(directory, placeAt), test))

export const putAll = (session: Session, rows: ReadonlyArray<Row>) =>
  Effect.forEach(rows, (row) => session.put(row), { discard: true })

/** Names, sizes and times, by which a write would show. */
export const snapshot = (root: string) =>
  NFS.readdirSync(root).sort().map((name) => {
    const { ino, mtimeNs, size } = NFS.lstatSync(`${root}/${name}`, { bigint: true })
    return [name, ino, size, mtimeNs]
  })

export const succeeds = (file: string, ...args: ReadonlyArray<string>) =>
  NodeChildProcess.spawnSync(file, args, { stdio: "ignore" }).status === 0

export const hasStrace = succeeds("strace", "-o", "/dev/null", "true")

const programs = {
  look: "console.log(session.kind._tag, (yield* session.all).length)",
  dry: `
    yield* session.putDay({ day: "2026-11-29", mtimeNanos: 5n, settled: true }, new Set())
    yield* session.commit
    console.log(session.kind._tag, (yield* session.totals(0)).bundles)`,
  fill: `
    yield* session.putDay({ day: "2026-11-29", mtimeNanos: 5n, settled: true }, new Set())
    for (let nth = 0; nth < 2000; nth++) {
      const day = new Date(nth * 86_400_000).toISOString().slice(0, 10)
      yield* session.putDay({ day, mtimeNanos: 5n, settled: true }, new Set())
    }
    yield* session.commit`,
  hold: `
    console.log("held")
    yield* Effect.sleep(60_000)`
} as const

/** A program of its own that uses the index, started by another one if need be. */
export const child = (root: string, program: keyof typeof programs, prefix: ReadonlyArray<string> = []) =>
  start([
    ...prefix as [],
    process.execPath,
    "--input-type=module",
    "--eval",
    `import * as Effect from "effect/Effect"
     import * as IndexFile from "${repository}/src/internal/IndexFile.ts"
     await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
       const session = yield* IndexFile.open(${JSON.stringify(root)}, { dryRun: ${program === "dry"} })
       ${programs[program]}
     })))`
  ], { cwd: repository })

export const inChild = (
  root: string,
  program: keyof typeof programs,
  prefix?: ReadonlyArray<string>
): Effect.Effect<Exit> => Effect.scoped(Effect.flatMap(child(root, program, prefix), ({ exit }) => exit))

export const kindOf = ({ kind }: Session) => kind._tag === "file" ? "file" : kind.reason

/** What a pass would learn, after doing everything again that it has reason to do. */
export const world = [row(id(5), { bytes: 7 }), row(id(30)), row(id(31), { state: "running", status: "running" })]

export const refill = (session: Session) =>
  Effect.gen(function*() {
    yield* session.putDay({ day: "2026-11-30", mtimeNanos: 3n, settled: true }, new Set([id(5)]))
    yield* session.putDay({ day: "2026-11-29", mtimeNanos: 4n, settled: true }, new Set([id(30), id(31)]))
    yield* putAll(session, world)
    yield* session.commit
  })

export const contents = (session: Session) =>
  Effect.all({ days: session.days, all: session.all, totals: session.totals(now) })

export const filled = Effect.runSync(Effect.scoped(Effect.gen(function*() {
  const index = yield* Effect.provide(
    RunIndex,
    SqliteIndex.layer.pipe(
      Layer.provide(Layer.mock(RunStore.RunStore, { root: "/leasehold-test/nowhere", id: "", dir: () => "" }))
    )
  )
  const session = yield* index.open({ dryRun: true })
  yield* refill(session)
  return yield* contents(session)
})))

export const empty = { days: [], all: [], totals: { bundles: 0, ahead: 0, bytes: 0, unmeasured: 0 } }

export const many = new Set(
  Array.from({ length: 5000 }, (_, nth) => RunId.fromParts(DateTime.makeUnsafe(now - 72 * hour + nth), []))
)

/** Seals the index as it is, as a liar would who knows how. */
export const reseal = (root: string, more: object = {}) => {
  const { ino, mtimeNs, size } = NFS.statSync(`${root}/index.db`, { bigint: true })
  const index = { format, ino: `${ino}`, size: Number(size), mtime: `${mtimeNs}`, ...more }
  NFS.writeFileSync(`${root}/retention.lock`, `${JSON.stringify({ index }).padEnd(255)}\n`)
}

/** Waits until a change would show: the clock of a file system may tick as seldom as every ten milliseconds. */
export const clockTicks = (root: string) => {
  const { mtimeNs } = NFS.statSync(`${root}/index.db`, { bigint: true })
  const probe = `${root}.probe`
  do NFS.writeFileSync(probe, "x")
  while (NFS.statSync(probe, { bigint: true }).mtimeNs <= mtimeNs)
  NFS.rmSync(probe)
}

export const sql = (root: string, text: string) => {
  const database = new NodeSqlite.DatabaseSync(`${root}/index.db`)
  database.exec(text)
  database.close()
}
