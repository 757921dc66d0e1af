/** The index against what lies in the day directories. It is read while no pass can be at work, and changed by none here. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ArchivePlace from "../internal/ArchivePlace.ts"
import { Files } from "../internal/Files.ts"
import { entriesOf, isThere } from "../internal/io.ts"
import * as PassLock from "../retention/PassLock.ts"
import * as RunId from "../RunId.ts"
import { type Day, type IndexBroken, type Row, RunIndex } from "../RunIndex.ts"
import { type RunRecord, toMillis } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { Fault, type Finding, Outcome } from "../VerificationFinding.ts"
import { finding, type Options } from "./Options.ts"

/** Keeps passes away until the scope ends. Where there is no lock file yet, none has ever been here, and none is made. */
const keepPassesAway = (root: string) => PassLock.take(root, { dryRun: true })

interface Known {
  readonly days: ReadonlyMap<string, Day>
  /** By day. */
  readonly rows: ReadonlyMap<string, ReadonlyMap<RunId.RunId, Row>>
}

const group = (rows: ReadonlyArray<Row>) => {
  const groups = new Map<string, Map<RunId.RunId, Row>>()
  for (const row of rows) {
    const day = RunId.day(row.id)
    const rowsOfDay = groups.get(day) ?? new Map<RunId.RunId, Row>()
    groups.set(day, rowsOfDay.set(row.id, row))
  }
  return groups
}

const read = Effect.fnUntraced(
  function*(root: string): Effect.fn.Return<Known | Fault, IndexBroken, RunIndex | Scope.Scope> {
    const index = yield* RunIndex
    if (!(yield* keepPassesAway(root))) return Fault.IndexBusy()
    const session = yield* index.open({ dryRun: true })
    if (session.kind._tag === "memory") return Fault.IndexUnusable({ reason: session.kind.reason })
    const days = new Map((yield* session.days).map((day) => [day.day, day]))
    return { days, rows: group(yield* session.all) }
  },
  Effect.scoped,
  Effect.catchTag("IndexBroken", (broken) => Effect.succeed(Fault.IndexUnusable({ reason: broken.message })))
)

// == comparing

/**
 * An outcome is written once, so that a row can only differ from the record of a run that was never resumed if somebody
 * has changed one of them.
 */
const isDifferent = Effect.fnUntraced(function*(root: string, row: Row, record: RunRecord) {
  if (row.state !== "finished" || record.attempts.length > 1 || record.status === "running") return false
  const endedAt = toMillis(record.endedAt ?? record.startedAt)
  if (row.status !== record.status || row.endedAt < endedAt) return true
  // To a pass, one that was restored has ended then, and the row may be of an earlier time.
  return row.endedAt > endedAt && (yield* ArchivePlace.restoredAt(root, row.id)) === undefined
})

const concurrency = 8

const countDifferent = Effect.fnUntraced(function*(rows: ReadonlyArray<Row>) {
  const store = yield* RunStore
  const compared = yield* Effect.forEach(rows, (row) =>
    Effect.matchEffect(store.get(row.id), {
      onSuccess: ({ record }) =>
        Result.isSuccess(record) ? isDifferent(store.root, row, record.success) : Effect.succeed(false),
      onFailure: () => Effect.succeed(false)
    }), { concurrency })
  return compared.filter((each) => each).length
})

const mtimeOf = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const info = yield* Effect.result(files.lstat(path))
  return Result.isSuccess(info) ? info.success.mtimeNanos : undefined
})

const idsIn = (path: string, day: string) =>
  Effect.map(
    entriesOf(path, (name) => RunId.isOfDay(name, day)),
    (entries): ReadonlySet<string> => new Set(entries.map(({ name }) => name))
  )

/**
 * A pass lists a day again when its mtime has moved, and until then takes the index at its word. So only what differs
 * in a day that has not moved is wrong.
 */
const compareDay = Effect.fnUntraced(function*(path: string, day: string, known: Known) {
  const rows = known.rows.get(day) ?? new Map<RunId.RunId, Row>()
  const before = yield* mtimeOf(path)
  const ids = yield* idsIn(path, day)
  const listed = known.days.get(day)
  const isTaken = listed?.settled === true && before === listed.mtimeNanos && (yield* mtimeOf(path)) === before
  return {
    isTaken,
    gone: [...rows.keys()].filter((id) => !ids.has(id)).length,
    missing: [...ids].filter((id) => !rows.has(id as RunId.RunId)).length,
    different: yield* countDifferent([...rows.values()].filter(({ id }) => ids.has(id)))
  }
})

const compare = Effect.fnUntraced(function*(root: string, known: Known): Effect.fn.Return<
  ReadonlyArray<Fault>,
  never,
  RunStore
> {
  const found = yield* Effect.orElseSucceed(entriesOf(`${root}/runs`, RunId.isDay), () => [])
  const onDisk = found.filter(({ kind }) => kind === "directory").map(({ name }) => name)
  const days = new Set([...onDisk, ...known.days.keys(), ...known.rows.keys()])
  const behind = { gone: 0, missing: 0 }
  const wrong = { gone: 0, missing: 0, different: 0 }
  for (const day of days) {
    const compared = yield* Effect.result(compareDay(`${root}/runs/${day}`, day, known))
    // A day that cannot be listed is a finding of its own.
    if (Result.isFailure(compared)) continue
    const { different, gone, isTaken, missing } = compared.success
    const sums = isTaken ? wrong : behind
    sums.gone += gone
    sums.missing += missing
    wrong.different += different
  }
  return [
    ...(wrong.gone + wrong.missing + wrong.different > 0 ? [Fault.IndexWrong(wrong)] : []),
    ...(behind.gone + behind.missing > 0 ? [Fault.IndexBehind(behind)] : [])
  ]
})

// == mending

const setAside = Effect.fnUntraced(function*(root: string): Effect.fn.Return<Outcome, never, RunIndex | Scope.Scope> {
  const index = yield* RunIndex
  if (!(yield* keepPassesAway(root))) return Outcome.Failed({ reason: "a pass is using it" })
  yield* index.setAside
  return (yield* isThere(`${root}/index.db`))
    ? Outcome.Failed({ reason: "it could not be moved out of the way" }) :
    Outcome.Mended()
}, Effect.scoped)

const mends: ReadonlySet<Fault["_tag"]> = new Set<Fault["_tag"]>(["IndexUnusable", "IndexWrong"])

/** @internal */
export const index = (options: Options): Stream.Stream<Finding, never, RunStore | RunIndex> =>
  Stream.fromIterableEffect(Effect.gen(function*() {
    const files = yield* Files
    const { root } = yield* RunStore
    const path = `${root}/index.db`
    const there = yield* Effect.result(files.lstat(path))
    if (Result.isFailure(there) && there.failure.code === "ENOENT") return []
    const known = yield* read(root)
    const faults = "_tag" in known ? [known] : yield* compare(root, known)
    const findings: Array<Finding> = []
    for (const fault of faults) {
      const outcome: Outcome = options.repair && mends.has(fault._tag) ? yield* setAside(root) : Outcome.Left()
      findings.push(finding(fault, path, { outcome }))
    }
    return findings
  }))
