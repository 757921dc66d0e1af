/** Looking at bundles that nobody has read yet, or that were not finished when they were read last. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Holder } from "../Holder.ts"
import * as Crash from "../internal/Crash.ts"
import { Files } from "../internal/Files.ts"
import type { LeaseError, Target } from "../Lease.ts"
import { describeDoubt } from "../Liveness.ts"
import * as Recovery from "../Recovery.ts"
import type { Row } from "../RunIndex.ts"
import { isTerminal, type RecordError, type RunRecord } from "../RunRecord.ts"
import type { Entry, RunStore } from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import { isSettled } from "./Discovery.ts"
import { type Frame, isOver, type Pass, rowOf, tellFailure, tellRecovery } from "./Pass.ts"

/**
 * What is wrong with a bundle in which lies the record of another.
 *
 * @internal
 */
export const foreign = ({ id }: RunRecord): string => `its record is that of ${id}`

/** @internal */
export const unknownRow = (row: Row, problem: string, now: number, stamp?: string | undefined): Row => ({
  ...row,
  state: "unknown",
  status: "unknown",
  problem,
  stamp,
  lookedAt: now
})

/** What a record is read by, as it looks from outside: the file or, where there is none, the directory that it is to be in. */
const stampOf = Effect.fnUntraced(function*({ now, store }: Pass, { id }: Row) {
  const files = yield* Files
  const dir = store.dir(id)
  const found = yield* files.lstat(`${dir}/run.json`).pipe(
    Effect.catchIf(({ code }) => code === "ENOENT", () => files.lstat(dir)),
    Effect.result
  )
  if (Result.isFailure(found)) return undefined
  const { ctimeNanos, ino, size } = found.success
  return isSettled(ctimeNanos, now) ? `${ino} ${size} ${ctimeNanos}` : undefined
})

/** A program that comes after this one may make more of it. */
const maxAgeMillis = 24 * 60 * 60 * 1000

/**
 * Whether there is no sense in reading a bundle again: what is wrong with it is its record, and that has not changed.
 *
 * @internal
 */
export const isAsItWas = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  if (row.state !== "unknown" || row.stamp === undefined || pass.now - row.lookedAt > maxAgeMillis) return false
  const { asTheyWere } = pass.ledger
  if (!asTheyWere.has(row.id) && row.stamp !== (yield* stampOf(pass, row))) return false
  asTheyWere.add(row.id)
  return true
})

/** What may be otherwise the next time though nothing has changed there is read then. */
const mayPass = ({ reason }: RecordError) =>
  reason._tag === "Unreadable" || reason._tag === "NewerVersion" || reason._tag === "NotABundle"

const unreadable = Effect.fnUntraced(function*(pass: Pass, row: Row, error: RecordError) {
  return unknownRow(row, error.message, pass.now, mayPass(error) ? undefined : yield* stampOf(pass, row))
})

const live = (pass: Pass, record: RunRecord, row: Row, holders: ReadonlyArray<Holder>) => {
  pass.ledger.holders.set(row.id, holders)
  return rowOf(pass, record, row, "running")
}

/** What a record would say that has a crash for its end, whether or not it can be written. */
const crashedRow = (pass: Pass, { dir }: Entry, record: RunRecord, row: Row) =>
  Effect.flatMap(Crash.crashed(record, dir, pass.now), (crashed) => rowOf(pass, crashed, row, "finished"))

const unrecovered = Effect.fnUntraced(
  function*(pass: Pass, error: LeaseError | StoreError, entry: Entry, record: RunRecord, row: Row) {
    if (error._tag === "LeaseError") {
      if (error.reason._tag === "Held") return yield* live(pass, record, row, error.reason.holders)
      return error.reason._tag === "RunGone" ? undefined : unknownRow(row, error.message, pass.now)
    }
    if (error.reason._tag !== "System") return unknownRow(row, error.message, pass.now)
    // It is dead all the same, and may be just what stands in the way of writing it down.
    pass.ledger.unwritten.set(entry.id, error.message)
    return yield* crashedRow(pass, entry, record, row)
  }
)

/** A claim is the proof that its owner is dead; whoever slipped in since the look keeps it. */
const writeEnd = (frame: Frame, target: Target) =>
  frame.lease.claim(target).pipe(
    Effect.flatMap((claim) => Recovery.recover(claim, { foundAt: frame.now, brief: true })),
    Effect.scoped,
    Effect.uninterruptible,
    Effect.result
  )

const recover = Effect.fnUntraced(function*(pass: Pass, entry: Entry, record: RunRecord, row: Row) {
  if (pass.dryRun) {
    yield* tellRecovery(pass, entry.id)
    return yield* crashedRow(pass, entry, record, row)
  }
  const recovered = yield* writeEnd(pass, entry)
  if (Result.isFailure(recovered)) return yield* unrecovered(pass, recovered.failure, entry, record, row)
  yield* tellRecovery(pass, entry.id)
  return yield* rowOf(pass, recovered.success, row, "finished")
})

/** What somebody else is taking away, or is about to put back, looks broken on the way. */
const readAgain = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  const again = yield* Effect.result(pass.store.get(row.id))
  return Result.isSuccess(again) ? yield* read(pass, again.success, row, true) : undefined
})

const read = Effect.fnUntraced(function*(
  pass: Pass,
  entry: Entry,
  row: Row,
  isAgain = false
): Effect.fn.Return<Row | undefined, never, RunStore> {
  if (Result.isFailure(entry.record)) return yield* unreadable(pass, row, entry.record.failure)
  const record = entry.record.success
  if (record.id !== entry.id) return unknownRow(row, foreign(record), pass.now, yield* stampOf(pass, row))
  // One that has ended and was held all the same is asked about again, lest it be claimed in vain each time.
  if (isTerminal(record) && row.state !== "running") return yield* rowOf(pass, record, row, "finished")
  const liveness = yield* pass.store.liveness(entry)
  switch (liveness._tag) {
    case "Live":
      return yield* live(pass, record, row, liveness.holders)
    case "Unknown":
      if (!isAgain) return yield* readAgain(pass, row)
      return unknownRow(yield* rowOf(pass, record, row, "unknown"), describeDoubt(liveness.doubt), pass.now)
    case "Dead":
      if (isTerminal(record)) return yield* rowOf(pass, record, row, "finished")
      return yield* recover(pass, entry, record, row)
  }
})

/**
 * Reads a bundle, brings a crashed one's record to an end, and gives its row as it is now; nothing when it has gone.
 *
 * @internal
 */
export const look = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  pass.ledger.looked++
  const entry = yield* Effect.result(pass.store.get(row.id))
  const fresh = Result.isSuccess(entry) ? yield* read(pass, entry.success, row) : undefined
  yield* fresh === undefined ? pass.session.remove(row.id) : pass.session.put(fresh)
  return fresh
})

/**
 * Recovery comes first: a run that died is brought to its end before any policy is asked about it. Half of what a pass
 * may look at goes here, longest unseen first, so that the other half is left for what the policy comes to.
 *
 * @internal
 */
export const settle = Effect.fnUntraced(function*(pass: Pass) {
  const { ledger, session } = pass
  const mayLook = Math.ceil(pass.budget.maxLooked / 2)
  const unknowns = yield* session.unknowns
  // What is passed over stays in front of those behind it, which must have their turn all the same.
  const mayPassOver = unknowns <= mayLook ? unknowns : 0
  const end = ledger.looked + mayLook
  for (const row of yield* session.unsettled(mayLook + mayPassOver)) {
    if (ledger.looked >= end || (yield* isOver(pass))) break
    if (row.id === pass.own || (mayPassOver > 0 && (yield* isAsItWas(pass, row)))) continue
    yield* look(pass, row)
  }
})

/**
 * A limit in bytes needs all sizes up to it: what the policy has left of the budget reads on, for the next pass to measure.
 *
 * @internal
 */
export const readOn = Effect.fnUntraced(function*(pass: Pass) {
  const { budget, ledger, policy, session } = pass
  if (policy.maxBytes === undefined) return
  for (const row of yield* session.unsettled(Math.max(0, budget.maxLooked - ledger.looked))) {
    if (row.lookedAt > 0 || (yield* isOver(pass))) break
    if (row.id !== pass.own) yield* look(pass, row)
  }
})

/**
 * Has the next pass look again at crashed runs that stay without an end in their record.
 *
 * @internal
 */
export const remindOfUnwritten = Effect.fnUntraced(function*(pass: Pass) {
  for (const id of pass.ledger.unwritten.keys()) {
    const row = yield* pass.session.get(id)
    if (row !== undefined) yield* pass.session.put({ ...row, state: "listed", lookedAt: 0 })
  }
})

/**
 * Tries once more to write those ends, for which there may be space by now.
 *
 * @internal
 */
export const writeUnwritten = Effect.fnUntraced(function*(frame: Frame) {
  for (const id of frame.ledger.unwritten.keys()) {
    if (yield* isOver(frame)) break
    const written = yield* writeEnd(frame, { id, dir: frame.store.dir(id) })
    if (Result.isSuccess(written)) yield* tellRecovery(frame, id)
    // Whoever has it by now has brought it to its end.
    else if (written.failure._tag === "StoreError") yield* tellFailure(frame, id, written.failure.message)
  }
})
