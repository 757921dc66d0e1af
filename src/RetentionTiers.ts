/**
 * The tiers of a policy: what becomes of finished bundles that no limit takes, once they have been over for so long.
 * First parts of them go (`trim`), then they become archives (`archive`).
 *
 * A tier takes nothing that a policy means to keep out of the store, so keep rules do not stand in its way. A pin does:
 * it is an order to leave a bundle as it is.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import { type BundleFacts, endOf, guard, stateOf } from "./RetentionFacts.ts"
import type { RetentionPolicy } from "./RetentionPolicy.ts"
import { TierReason } from "./RetentionReason.ts"

/**
 * Whether a policy has tiers.
 *
 * @category guards
 * @since 0.1.0
 */
export const hasTiers = ({ archive, trim }: RetentionPolicy): boolean => trim !== undefined || archive !== undefined

/**
 * Whether a policy limits what is archived.
 *
 * @category guards
 * @since 0.1.0
 */
export const hasArchiveLimits = ({ archiveMaxAge, archiveMaxBytes }: RetentionPolicy): boolean =>
  archiveMaxAge !== undefined || archiveMaxBytes !== undefined

/**
 * The policy without its tiers: the rules of what stays in the store at all.
 *
 * @category getters
 * @since 0.1.0
 */
export const withoutTiers = ({ archive: _1, trim: _2, ...policy }: RetentionPolicy): RetentionPolicy =>
  policy as RetentionPolicy

/**
 * Bundles that ended before this are due for trimming or archiving, in milliseconds since 1970.
 *
 * @category getters
 * @since 0.1.0
 */
export const dueBefore = ({ after }: { readonly after: Duration.Duration }, now: number): number =>
  now - Duration.toMillis(after)

/**
 * What a tier does with a bundle that stays in the store, if anything. Nothing that is live, unknown or pinned is ever
 * touched. `facts.trimmed` says whether the policy's globs have been trimmed since the bundle ended.
 *
 * @category decisions
 * @since 0.1.0
 */
export const tierOf = (facts: BundleFacts, policy: RetentionPolicy, now: number): TierReason | undefined => {
  if (guard(facts) !== undefined || stateOf(facts) !== "finished") return undefined
  const { archive, trim } = policy
  const end = endOf(facts, now)
  if (trim !== undefined && facts.trimmed !== true && end < dueBefore(trim, now)) {
    return TierReason.TrimAfter({ millis: Duration.toMillis(trim.after), paths: trim.paths })
  }
  return archive !== undefined && end < dueBefore(archive, now)
    ? TierReason.ArchiveAfter({ millis: Duration.toMillis(archive.after) })
    : undefined
}
