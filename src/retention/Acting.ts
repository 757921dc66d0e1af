/** Doing what was planned, one bundle at a time: claim, read again, ask again, and only then rename into the trash. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Holder } from "../Holder.ts"
import * as Crash from "../internal/Crash.ts"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import * as RecordFile from "../internal/RecordFile.ts"
import * as RecordLock from "../internal/RecordLock.ts"
import * as Trash from "../internal/Trash.ts"
import type { LeaseError } from "../Lease.ts"
import { describeDoubt } from "../Liveness.ts"
import { type Decision, recheck } from "../RetentionDecision.ts"
import { KeepReason } from "../RetentionReason.ts"
import type { Row } from "../RunIndex.ts"
import type { RunRecord } from "../RunRecord.ts"
import { unknownRow } from "./Looking.ts"
import { factsOf, isOver, type Pass, rowOf, tellFailure, tellKept, tellRemoved } from "./Pass.ts"
import type { Planned } from "./Planning.ts"

type Removal = Extract<Decision, { readonly action: "remove" }>

const isFull = ({ code }: Errno) => code === "ENOSPC" || code === "EDQUOT"

/** @internal */
export const keepUnknown = Effect.fnUntraced(
  function*(pass: Pass, row: Row, detail: string, clockAhead = false) {
    const { id } = row
    const files = yield* Files
    const there = yield* Effect.result(files.lstat(pass.store.dir(id)))
    // What somebody else is taking away looks broken on the way.
    if (Result.isFailure(there) && there.failure.code === "ENOENT") return yield* pass.session.remove(id)
    yield* pass.session.put(unknownRow(row, detail, pass.now))
    yield* tellKept(pass, id, KeepReason.Unknown({ detail }), clockAhead)
  }
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
export const keepFailed = Effect.fnUntraced(function*(pass: Pass, row: Row, why: string) {
  yield* pass.session.put({ ...row, failures: row.failures + 1, lookedAt: pass.now })
  pass.ledger.left.failed++
  pass.ledger.failedNow.add(row.id)
  yield* tellFailure(pass, row.id, why)
})

/** What a plan removes is left over until it is tried: a pass may be stopped at any moment. */
const leaveOver = ({ ledger: { left } }: Pass, row: Row, bundles: 1 | -1) => {
  left.overBudget += bundles
  left.overBudgetBytes += bundles * (row.bytes ?? 0)
}

/** Everything is asked again of the record as it is now; the decision only said where to look. */
const removeDead = Effect.fnUntraced(
  function*(pass: Pass, found: RunRecord, { clockAhead, id, reason }: Removal, row: Row) {
    if (found.id !== id) return yield* keepUnknown(pass, row, `its record is that of ${found.id}`, clockAhead)
    const dir = pass.store.dir(id)
    // What has crashed need not have its end written down to be removed: on a full disk it could not.
    const isCrashed = found.status === "running"
    const record = isCrashed ? yield* Crash.crashed(found, dir, pass.now) : found
    const fresh = rowOf(record, row, "finished", pass.now)
    const keep = recheck(factsOf(row), { ...factsOf(fresh), liveness: "dead" }, pass.policy, pass.now)
    if (keep !== undefined) {
      // A crashed run that stays is brought to its end by the next look.
      yield* pass.session.put(isCrashed ? { ...fresh, state: "listed", lookedAt: 0 } : fresh)
      return yield* tellKept(pass, id, keep, clockAhead)
    }
    if (!pass.dryRun) {
      yield* Trash.put(pass.store.root, dir, id)
      pass.ledger.left.inTrash++
    }
    yield* pass.session.remove(id)
    yield* tellRemoved(pass, { id, reason, bytes: row.bytes })
  }
)

/** It is there no more, or the trash takes no more before it is swept, or the system would not have it moved. */
const keepUnmoved = Effect.fnUntraced(function*(pass: Pass, row: Row, errno: Errno) {
  if (errno.code === "ENOENT") return yield* pass.session.remove(row.id)
  if (!isFull(errno)) return yield* keepFailed(pass, row, errno.message)
  pass.ledger.trashFull = errno.message
  leaveOver(pass, row, 1)
})

/**
 * Under the lock of the record whoever has pinned the bundle is seen, and whoever is about to will find it gone. Who may
 * not write the record goes without, as those do who change it.
 */
const claimAndRemove = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  const { target } = yield* pass.lease.claim({ id: row.id, dir: pass.store.dir(row.id) })
  yield* Effect.catchIf(
    RecordLock.take(target.dir, { brief: true }),
    ({ code }) => code === "EACCES" || code === "ENOENT",
    () => Effect.void
  )
  yield* removeDead(pass, yield* Effect.fromResult(yield* RecordFile.read(target.dir)), decision, row)
})

/** A claim makes a lease where there is none, and so a dry run only asks. */
const foresee = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  const entry = yield* Effect.result(pass.store.get(row.id))
  if (Result.isFailure(entry)) return yield* pass.session.remove(row.id)
  const record = yield* Effect.fromResult(entry.success.record)
  const liveness = yield* pass.store.liveness(entry.success)
  switch (liveness._tag) {
    case "Live":
      return yield* keepLive(pass, row, liveness.holders, decision.clockAhead)
    case "Unknown":
      return yield* keepUnknown(pass, row, describeDoubt(liveness.doubt), decision.clockAhead)
    case "Dead":
      return yield* removeDead(pass, record, decision, row)
  }
})

const remove = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  const { ledger } = pass
  ledger.looked++
  const before = ledger.removed.length
  yield* (pass.dryRun ? foresee : claimAndRemove)(pass, decision, row).pipe(
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
