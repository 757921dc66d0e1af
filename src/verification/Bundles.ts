/** One bundle after another: its place, its record, its lease, and what the dead have left in it. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Files } from "../internal/Files.ts"
import { entriesOf, replacedBy } from "../internal/io.ts"
import * as RecordLock from "../internal/RecordLock.ts"
import { type Claim, Lease, type LeaseError } from "../Lease.ts"
import type { Liveness } from "../Liveness.ts"
import * as OnRemove from "../OnRemove.ts"
import * as Recovery from "../Recovery.ts"
import { type RecordError, type RunRecord, toMillis } from "../RunRecord.ts"
import * as RunRemoval from "../RunRemoval.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import { unfinished } from "../TrimHistory.ts"
import { Fault, type Finding, Outcome } from "../VerificationFinding.ts"
import { asOutcome, finding, type Options } from "./Options.ts"

/** Something that is wrong, and what mends it under a claim, where that is safe. */
interface Defect {
  readonly fault: Fault
  readonly where: string
  readonly mend?: (claim: Claim) => Effect.Effect<void, { readonly message: string }, RunStore>
}

// == what the dead have left

/** Somebody may have put a million of them there; once these have gone, others are found. */
const most = 1000

const namesIn = (path: string, isTrace: (name: string) => boolean) =>
  entriesOf(path, isTrace, most).pipe(
    Effect.map((entries) => entries.map(({ name }) => name)),
    Effect.orElseSucceed((): ReadonlyArray<string> => [])
  )

const unlink = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  yield* Effect.catchIf(files.unlink(path), (errno) => errno.code === "ENOENT", () => Effect.void)
})

/** Whoever pins a run writes such a file too, without a lease, but under the lock of the record. */
const unlinkDraft = Effect.fnUntraced(function*(bundle: string, path: string) {
  yield* RecordLock.take(bundle)
  yield* unlink(path)
}, Effect.scoped)

/**
 * The claim that removes a holder file was granted while that file was there, and was so by having proved its process
 * dead. That is why the files are found before the claim is taken.
 */
const tracesOf = Effect.fnUntraced(function*(dir: string): Effect.fn.Return<ReadonlyArray<Defect>> {
  const traces: Array<Defect> = []
  for (const name of yield* namesIn(dir, (name) => replacedBy(name) === "run.json")) {
    const where = `${dir}/${name}`
    traces.push({ fault: Fault.Leftover(), where, mend: () => unlinkDraft(dir, where) })
  }
  const isOfHolder = (name: string) => (replacedBy(name) ?? name).endsWith(".json")
  for (const name of yield* namesIn(`${dir}/holders`, isOfHolder)) {
    const where = `${dir}/holders/${name}`
    const fault = name.endsWith(".json") ? Fault.StaleHolder() : Fault.Leftover()
    traces.push({ fault, where, mend: () => unlink(where) })
  }
  return traces
})

// == what is wrong

const ofRecord = ({ dir, id }: Entry, record: RunRecord, now: number): ReadonlyArray<Defect> => [
  ...(record.id === id ? [] : [{ fault: Fault.WrongId({ recorded: record.id }), where: dir }]),
  ...(record.endedAt === undefined || toMillis(record.endedAt) <= now
    ? []
    : [{ fault: Fault.ClockAhead({ endedAt: record.endedAt }), where: dir }])
]

/** What was begun and is still to be done, and nobody is at. */
const ofUnfinished = ({ dir }: Entry, record: RunRecord): ReadonlyArray<Defect> => {
  const paths = unfinished(record)
  const failing = OnRemove.pending(record).flatMap((registered) => {
    const { count = 0, message = "" } = registered.failure ?? {}
    return count < 2 ? [] : [Fault.UndoFailed({ what: OnRemove.describe(registered), count, message })]
  })
  return [...(paths.length === 0 ? [] : [Fault.TrimPending({ paths })]), ...failing].map((fault) => ({
    fault,
    where: dir
  }))
}

const ofDead = Effect.fnUntraced(function*(entry: Entry, record: RunRecord, now: number) {
  const { dir, id } = entry
  // What the record of another run says is no word on this one.
  const crashed: ReadonlyArray<Defect> = record.status === "running" && record.id === id
    ? [{ fault: Fault.Crashed(), where: dir, mend: (claim) => Effect.asVoid(Recovery.recover(claim)) }]
    : []
  return [...ofRecord(entry, record, now), ...ofUnfinished(entry, record), ...crashed, ...yield* tracesOf(dir)]
})

const ofUnusable = ({ dir }: Entry, error: RecordError, liveness: Liveness): ReadonlyArray<Defect> => {
  const isElse = liveness._tag === "Unknown" && liveness.doubt._tag !== "RecordUnusable"
  return [
    { fault: Fault.RecordUnusable({ error, held: liveness._tag === "Live" }), where: dir },
    ...(isElse ? [{ fault: Fault.LeaseInDoubt({ doubt: liveness.doubt }), where: dir }] : [])
  ]
}

const defectsOf = Effect.fnUntraced(function*(entry: Entry): Effect.fn.Return<ReadonlyArray<Defect>, never, RunStore> {
  const store = yield* RunStore
  const now = yield* Clock.currentTimeMillis
  const liveness = yield* store.liveness(entry)
  // Read under the lock, and so after whatever its run may have written since.
  if (liveness._tag === "Dead") return yield* ofDead(entry, liveness.record, now)
  if (Result.isFailure(entry.record)) return ofUnusable(entry, entry.record.failure, liveness)
  const record = ofRecord(entry, entry.record.success, now)
  if (liveness._tag === "Live") return record
  return liveness.doubt._tag === "RecordUnusable"
    ? ofUnusable(entry, liveness.doubt.error, liveness)
    : [...record, { fault: Fault.LeaseInDoubt({ doubt: liveness.doubt }), where: entry.dir }]
})

// == mending

/** Everything in a bundle is mended under one claim, in the order in which it was found. */
const mend = Effect.fnUntraced(function*(entry: Entry, defects: ReadonlyArray<Defect>) {
  const lease = yield* Lease
  const claim = yield* Effect.result(lease.claim({ id: entry.id, dir: entry.dir }))
  const outcomes: Array<Outcome> = []
  for (const { mend } of defects) {
    if (mend === undefined) outcomes.push(Outcome.Left())
    else if (Result.isFailure(claim)) outcomes.push(Outcome.Failed({ reason: claim.failure.message }))
    else outcomes.push(yield* asOutcome(mend(claim.success)))
  }
  return outcomes
}, Effect.scoped)

/** What has gone meanwhile is no finding, and neither is a record that was written anew. */
const isNoMore = (error: RunRemoval.RemovalError | LeaseError | StoreError) =>
  error.reason._tag === "NoSuchRun" || error.reason._tag === "RunGone" || error.reason._tag === "Readable"

const removeUnreadable = Effect.fnUntraced(function*(entry: Entry, defects: ReadonlyArray<Defect>) {
  const removed = yield* Effect.result(RunRemoval.removeUnreadable(entry.id))
  if (Result.isFailure(removed) && isNoMore(removed.failure)) return undefined
  const outcome = Result.isSuccess(removed) ? Outcome.Mended() : Outcome.Failed({ reason: removed.failure.message })
  // With the bundle everything that was wrong with it has gone.
  return defects.map(({ fault }) =>
    Result.isSuccess(removed) || fault._tag === "RecordUnusable" ? outcome : Outcome.Left()
  )
})

const isUnreadable = ({ fault }: Defect) =>
  fault._tag === "RecordUnusable" && fault.error.reason._tag !== "NewerVersion"

const outcomesOf = Effect.fnUntraced(function*(entry: Entry, defects: ReadonlyArray<Defect>, options: Options) {
  if (options.removeUnreadable && defects.some(isUnreadable)) {
    return yield* removeUnreadable(entry, defects)
  }
  return options.repair && defects.some(({ mend }) => mend !== undefined)
    ? yield* Effect.uninterruptible(mend(entry, defects))
    : defects.map(() => Outcome.Left())
})

/**
 * What is wrong with a bundle, and what came of mending it.
 *
 * @internal
 */
export const check = Effect.fnUntraced(
  function*(entry: Entry, options: Options): Effect.fn.Return<ReadonlyArray<Finding>, never, RunStore | Lease> {
    const files = yield* Files
    const defects = yield* defectsOf(entry)
    if (defects.length === 0) return []
    const there = yield* Effect.result(files.lstat(entry.dir))
    if (Result.isFailure(there) && there.failure.code === "ENOENT") return []
    const outcomes = (yield* outcomesOf(entry, defects, options)) ?? []
    return outcomes.map((outcome, index) => {
      const { fault, where } = defects[index]!
      return finding(fault, where, { id: entry.id, outcome })
    })
  }
)
