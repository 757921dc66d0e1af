/**
 * What the tiers of a policy do with bundles that stay: trimming, then archiving, oldest first, each under its claim and
 * after everything was asked again of the record as it is then.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Archiving from "../archive/Archiving.ts"
import type { ArchiveError } from "../ArchiveError.ts"
import * as RecordFile from "../internal/RecordFile.ts"
import { trimClaimed } from "../internal/Trimming.ts"
import * as Withdrawal from "../internal/Withdrawal.ts"
import type { Claim, LeaseError } from "../Lease.ts"
import { describeFailures } from "../OnRemove.ts"
import * as Recovery from "../Recovery.ts"
import { KeepReason, type TierReason } from "../RetentionReason.ts"
import { dueBefore, tierOf } from "../RetentionTiers.ts"
import { type IndexBroken, type Position, position, type Row } from "../RunIndex.ts"
import { isTerminal, type RecordError, type RunRecord } from "../RunRecord.ts"
import type { RunStore } from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import type { TrimError } from "../TrimError.ts"
import { covers } from "../TrimHistory.ts"
import { checkPaths } from "../TrimPaths.ts"
import * as Acting from "./Acting.ts"
import { foreign } from "./Looking.ts"
import {
  chunk,
  factsOf,
  inTurns,
  isOver,
  maxRetried,
  maxScanned,
  type Pass,
  rowOf,
  tellArchived,
  tellKept,
  tellRecovery,
  tellTrimmed
} from "./Pass.ts"
import { measure } from "./Planning.ts"

type Tier = TierReason["_tag"]

/** How far a pass may go: what was trimmed and archived counts as what was removed does. */
const isSpent = Effect.fnUntraced(function*(pass: Pass) {
  const { archived, removed, trimmed } = pass.ledger
  return removed.length + archived.length + trimmed.length >= pass.budget.maxRemoved || (yield* isOver(pass))
})

/** What is known to be in nobody's reach is not asked for again in the same pass. */
const mayBeDue = ({ ledger, own }: Pass, row: Row) =>
  row.state === "finished" && row.pin === undefined && row.id !== own && !ledger.refused.has(row.id) &&
  !ledger.failedNow.has(row.id)

// == under the claim

/** A record that could not be brought to its end, on a full disk for one, when the pass looked at it first. */
const bringToEnd = Effect.fnUntraced(function*(pass: Pass, claim: Claim, found: RunRecord) {
  if (isTerminal(found)) return found
  const record = yield* Recovery.recover(claim, { foundAt: pass.now, brief: true })
  yield* tellRecovery(pass, record.id)
  return record
})

/** Asks again of the record as it is now. Gives nothing, and the index is told why, where the tier does not want it. */
const askAgain = Effect.fnUntraced(function*(pass: Pass, claim: Claim, row: Row, tier: Tier) {
  const found = yield* Effect.fromResult(yield* RecordFile.read(claim.target.dir))
  if (found.id !== row.id) return void (yield* Acting.keepUnknown(pass, row, foreign(found)))
  const { fresh, reason } = yield* judge(pass, yield* bringToEnd(pass, claim, found), row, tier)
  return reason === undefined ? void (yield* pass.session.put(fresh)) : { fresh, reason }
})

const judge = Effect.fnUntraced(function*(pass: Pass, record: RunRecord, row: Row, tier: Tier) {
  const { policy } = pass
  // Of a dry run no record tells.
  const trimmed = policy.trim !== undefined && (covers(record, policy.trim.paths) || (pass.dryRun && row.trimmed))
  const fresh = { ...(yield* rowOf(pass, record, row, "finished")), trimmed }
  const reason = tierOf({ ...factsOf(fresh), liveness: "dead", trimmed }, policy, pass.now)
  return { fresh, reason: reason?._tag === tier ? reason : undefined }
})

/** What is known of a bundle that so many names were moved out of, which lie in the trash. */
const movedOut = ({ ledger }: Pass, row: Row, entries: number): Row => {
  if (entries === 0) return row
  ledger.left.inTrash++
  return { ...row, bytes: undefined }
}

const trim = Effect.fnUntraced(function*(pass: Pass, claim: Claim, row: Row) {
  const due = yield* askAgain(pass, claim, row, "TrimAfter")
  if (due?.reason._tag !== "TrimAfter") return
  const { fresh, reason } = due
  const paths = yield* Effect.orDie(Effect.fromResult(checkPaths(reason.paths)))
  const { bytes, entries } = yield* trimClaimed(pass.store.root, claim, paths, { brief: true })
  const moved = movedOut(pass, fresh, entries)
  yield* tellTrimmed(pass, { id: row.id, reason, bytes })
  yield* pass.session.put({ ...moved, trimmed: true })
})

/** The time is over before the archive is whole: then it comes last the next time, and others get their turn. */
const tooLong = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  pass.ledger.left.toArchive++
  yield* pass.session.put({ ...row, failures: row.failures + 1, lookedAt: pass.now })
})

const archive = Effect.fnUntraced(function*(pass: Pass, claim: Claim, row: Row) {
  const due = yield* askAgain(pass, claim, row, "ArchiveAfter")
  if (due?.reason._tag !== "ArchiveAfter") return
  const { bytes } = yield* Archiving.archive(pass.store.root, claim, {
    until: pass.until,
    interruptibly: Effect.interruptible
  })
  pass.ledger.left.inTrash++
  yield* tellArchived(pass, { id: row.id, reason: due.reason, bytes })
  yield* pass.session.remove(row.id)
})

// == one bundle

type Failure = LeaseError | StoreError | RecordError | TrimError | ArchiveError

const isFailure = (error: Failure | IndexBroken): error is Failure => error._tag !== "IndexBroken"

/** A pin may have come since; what the system refuses is tried again in later passes, after all others. */
const keep = Effect.fnUntraced(function*(pass: Pass, row: Row, error: Failure) {
  if (error._tag === "LeaseError") return yield* Acting.keepUnclaimed(pass, row, error)
  if (error._tag === "RecordError") return yield* Acting.keepUnknown(pass, row, error.message)
  const { reason } = error
  if (reason._tag === "Pinned") {
    yield* pass.session.put({ ...row, pin: reason.reason, lookedAt: pass.now })
    return yield* tellKept(pass, row.id, KeepReason.Pinned({ detail: reason.reason }), false)
  }
  if (reason._tag === "NotUndone") {
    return yield* Acting.keepFailed(pass, row, describeFailures(reason.failures), "notUndone")
  }
  if (reason._tag === "Late") return yield* tooLong(pass, row)
  if (reason._tag === "Changed") return yield* tellKept(pass, row.id, KeepReason.Changed(), false)
  const now = reason._tag === "Partial" ? movedOut(pass, row, reason.moved) : row
  yield* Acting.keepFailed(pass, now, error.message)
})

/** What a tier would make of a bundle that nobody works in. */
const foresee = Effect.fnUntraced(function*(pass: Pass, row: Row, tier: Tier, found: RunRecord) {
  if (found.id !== row.id) return yield* Acting.keepUnknown(pass, row, foreign(found))
  const record = yield* Acting.ended(pass, row, found)
  const { fresh, reason } = yield* judge(pass, record, row, tier)
  if (reason === undefined) return yield* pass.session.put(fresh)
  if (reason._tag === "TrimAfter") {
    yield* tellTrimmed(pass, { id: row.id, reason, bytes: undefined })
    return yield* pass.session.put({ ...fresh, trimmed: true })
  }
  const failures = Withdrawal.notUndoable(record)
  if (failures.length > 0) return yield* Acting.keepFailed(pass, row, describeFailures(failures), "notUndone")
  yield* tellArchived(pass, { id: row.id, reason, bytes: undefined })
})

const claimAndTake = Effect.fnUntraced(function*(pass: Pass, row: Row, tier: Tier) {
  const target = { id: row.id, dir: pass.store.dir(row.id) }
  const claim = yield* pass.lease.claim(target, { announce: true })
  yield* (tier === "TrimAfter" ? trim : archive)(pass, claim, row)
})

const takeOne = Effect.fnUntraced(function*(
  pass: Pass,
  row: Row,
  tier: Tier
): Effect.fn.Return<void, IndexBroken, RunStore> {
  const { ledger } = pass
  ledger.looked++
  const before = ledger.trimmed.length + ledger.archived.length
  const isCounted = ledger.kept.has(row.id)
  const take: Effect.Effect<void, Failure | IndexBroken, RunStore | Scope.Scope> = pass.dryRun
    ? Acting.foresee(pass, row, false, (record) => foresee(pass, row, tier, record))
    : claimAndTake(pass, row, tier)
  yield* take.pipe(
    Effect.catchIf(isFailure, (error) => keep(pass, row, error)),
    Effect.scoped,
    Effect.uninterruptible
  )
  // Until now it was one of those that no step had looked at.
  if (!isCounted && ledger.kept.has(row.id)) ledger.keptElsewhere = Math.max(0, ledger.keptElsewhere - 1)
  if (ledger.trimmed.length + ledger.archived.length === before) ledger.refused.add(row.id)
})

/**
 * Whether the size of a bundle lets this pass archive it. One that is larger than all that a pass may pack waits for one
 * that may pack more.
 */
const fits = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  const bytes = row.bytes ?? (yield* measure(pass, row)).bytes
  if (bytes === undefined || pass.ledger.packed + bytes > pass.budget.maxPacked) return false
  pass.ledger.packed += bytes
  return true
})

// == a tier

type Next = (after: Position | undefined) => Effect.Effect<ReadonlyArray<Row>, IndexBroken>

const work = Effect.fnUntraced(function*(pass: Pass, tier: Tier, before: number, next: Next) {
  const key = tier === "TrimAfter" ? "toTrim" : "toArchive"
  const { budget, ledger } = pass
  const failing: Array<Row> = []
  let tries = 0
  const attempt = Effect.fnUntraced(function*(row: Row) {
    if (!mayBeDue(pass, row)) return
    if (tries >= budget.maxLooked || (yield* isSpent(pass))) ledger.left[key]++
    else if (tier === "ArchiveAfter" && !(yield* fits(pass, row))) ledger.left[key]++
    else {
      tries++
      yield* takeOne(pass, row, tier)
    }
  })
  let reached: Position | undefined
  let isDone = false
  for (let scanned = 0; scanned < maxScanned(pass);) {
    const rows = yield* next(reached)
    const due = rows.filter((row) => position(row).endedAt < before)
    for (const row of due) {
      if (row.failures > 0) failing.push(row)
      else yield* attempt(row)
    }
    const last = due.at(-1)
    isDone = last === undefined || due.length < chunk
    if (last === undefined || isDone) break
    reached = position(last)
    scanned += due.length
    if (yield* isOver(pass)) break
  }
  // There may be more of them behind.
  if (!isDone) ledger.left[key]++
  const { left, tried } = inTurns(failing, maxRetried)
  for (const row of tried) yield* attempt(row)
  ledger.left[key] += left
})

/**
 * Trims what is due for it.
 *
 * @internal
 */
export const trimDue = Effect.fnUntraced(function*(pass: Pass): Effect.fn.Return<void, IndexBroken, RunStore> {
  const tier = pass.policy.trim
  if (tier === undefined) return
  const before = dueBefore(tier, pass.now)
  // Which bundles have been trimmed is known for one set of globs at a time.
  const key = JSON.stringify([...tier.paths].sort())
  yield* work(pass, "TrimAfter", before, (after) => pass.session.untrimmed(key, after, chunk))
})

/**
 * Archives what is due for it. Comes after the trimming, so that nothing is archived that was to be trimmed first.
 *
 * @internal
 */
export const archiveDue = Effect.fnUntraced(
  function*(pass: Pass): Effect.fn.Return<void, IndexBroken, RunStore> {
    const tier = pass.policy.archive
    if (tier === undefined) return
    yield* work(pass, "ArchiveAfter", dueBefore(tier, pass.now), (after) => pass.session.oldest(after, chunk))
  }
)
