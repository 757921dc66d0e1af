/** What the steps of one pass share: what they work with, and what has been done and found so far. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Holder } from "../Holder.ts"
import * as ArchivePlace from "../internal/ArchivePlace.ts"
import type { Lease } from "../Lease.ts"
import type { Budget } from "../RetentionBudget.ts"
import type { BundleFacts } from "../RetentionFacts.ts"
import type { RetentionPolicy } from "../RetentionPolicy.ts"
import type { KeepReason } from "../RetentionReason.ts"
import { reasonText } from "../RetentionReason.ts"
import { type Leftovers, PassEvent, type Report } from "../RetentionReport.ts"
import type { RunId } from "../RunId.ts"
import type { Row, Session } from "../RunIndex.ts"
import { type RunRecord, toMillis } from "../RunRecord.ts"
import type { RunStore } from "../RunStore.ts"

/**
 * What a pass is from its beginning to its end.
 *
 * @internal
 */
export interface Frame {
  readonly store: RunStore["Service"]
  readonly lease: Lease["Service"]
  readonly policy: RetentionPolicy
  readonly budget: Budget
  readonly dryRun: boolean
  /** The time that the policy is asked about, and when the pass has to be over, in milliseconds. */
  readonly now: number
  readonly until: number
  /** The run that this pass is a part of, which it never considers. */
  readonly own: RunId | undefined
  readonly ledger: Ledger
}

/**
 * A pass with an index to work by.
 *
 * @internal
 */
export interface Pass extends Frame {
  readonly session: Session
}

/**
 * What is owed of a bundle of which something failed.
 *
 * @internal
 */
export type Failing = "failed" | "notUndone"

/**
 * What a pass has done so far. It is kept outside the steps, so that a pass that is stopped can still say it.
 *
 * @internal
 */
export interface Ledger {
  looked: number
  /** Bundles that were measured for a limit in bytes, or took too long for it. */
  readonly sized: Set<RunId>
  /** Bundles that a claim, or the system, kept from being removed. */
  readonly refused: Set<RunId>
  /** What the system said when the trash took no further names: on a full disk some have to go from it first. */
  trashFull: string | undefined
  readonly removed: Array<{ readonly id: RunId; readonly reason: string; readonly bytes: number | null }>
  readonly recovered: Array<{ readonly id: RunId }>
  readonly trimmed: Array<Report["trimmed"][number]>
  readonly archived: Array<Report["archived"][number]>
  readonly expired: Array<Report["expired"][number]>
  /** Bytes of bundles that were packed, or were to be. */
  packed: number
  /** Bundles that failed in this pass, and how many were tried that had failed in an earlier one. */
  readonly failedNow: Map<RunId, Failing>
  retried: number
  /** Bundles whose record could not be read, and is as it was then. */
  readonly asTheyWere: Set<RunId>
  /** Crashed runs whose record could not be brought to its end, on a full disk for one, and why. */
  readonly unwritten: Map<RunId, string>
  readonly kept: Map<RunId, KeepReason>
  /** Who was found to hold what is live. */
  readonly holders: Map<RunId, ReadonlyArray<Holder>>
  /** Bundles that no step looked at, since no limit comes to them. */
  keptElsewhere: number
  readonly failed: Array<{ readonly id: string; readonly reason: string }>
  unlinked: number
  /** Entries of the trash that nothing stands in the way of yet: space that is on its way back. */
  leaving: number
  /** Entries of the trash that are gone. */
  emptied: number
  freedBytes: number
  /** Counted anew by a pass that begins anew; those that failed are in {@link failedNow}. */
  left: { -readonly [Key in keyof Leftovers]: Leftovers[Key] }
  readonly tell: (event: PassEvent) => Effect.Effect<void>
}

/** @internal */
export const noLeftovers = (): Ledger["left"] => ({
  overBudget: 0,
  overBudgetBytes: 0,
  unknown: 0,
  failed: 0,
  notUndone: 0,
  inTrash: 0,
  stuck: 0,
  unmeasured: 0,
  toMeasure: 0,
  toGoThen: 0,
  unlisted: 0,
  toTrim: 0,
  toArchive: 0,
  toExpire: 0,
  stopped: 0
})

/** @internal */
export const makeLedger = (tell: Ledger["tell"]): Ledger => ({
  looked: 0,
  sized: new Set(),
  refused: new Set(),
  failedNow: new Map(),
  retried: 0,
  trashFull: undefined,
  removed: [],
  recovered: [],
  trimmed: [],
  archived: [],
  expired: [],
  packed: 0,
  asTheyWere: new Set(),
  unwritten: new Map(),
  kept: new Map(),
  holders: new Map(),
  keptElsewhere: 0,
  failed: [],
  unlinked: 0,
  leaving: 0,
  emptied: 0,
  freedBytes: 0,
  left: noLeftovers(),
  tell
})

/** @internal */
export const isOver = ({ until }: Frame): Effect.Effect<boolean> =>
  Effect.map(Clock.currentTimeMillis, (now) => now >= until)

/**
 * Rows that are read from the index at a time.
 *
 * @internal
 */
export const chunk = 64

/**
 * How many rows may be gone through. So many may be passed over for each that may be read: what is spared, pinned or not
 * due costs no more than that.
 *
 * @internal
 */
export const maxScanned = ({ budget }: Frame): number => 16 * budget.maxLooked

/**
 * Bundles that failed before are tried again, but only so many in one pass, so that they hold up nobody.
 *
 * @internal
 */
export const maxRetried = 8

/**
 * Which of them it is the turn of, and how many are left for other passes.
 *
 * @internal
 */
export const inTurns = (failing: Iterable<Row>, atMost: number) => {
  const longestAgoFirst = [...failing].sort((left, right) => left.lookedAt - right.lookedAt)
  const tried = longestAgoFirst.slice(0, Math.max(0, atMost))
  return { tried, left: longestAgoFirst.length - tried.length }
}

/** @internal */
export const tellFailure = ({ ledger }: Frame, id: string, reason: string): Effect.Effect<void> => {
  ledger.failed.push({ id, reason })
  return ledger.tell(PassEvent.Failed({ id, reason }))
}

/** @internal */
export const tellRecovery = ({ ledger }: Frame, id: RunId): Effect.Effect<void> => {
  ledger.unwritten.delete(id)
  ledger.recovered.push({ id })
  return ledger.tell(PassEvent.Recovered({ id }))
}

/** @internal */
export const tellKept = ({ ledger }: Pass, id: RunId, reason: KeepReason, clockAhead: boolean): Effect.Effect<void> => {
  const isTold = ledger.kept.get(id)?._tag === reason._tag
  ledger.kept.set(id, reason)
  return isTold
    ? Effect.void
    : ledger.tell(PassEvent.Kept({ id, reason, clockAhead, holders: ledger.holders.get(id) ?? [] }))
}

/** @internal */
export const tellRemoved = (
  { ledger }: Pass,
  removed: Telling<"Removed">
): Effect.Effect<void> => {
  const { bytes, id, reason } = removed
  ledger.unwritten.delete(id)
  ledger.kept.delete(id)
  ledger.removed.push({ id, reason: reasonText(reason), bytes: bytes ?? null })
  return ledger.tell(PassEvent.Removed(removed))
}

type Telling<Tag extends PassEvent["_tag"]> = Omit<Extract<PassEvent, { readonly _tag: Tag }>, "_tag">

/** @internal */
export const tellTrimmed = ({ ledger }: Pass, trimmed: Telling<"Trimmed">): Effect.Effect<void> => {
  const { bytes, id, reason } = trimmed
  ledger.trimmed.push({ id, paths: reason.paths, bytes: bytes ?? null })
  return ledger.tell(PassEvent.Trimmed(trimmed))
}

/** @internal */
export const tellArchived = ({ ledger }: Pass, archived: Telling<"Archived">): Effect.Effect<void> => {
  const { bytes, id, reason } = archived
  // Until now it was one of those that stay.
  if (!ledger.kept.delete(id)) ledger.keptElsewhere = Math.max(0, ledger.keptElsewhere - 1)
  ledger.archived.push({ id, reason: reasonText(reason), bytes: bytes ?? null })
  return ledger.tell(PassEvent.Archived(archived))
}

/** @internal */
export const tellExpired = ({ ledger }: Pass, expired: Telling<"Expired">): Effect.Effect<void> => {
  ledger.expired.push(expired)
  return ledger.tell(PassEvent.Expired(expired))
}

/**
 * What a policy is asked about a row. A finished one has not been probed: its claim will tell.
 *
 * @internal
 */
export const factsOf = (row: Row): BundleFacts => ({
  id: row.id,
  name: row.name,
  status: row.state === "listed" ? "running" : row.status,
  endedAt: row.endedAt,
  firstSeenEnded: row.firstSeenEnded,
  bytes: row.bytes,
  tags: row.tags,
  pinned: row.pin !== undefined,
  pinReason: row.pin,
  trimmed: row.trimmed,
  liveness: row.state === "running" ? "live" : row.state === "unknown" ? "unknown" : "unprobed",
  unknownReason: row.problem
})

/** A run that was restored is as good as one that ended then. */
const endOf = (record: RunRecord, restoredAt: number | undefined) =>
  Math.max(toMillis(record.endedAt ?? record.startedAt), restoredAt ?? Number.NEGATIVE_INFINITY)

/**
 * A row from a record that was just read, with what was known before and the record cannot know.
 *
 * @internal
 */
export const rowOf = Effect.fnUntraced(function*(pass: Frame, record: RunRecord, before: Row, state: Row["state"]) {
  const restoredAt = yield* ArchivePlace.restoredAt(pass.store.root, before.id)
  return makeRow(record, before, state, pass.now, restoredAt)
})

const makeRow = (
  record: RunRecord,
  before: Row,
  state: Row["state"],
  now: number,
  restoredAt: number | undefined
): Row => ({
  id: before.id,
  state,
  name: record.name,
  status: record.status,
  tags: record.tags,
  pin: record.pin?.reason,
  endedAt: endOf(record, restoredAt),
  firstSeenEnded: state === "finished" ? before.firstSeenEnded ?? now : undefined,
  bytes: state === "finished" ? before.bytes ?? record.bytes?.value : undefined,
  problem: undefined,
  stamp: undefined,
  failures: before.failures,
  // Whoever trims asks the record.
  trimmed: false,
  lookedAt: now
})
