/** Doing what was planned, one bundle at a time: claim, read again, ask again, and only then rename into the trash. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import { nonce } from "../internal/io.ts"
import type { Claim, LeaseError } from "../Lease.ts"
import { describeDoubt } from "../Liveness.ts"
import * as Recovery from "../Recovery.ts"
import { type Decision, recheck } from "../RetentionDecision.ts"
import { KeepReason } from "../RetentionReason.ts"
import type { Row } from "../RunIndex.ts"
import { unknownRow } from "./Looking.ts"
import { factsOf, type Pass, rowOf, tellFailure, tellKept, tellRecovery, tellRemoved } from "./Pass.ts"
import type { Planned } from "./Planning.ts"

type Removal = Extract<Decision, { readonly action: "remove" }>

/** Windows says so of a file that a virus scanner or an indexer has open, mostly for a moment only. */
const mayPass = (errno: Errno) => errno.code === "EBUSY" || (process.platform === "win32" && errno.code === "EPERM")

/**
 * Takes a bundle out of the store by one rename. From here on it is not a run any more, whatever happens to this process.
 *
 * @internal
 */
export const toTrash = Effect.fnUntraced(function*(root: string, dir: string, id: string) {
  const files = yield* Files
  const trash = `${root}/trash`
  const to = `${trash}/${id}-${yield* nonce}`
  yield* files.rename(dir, to).pipe(
    Effect.catchIf((errno) => errno.code === "ENOENT", (errno) =>
      // The trash may have to be made; if it is there, the bundle is what is not.
      Effect.andThen(
        Effect.mapError(files.mkdir(trash), (failed) => failed.code === "EEXIST" ? errno : failed),
        files.rename(dir, to)
      )),
    Effect.retry({ times: 5, while: mayPass, schedule: Schedule.spaced("10 millis") })
  )
})

/** Why there was no claim, as a reason to keep; nothing where the bundle has gone, which is no failure. */
const reasonNotClaimed = ({ reason, message }: LeaseError): KeepReason | undefined => {
  switch (reason._tag) {
    case "Held":
    case "Claimed":
      return KeepReason.Live()
    case "RunGone":
      return undefined
    case "Undecided":
      return KeepReason.Unknown({ detail: describeDoubt(reason.doubt) })
    default:
      return KeepReason.Unknown({ detail: message })
  }
}

const keepUnclaimed = Effect.fnUntraced(
  function*(pass: Pass, { clockAhead, id }: Removal, row: Row, error: LeaseError) {
    const reason = reasonNotClaimed(error)
    if (reason === undefined) return yield* pass.session.remove(id)
    if (reason._tag === "Unknown") yield* pass.session.put(unknownRow(row, reason.detail, pass.now))
    if ("holders" in error.reason) pass.ledger.holders.set(id, error.reason.holders)
    yield* tellKept(pass, id, reason, clockAhead)
  }
)

const keepFailed = Effect.fnUntraced(function*(pass: Pass, row: Row, why: string) {
  yield* pass.session.put({ ...row, failures: row.failures + 1, lookedAt: pass.now })
  pass.ledger.left.failed++
  yield* tellFailure(pass, row.id, why)
})

/** Everything is asked again of what is read under the claim; the decision only said where to look. */
const removeClaimed = Effect.fnUntraced(
  function*(pass: Pass, claim: Claim, { clockAhead, id, reason }: Removal, row: Row) {
    const isCrashed = claim.record.status === "running"
    const record = isCrashed && !pass.dryRun ? yield* Recovery.recover(claim) : claim.record
    if (isCrashed) yield* tellRecovery(pass, id)
    const fresh = rowOf(isCrashed ? { ...record, status: "crashed" } : record, row, "finished", pass.now)
    const keep = recheck(factsOf(row), { ...factsOf(fresh), liveness: "dead" }, pass.policy, pass.now)
    if (keep !== undefined) {
      yield* pass.session.put(fresh)
      return yield* tellKept(pass, id, keep, clockAhead)
    }
    if (!pass.dryRun) {
      const renamed = yield* Effect.result(toTrash(pass.store.root, claim.target.dir, id))
      if (Result.isFailure(renamed)) {
        if (renamed.failure.code !== "ENOENT") return yield* keepFailed(pass, row, renamed.failure.message)
        return yield* pass.session.remove(id)
      }
    }
    yield* pass.session.remove(id)
    yield* tellRemoved(pass, { id, reason, bytes: row.bytes })
  }
)

const remove = Effect.fnUntraced(function*(pass: Pass, decision: Removal, row: Row) {
  pass.ledger.looked++
  const target = { id: row.id, dir: pass.store.dir(row.id) }
  const claim = yield* Effect.result(pass.lease.claim(target))
  if (Result.isFailure(claim)) return yield* keepUnclaimed(pass, decision, row, claim.failure)
  yield* Effect.catchTag(
    removeClaimed(pass, claim.success, decision, row),
    "StoreError",
    (error) => keepFailed(pass, row, error.message)
  )
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
  let tried = 0
  for (const decision of decisions) {
    const row = rows.get(decision.id)
    if (row === undefined) continue
    if (decision.action === "keep") {
      if (decision.reason._tag === "Unprobed") ledger.left.overBudget++
      else if (unwanted.has(decision.reason._tag)) ledger.kept.set(decision.id, decision.reason)
      else yield* tellKept(pass, decision.id, decision.reason, decision.clockAhead)
      continue
    }
    const isOver = tried >= budget.maxRemoved || (yield* Clock.currentTimeMillis) >= pass.until
    if (isOver) {
      ledger.left.overBudget++
      ledger.left.overBudgetBytes += row.bytes ?? 0
      continue
    }
    tried++
    yield* Effect.uninterruptible(Effect.scoped(remove(pass, decision, row)))
  }
})
