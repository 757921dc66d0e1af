/**
 * What a pass may do, what it tells as it goes, and what it says at the end.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type { Holder } from "./Holder.ts"
import { commandLine } from "./internal/ShellWords.ts"
import type { Budget } from "./RetentionBudget.ts"
import type { RetentionPolicy } from "./RetentionPolicy.ts"
import { type KeepReason, reasonKind, type RemoveReason, type TierReason } from "./RetentionReason.ts"
import { toArgs } from "./RetentionSources.ts"
import type { RunId } from "./RunId.ts"

/**
 * @category models
 * @since 0.1.0
 */
export type PassEvent = Data.TaggedEnum<{
  Removed: { readonly id: RunId; readonly reason: RemoveReason; readonly bytes: number | undefined }
  Recovered: { readonly id: RunId }
  Trimmed: {
    readonly id: RunId
    readonly reason: Extract<TierReason, { readonly _tag: "TrimAfter" }>
    readonly bytes: number | undefined
  }
  Archived: { readonly id: RunId; readonly reason: TierReason; readonly bytes: number | undefined }
  /** An archive was removed for good. */
  Expired: { readonly id: RunId; readonly reason: string; readonly bytes: number }
  /** A limit asked for it and it was kept. Those who hold a live one are named, as far as they left their names. */
  Kept: {
    readonly id: RunId
    readonly reason: KeepReason
    readonly clockAhead: boolean
    readonly holders: ReadonlyArray<Holder>
  }
  Failed: { readonly id: string; readonly reason: string }
  /** Progress of the deletion in the trash. */
  Swept: { readonly unlinked: number; readonly freedBytes: number; readonly left: number }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const PassEvent = Data.taggedEnum<PassEvent>()

/**
 * What a pass left above the policy, by reason, and the command that would pay it. `passes` is how many more of the same
 * budget it should take, where more passes can help.
 *
 * @category models
 * @since 0.1.0
 */
export interface Debt {
  readonly bundles: number
  readonly bytes: number
  readonly reasons: Readonly<Record<string, number>>
  readonly passes: number
  readonly pay: string
}

/**
 * @category models
 * @since 0.1.0
 */
export interface Report {
  readonly dryRun: boolean
  /** The policy in words. */
  readonly policy: string
  readonly looked: number
  readonly removed: ReadonlyArray<{ readonly id: RunId; readonly reason: string; readonly bytes: number | null }>
  readonly recovered: ReadonlyArray<{ readonly id: RunId }>
  readonly trimmed: ReadonlyArray<
    { readonly id: RunId; readonly paths: ReadonlyArray<string>; readonly bytes: number | null }
  >
  /** With the bytes of the archives. */
  readonly archived: ReadonlyArray<{ readonly id: RunId; readonly reason: string; readonly bytes: number | null }>
  /** Archives that were removed for good. */
  readonly expired: ReadonlyArray<{ readonly id: RunId; readonly reason: string; readonly bytes: number }>
  readonly kept: Readonly<Record<string, number>>
  readonly failed: ReadonlyArray<{ readonly id: string; readonly reason: string }>
  readonly freedBytes: number
  readonly debt: Debt | null
  /** Another pass was at work, and this one did nothing. */
  readonly otherPass: boolean
  /** The pass was told to stop before it was done. */
  readonly stopped: boolean
  readonly elapsedMs: number
}

/**
 * What is left over, by reason: a pass adds to it as it goes.
 *
 * @category models
 * @since 0.1.0
 */
export interface Leftovers {
  /** Bundles that a limit asks for and the budget did not reach. */
  readonly overBudget: number
  readonly overBudgetBytes: number
  /** Bundles that nobody can tell anything of, and that only an explicit verb removes. */
  readonly unknown: number
  readonly failed: number
  /** Bundles that stay since something that they have registered could not be undone. */
  readonly notUndone: number
  readonly inTrash: number
  /** Entries of the trash of which a sweep has left what the system will not delete. */
  readonly stuck: number
  /** Bundles whose size a limit needs and nobody has measured yet. */
  readonly unmeasured: number
  /** How many of those will fill the limit, and how many will have to go then, if they are like those that are measured. */
  readonly toMeasure: number
  readonly toGoThen: number
  /** Days whose bundles have not been listed yet. */
  readonly unlisted: number
  /** Bundles that are due for trimming and for archiving, and archives for removal. */
  readonly toTrim: number
  readonly toArchive: number
  readonly toExpire: number
  /** 1 for a pass that was stopped, which may have left more than it can say. */
  readonly stopped: number
}

const command = (policy: RetentionPolicy, ...more: ReadonlyArray<string>) =>
  commandLine(["leasehold", "prune", ...toArgs(policy), ...more])

/** What no pass can pay waits for a person. Where the verb cannot help either, it says what would mend what. */
const payOf = (left: Leftovers, policy: RetentionPolicy, passes: number) => {
  if (passes > 0) return command(policy, "--all-the-way")
  // It may be that it was the time of the pass that was too short.
  if (left.notUndone > 0) return command(policy, "--max-time", "10m")
  if (left.failed > 0) return command(policy)
  return left.stuck > 0 ? "leasehold verify --repair" : "leasehold verify --remove-unreadable"
}

/**
 * The debt that leftovers make, or `null` when there are none.
 *
 * @category constructors
 * @since 0.1.0
 */
export const debtOf = (left: Leftovers, policy: RetentionPolicy, budget: Budget, sweeps: number): Debt | null => {
  const all: ReadonlyArray<readonly [string, number]> = [
    ["budget", left.overBudget],
    ["unknown", left.unknown],
    ["failed", left.failed],
    ["notUndone", left.notUndone],
    ["inTrash", left.inTrash],
    ["stuck", left.stuck],
    ["unmeasured", left.unmeasured],
    ["unlistedDays", left.unlisted],
    ["toTrim", left.toTrim],
    ["toArchive", left.toArchive],
    ["toExpire", left.toExpire],
    ["stopped", left.stopped]
  ]
  const reasons = Object.fromEntries(all.filter(([, count]) => count > 0))
  if (Object.keys(reasons).length === 0) return null
  const removable = Math.max(1, Math.min(budget.maxRemoved, budget.maxLooked))
  const removals = Math.ceil(left.overBudget / removable)
  // In the pass that fills the limit some go already.
  const measurements = Math.ceil(left.toMeasure / Math.max(1, budget.maxLooked)) +
    Math.max(0, Math.ceil(left.toGoThen / removable) - 1)
  const once = left.unlisted > 0 || left.stopped > 0 ? 1 : 0
  const tiers = Math.ceil((left.toTrim + left.toArchive) / Math.max(1, budget.maxRemoved))
  const expiries = Math.ceil(left.toExpire / Math.max(1, budget.maxRemoved))
  const passes = Math.max(removals, measurements, once, tiers, expiries, left.inTrash > 0 ? sweeps : 0)
  return {
    bundles: left.overBudget + left.unknown + left.failed + left.notUndone + left.inTrash + left.stuck + left.toTrim +
      left.toArchive + left.toExpire,
    bytes: left.overBudgetBytes,
    reasons,
    passes,
    pay: payOf(left, policy, passes)
  }
}

/**
 * Counts by the kind of reason: `pinned`, `live`, `keepLast`.
 *
 * @category formatting
 * @since 0.1.0
 */
export const countKinds = (reasons: Iterable<KeepReason>): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const reason of reasons) {
    const kind = reasonKind(reason)
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}
