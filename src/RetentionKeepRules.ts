/**
 * The keep rules of a policy, one by one.
 *
 * A rule is asked about finished bundles from the newest to the oldest and counts for itself alone: a bundle that one
 * rule spares still takes its place in the others, so no rule weakens another.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type { BundleFacts } from "./RetentionFacts.ts"
import { periodFields, type RetentionPolicy } from "./RetentionPolicy.ts"
import { KeepReason, type Period } from "./RetentionReason.ts"
import type { Tags } from "./RunRecord.ts"

const day = 86_400_000

const monthOf = (millis: number) => {
  const { month, year } = DateTime.toPartsUtc(DateTime.makeUnsafe(millis))
  return year * 12 + month
}

const spans: { readonly [P in Period]: (millis: number) => number } = {
  hourly: (millis) => Math.floor(millis / 3_600_000),
  daily: (millis) => Math.floor(millis / day),
  // The first day of 1970 was a Thursday.
  weekly: (millis) => Math.floor((Math.floor(millis / day) + 3) / 7),
  monthly: monthOf,
  yearly: (millis) => DateTime.toPartsUtc(DateTime.makeUnsafe(millis)).year
}

/**
 * When the span of the calendar that an instant lies in begins, in milliseconds since 1970.
 *
 * @category getters
 * @since 0.1.0
 */
export const startOfSpan = (period: Period, millis: number): number =>
  DateTime.toEpochMillis(DateTime.startOf(DateTime.makeUnsafe(millis), units[period], { weekStartsOn: 1 }))

/**
 * The unit of the calendar that each period is of.
 *
 * @internal
 */
export const units = { hourly: "hour", daily: "day", weekly: "week", monthly: "month", yearly: "year" } as const

/**
 * A finished bundle, as a rule sees it. One that is clock ahead is judged, and takes nobody's place.
 *
 * @category models
 * @since 0.1.0
 */
export interface Finished {
  readonly facts: BundleFacts
  readonly end: number
  readonly clockAhead: boolean
}

/**
 * Asked of each finished bundle of a group in turn, newest first; it counts as it goes.
 *
 * @category models
 * @since 0.1.0
 */
export type KeepRule = (bundle: Finished) => KeepReason | undefined

const keepLast = (count: number): KeepRule => {
  let used = 0
  return (bundle) => {
    if (used >= count) return undefined
    if (!bundle.clockAhead) used++
    return KeepReason.KeepLast({ count })
  }
}

/** Keeps the newest of each span that has a bundle at all, so that a pause in the runs costs no place. */
const keepPeriod = (period: Period, count: number): KeepRule => {
  let used = 0
  let last: number | undefined
  return (bundle) => {
    if (used >= count) return undefined
    const span = spans[period](bundle.end)
    if (span === last) return undefined
    const nth = used + 1
    if (!bundle.clockAhead) {
      used = nth
      last = span
    }
    return KeepReason.KeepPeriod({ period, nth, count })
  }
}

const hasTag = (tags: Tags, wanted: string): boolean => {
  const at = wanted.indexOf("=")
  if (at < 0) return Object.hasOwn(tags, wanted)
  const key = wanted.slice(0, at)
  return Object.hasOwn(tags, key) && tags[key] === wanted.slice(at + 1)
}

/**
 * The keep rules that need to know of no other bundle: `keepWithin`, `keepTag`, `keepStatus`.
 *
 * @category decisions
 * @since 0.1.0
 */
export const sparedByItself = (
  facts: BundleFacts,
  end: number,
  policy: RetentionPolicy,
  now: number
): KeepReason | undefined => {
  if (policy.keepWithin !== undefined) {
    const millis = Duration.toMillis(policy.keepWithin)
    if (now - end <= millis) return KeepReason.KeepWithin({ millis })
  }
  const tag = policy.keepTag?.find((wanted) => hasTag(facts.tags, wanted))
  if (tag !== undefined) return KeepReason.KeepTag({ tag })
  const outcome = facts.status === "running" ? "crashed" : facts.status
  const status = policy.keepStatus?.find((wanted) => wanted === outcome)
  return status === undefined ? undefined : KeepReason.KeepStatus({ status })
}

/**
 * The rules of a policy, with their counts at nothing. Where several spare a bundle the first gives the reason.
 *
 * @category decisions
 * @since 0.1.0
 */
export const keepRulesOf = (policy: RetentionPolicy, now: number): ReadonlyArray<KeepRule> => {
  const rules: Array<KeepRule> = []
  if (policy.keepLast !== undefined) rules.push(keepLast(policy.keepLast))
  rules.push(({ end, facts }) => sparedByItself(facts, end, policy, now))
  for (const [field, period] of periodFields) {
    const count = policy[field]
    if (count !== undefined) rules.push(keepPeriod(period, count))
  }
  return rules
}
