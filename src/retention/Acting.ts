/** Doing what was planned, one bundle at a time: claim, read again, ask again, undo, and only then rename. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Holder } from "../Holder.ts"
import * as Crash from "../internal/Crash.ts"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import * as Withdrawal from "../internal/Withdrawal.ts"
import type { LeaseError } from "../Lease.ts"
import { describeDoubt } from "../Liveness.ts"
import { describeFailures } from "../OnRemove.ts"
import { type Decision, recheck } from "../RetentionDecision.ts"
import { KeepReason } from "../RetentionReason.ts"
import type { IndexBroken, Row } from "../RunIndex.ts"
import type { RunRecord } from "../RunRecord.ts"
import { foreign, unknownRow } from "./Looking.ts"
import { factsOf, type Failing, isOver, type Pass, rowOf, tellFailure, tellKept, tellRemoved } from "./Pass.ts"
import type { Planned } from "./Planning.ts"

type Removal = Extract<Decision, { readonly action: "remove" }>

const isFull = ({ code }: Errno) => code === "ENOSPC" || code === "EDQUOT"

/** What somebody else is taking away looks broken on the way, and nothing keeps it. */
const unlessGone = Effect.fnUntraced(function*(pass: Pass, { id }: Row, keep: Effect.Effect<void, IndexBroken>) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(pass.store.dir(id)))
  const isGone = Result.isFailure(there) && there.failure.code === "ENOENT"
  yield* isGone ? pass.session.remove(id) : keep
})

/** @internal */
export const keepUnknown = (pass: Pass, row: Row, detail: string, clockAhead = false) =>
  unlessGone(
    pass,
    row,
    Effect.andThen(
      pass.session.put(unknownRow(row, detail, pass.now)),
      tellKept(pass, row.id, KeepReason.Unknown({ detail }), clockAhead)
    )
  )

/** Nor is it asked for again before a look has found it free. */
const keepLive = Effect.fnUntraced(
  function*(pass: Pass, row: Row, holders: ReadonlyArray<Holder>, clockAhead: boolean) {
    const { id } = row
    pass.ledger.holders.set(id, holders)
    yield* pass.session.put({ ...row, state: "running", bytes: undefined, lookedAt: pass.now })
    yield* tellKept(pass, id, KeepReason.Live(), clockAhead)
  }
)

/**
 * What keeps a bundle that could not be claimed. One that has gone is kept by nothing, which is no failure.
 *
 * @internal
 */
export const keepUnclaimed = Effect.fnUntraced(
  function*(pass: Pass, row: Row, { reason, message }: LeaseError, clockAhead = false) {
    switch (reason._tag) {
      case "Held":
      case "Claimed":
        return yield* keepLive(pass, row, reason.holders, clockAhead)
      case "RunGone":
        return yield* pass.session.remove(row.id)
      default:
        return yield* keepUnknown(
          pass,
          row,
          reason._tag === "Undecided" ? describeDoubt(reason.doubt) : message,
          clockAhead
        )
    }
  }
)

/** @internal */
export const keepFailed = (pass: Pass, row: Row, why: string, debt: Failing = "failed") =>
  unlessGone(
    pass,
    row,
    Effect.gen(function*() {
      // Told first: the index may break, and a pass that begins anew must not try it, and undo in vain, once more.
      pass.ledger.failedNow.set(row.id, debt)
      yield* tellFailure(pass, row.id, why)
      yield* pass.session.put({ ...row, failures: row.failures + 1, lookedAt: pass.now })
    })
  )

/** What a plan removes is left over until it is tried: a pass may be stopped at any moment. */
const leaveOver = ({ ledger: { left } }: Pass, row: Row, bundles: 1 | -1) => {
  left.overBudget += bundles
  left.overBudgetBytes += bundles * (row.bytes ?? 0)
}

/** Why a bundle that was to go stays, and what is known of it now. */
type Stay =
  | { readonly _tag: "Foreign"; readonly detail: string }
  | { readonly _tag: "Kept"; readonly keep: KeepReason; readonly now: Row }

/**
 * What a record says in whose bundle nobody works. What has crashed need not have its end written down to be removed: on a
 * full disk it could not.
 *
 * @internal
 */
export const ended = (pass: Pass, { id }: Row, found: RunRecord) =>
  found.status === "running" ? Crash.crashed(found, pass.store.dir(id), pass.now) : Effect.succeed(found)

/** Everything is asked again of the record as it is now; the decision only said where to look. */
const staysIn = (pass: Pass, { id }: Removal, row: Row) =>
  Effect.fnUntraced(function*(found: RunRecord): Effect.fn.Return<Stay | undefined> {
    if (found.id !== id) return { _tag: "Foreign", detail: foreign(found) }
    const record = yield* ended(pass, row, found)
    const fresh = yield* rowOf(pass, record, row, "finished")
    const keep = recheck(factsOf(row), { ...factsOf(fresh), liveness: "dead" }, pass.policy, pass.now)
    if (keep === undefined) return undefined
    // A crashed run that stays is brought to its end by the next look.
    return { _tag: "Kept", keep, now: record === found ? fresh : { ...fresh, state: "listed", lookedAt: 0 } }
  })

const conclude = Effect.fnUntraced(
  function*(pass: Pass, decision: Removal, row: Row, ended: Withdrawal.Ended<Stay>) {
    const { clockAhead, id, reason } = decision
    switch (ended._tag) {
      case "Done":
        if (!pass.dryRun) pass.ledger.left.inTrash++
        // Told first: the index may break, and then the pass begins anew and does not come by here again.
        yield* tellRemoved(pass, { id, reason, bytes: row.bytes })
        return yield* pass.session.remove(id)
      case "Stays": {
        const { why } = ended
        if (why._tag === "Foreign") return yield* keepUnknown(pass, row, why.detail, clockAhead)
        yield* pass.session.put(why.now)
        return yield* tellKept(pass, id, why.keep, clockAhead)
      }
      case "NotUndone":
        return yield* keepFailed(pass, row, describeFailures(ended.failures), "notUndone")
      case "Late":
        return leaveOver(pass, row, 1)
    }
  }
)

/** The trash takes no more before it is swept, or the system would not have it moved. */
const keepUnmoved = Effect.fnUntraced(function*(pass: Pass, row: Row, errno: Errno) {
  if (!isFull(errno)) return yield* keepFailed(pass, row, errno.message)
  pass.ledger.trashFull = errno.message
  leaveOver(pass, row, 1)
})

const claimAndRemove = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  const claim = yield* pass.lease.claim({ id: row.id, dir: pass.store.dir(row.id) })
  const stays = staysIn(pass, decision, row)
  yield* conclude(
    pass,
    decision,
    row,
    yield* Withdrawal.withdraw(pass.store.root, claim, { stays, until: pass.until })
  )
})

/**
 * What would come of a bundle that nobody works in, as far as that can be told without doing it: a claim makes a lease
 * where there is none, and so a dry run only asks.
 *
 * @internal
 */
export const foresee = Effect.fnUntraced(function*<E, R>(
  pass: Pass,
  row: Row,
  clockAhead: boolean,
  act: (record: RunRecord) => Effect.Effect<void, E, R>
) {
  const entry = yield* Effect.result(pass.store.get(row.id))
  if (Result.isFailure(entry)) return yield* pass.session.remove(row.id)
  const found = yield* Effect.fromResult(entry.success.record)
  const liveness = yield* pass.store.liveness(entry.success)
  switch (liveness._tag) {
    case "Live":
      return yield* keepLive(pass, row, liveness.holders, clockAhead)
    case "Unknown":
      return yield* keepUnknown(pass, row, describeDoubt(liveness.doubt), clockAhead)
    case "Dead":
      return yield* act(found)
  }
})

const foreseeRemoval = (pass: Pass, decision: Removal, row: Row) =>
  foresee(
    pass,
    row,
    decision.clockAhead,
    Effect.fnUntraced(function*(record) {
      const why = yield* staysIn(pass, decision, row)(record)
      const failures = Withdrawal.notUndoable(record)
      yield* conclude(
        pass,
        decision,
        row,
        why !== undefined
          ? { _tag: "Stays", why }
          : failures.length > 0
          ? { _tag: "NotUndone", failures }
          : { _tag: "Done", record }
      )
    })
  )

const remove = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  const { ledger } = pass
  ledger.looked++
  const before = ledger.removed.length
  yield* (pass.dryRun ? foreseeRemoval : claimAndRemove)(pass, decision, row).pipe(
    Effect.catchTags({
      LeaseError: (error) => keepUnclaimed(pass, row, error, decision.clockAhead),
      RecordError: (error) => keepUnknown(pass, row, error.message, decision.clockAhead),
      Errno: (errno) => keepUnmoved(pass, row, errno)
    })
  )
  if (ledger.removed.length === before) ledger.refused.add(row.id)
})

const unwanted: ReadonlySet<string> = new Set(["WithinLimits", "EmptyPolicy"])

/**
 * Carries a plan out, oldest first, within the budget. Between two bundles the pass may be interrupted, and no bundle is
 * ever half removed.
 *
 * @internal
 */
export const act = Effect.fnUntraced(function*(pass: Pass, { decisions, rows }: Planned) {
  const { budget, ledger } = pass
  for (const { action, id } of decisions) {
    const row = rows.get(id)
    if (action === "remove" && row !== undefined) leaveOver(pass, row, 1)
  }
  for (const decision of decisions) {
    const row = rows.get(decision.id)
    if (row === undefined) continue
    if (decision.action === "keep") {
      if (decision.reason._tag === "Unprobed") ledger.left.overBudget++
      else if (unwanted.has(decision.reason._tag)) ledger.kept.set(decision.id, decision.reason)
      else yield* tellKept(pass, decision.id, decision.reason, decision.clockAhead)
      continue
    }
    if (decision.action !== "remove") continue
    const isSpent = ledger.removed.length >= budget.maxRemoved || ledger.refused.size >= budget.maxLooked
    if (isSpent || ledger.trashFull !== undefined || (yield* isOver(pass))) continue
    leaveOver(pass, row, -1)
    yield* Effect.uninterruptible(Effect.scoped(remove(pass, decision, row)))
  }
})
