/**
 * What a policy says of each bundle of a store: one decision with one reason for every bundle, and nothing done yet.
 *
 * Pure and total. The order of the input has no part in the result, which is sorted oldest first: the order in which a
 * pass acts. Its cost is that of sorting the bundles.
 *
 * - The time of a bundle is when it ended. Bundles go by end time, oldest first, equal times by id.
 * - The limits are applied in the order age, count, bytes, free space; each removes only while it does not hold yet,
 *   and what an earlier one takes counts for the later ones.
 * - `maxBundles`, `maxAge` and the keep rules hold per group where the policy has `groupBy`; `maxBytes` and `minFree`
 *   are of the whole store. Bundles without the tag are one group; those whose record cannot be read another.
 * - `maxBundles` and `maxBytes` count everything: live, pinned, spared and unknown bundles too. Keep rules count
 *   finished bundles, pinned ones among them.
 * - A bundle that claims to end in the future is *clock ahead*. It is taken to have ended when a pass first saw it ended
 *   (`firstSeenEnded`), which is how age, count and bytes get rid of it in time, and it takes nobody's place: it is not
 *   counted against any other bundle, in no limit and in no keep rule. Only the space it gives back helps `minFree`.
 * - A size that is not known counts as nothing for `maxBytes`, and as enough for `minFree`: so no bundle goes that would
 *   have stayed had everything been measured. `needsSize` lists what is worth measuring before deciding again.
 *
 * - Of what stays, the tiers of the policy trim and archive what is due for it.
 *
 * A decision to remove is never the proof that nobody works in the bundle. A pass takes the claim, reads again, and asks
 * {@link recheck}.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import { type BundleFacts, endOf, guard, isClockAhead, sizeOf, type State, stateOf } from "./RetentionFacts.ts"
import { keepRulesOf, sparedByItself } from "./RetentionKeepRules.ts"
import { type GroupBy, hasKeepRules, hasLimits, isEmpty, type RetentionPolicy } from "./RetentionPolicy.ts"
import { KeepReason, RemoveReason, type TierReason } from "./RetentionReason.ts"
import { tierOf } from "./RetentionTiers.ts"
import type { RunId } from "./RunId.ts"

/**
 * @category models
 * @since 0.1.0
 */
export type Decision =
  & { readonly id: RunId; readonly clockAhead: boolean }
  & (
    | { readonly action: "remove"; readonly reason: RemoveReason }
    | { readonly action: "trim" | "archive"; readonly reason: TierReason }
    | { readonly action: "keep"; readonly reason: KeepReason }
  )

/**
 * The decisions, oldest bundle first, and the bundles whose size could change one, in the order worth measuring.
 *
 * @category models
 * @since 0.1.0
 */
export interface Plan {
  readonly decisions: ReadonlyArray<Decision>
  readonly needsSize: ReadonlyArray<RunId>
}

interface Item {
  readonly facts: BundleFacts
  readonly state: State
  /** When it ended, as retention sees it; infinite for what has not ended. */
  readonly end: number
  readonly clockAhead: boolean
  readonly bytes: number | undefined
  readonly guard: KeepReason | undefined
  spared: KeepReason | undefined
  wanted: RemoveReason | undefined
}

const itemOf = (facts: BundleFacts, now: number): Item => {
  const state = stateOf(facts)
  const ended = state === "finished" || state === "running"
  return {
    facts,
    state,
    end: ended ? endOf(facts, now) : Number.POSITIVE_INFINITY,
    clockAhead: ended && isClockAhead(facts, now),
    bytes: sizeOf(facts),
    guard: guard(facts),
    spared: undefined,
    wanted: undefined
  }
}

const oldestFirst = (one: Item, other: Item): number => {
  if (one.end !== other.end) return one.end < other.end ? -1 : 1
  return one.facts.id < other.facts.id ? -1 : one.facts.id > other.facts.id ? 1 : 0
}

const hasEnded = (item: Item): boolean => item.end !== Number.POSITIVE_INFINITY

/**
 * An unprobed `running` bundle takes its turn, so that thousands of crashed runs do not push newer finished ones out
 * while a bounded pass works through them; the guard keeps it until somebody has looked.
 */
const isCandidate = (item: Item): boolean =>
  item.spared === undefined && (item.guard === undefined || item.guard._tag === "Unprobed")

const goes = (item: Item): boolean => item.wanted !== undefined && isCandidate(item)

// == groups

interface Group {
  readonly label: string | undefined
  readonly items: Array<Item>
}

/**
 * Which group a bundle is in, and what people call it.
 *
 * @internal
 */
export const groupOf = (facts: BundleFacts, groupBy: GroupBy): readonly [key: string, label: string] => {
  if (facts.status === "unknown") return ["unreadable", "those that cannot be read"]
  if (groupBy === "name") return [`=${facts.name}`, facts.name]
  if (!Object.hasOwn(facts.tags, groupBy.tag)) return ["without", `those without tag ${groupBy.tag}`]
  const value = facts.tags[groupBy.tag] ?? ""
  return [`=${value}`, `${groupBy.tag}=${value}`]
}

const groupsOf = (items: Array<Item>, groupBy: GroupBy | undefined): Iterable<Group> => {
  if (groupBy === undefined) return [{ label: undefined, items }]
  const groups = new Map<string, Group>()
  for (const item of items) {
    const [key, label] = groupOf(item.facts, groupBy)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { label, items: [item] })
    else group.items.push(item)
  }
  return groups.values()
}

// == rules

const spare = (group: Group, policy: RetentionPolicy, now: number): void => {
  const rules = keepRulesOf(policy, now)
  for (const item of group.items.toReversed()) {
    if (item.state !== "finished") continue
    // Every rule is asked, also when one has answered: they count by themselves.
    for (const rule of rules) {
      const reason = rule(item)
      item.spared ??= reason
    }
  }
}

const wantAll = (items: ReadonlyArray<Item>, reason: RemoveReason): void => {
  for (const item of items) if (hasEnded(item)) item.wanted ??= reason
}

const wantOlder = (items: ReadonlyArray<Item>, millis: number, now: number): void => {
  const reason = RemoveReason.OlderThan({ millis })
  for (const item of items) if (now - item.end > millis) item.wanted ??= reason
}

/** Asks for the oldest while what is counted is more than `max`. */
const wantBeyond = (
  items: ReadonlyArray<Item>,
  limit: { readonly max: number; readonly elsewhere: number },
  weigh: (item: Item) => number,
  reason: RemoveReason
): void => {
  let over = limit.elsewhere - limit.max
  for (const item of items) if (!item.clockAhead && !goes(item)) over += weigh(item)
  for (const item of items) {
    if (!hasEnded(item) || goes(item)) continue
    const weight = weigh(item)
    // One that is clock ahead is judged as if it alone had come on top of the others, and moves nothing for them.
    if (over + (item.clockAhead ? weight : 0) > 0) item.wanted ??= reason
    if (!item.clockAhead && isCandidate(item)) over -= weight
  }
}

const knownBytes = (item: Item): number => item.bytes ?? 0

/**
 * Asks for the oldest while too little is free. Behind a bundle of unknown size it cannot tell any more whether the next
 * is needed; then it returns those to measure, oldest first.
 */
const wantSpace = (items: ReadonlyArray<Item>, goal: number, freeBytes: number): ReadonlyArray<Item> => {
  const reason = RemoveReason.ShortOfSpace({ goal })
  const unmeasured: Array<Item> = []
  let short = goal - freeBytes
  let heldBack = false
  const give = (item: Item) => {
    if (item.bytes === undefined) unmeasured.push(item)
    else short -= item.bytes
  }
  const rest = items.filter((item) => hasEnded(item) && !goes(item))
  for (const item of items) if (goes(item)) give(item)
  for (const item of rest) {
    if (short <= 0) break
    if (unmeasured.length === 0) item.wanted ??= reason
    else if (isCandidate(item)) heldBack = true
    if (isCandidate(item)) give(item)
  }
  return heldBack ? unmeasured : []
}

/**
 * The sizes that could make `maxBytes` ask for more: those of what stays, newest first. Once the newest alone fill the
 * limit everything older goes unmeasured, so a pass that can measure only a few still gets there.
 */
const unmeasuredThatStay = (items: ReadonlyArray<Item>): ReadonlyArray<Item> => {
  const stay = items.filter((item) => !goes(item))
  return stay.some((item) => hasEnded(item) && isCandidate(item))
    ? stay.filter((item) => item.bytes === undefined).toReversed()
    : []
}

// == decisions

const settle = (item: Item, unwanted: KeepReason, tier: TierReason | undefined): Decision => {
  const { clockAhead, facts: { id }, guard, spared, wanted } = item
  const keep = (reason: KeepReason): Decision =>
    tier === undefined
      ? { id, action: "keep", reason, clockAhead }
      : { id, action: tier._tag === "TrimAfter" ? "trim" : "archive", reason: tier, clockAhead }
  // Of what nobody may touch this is the reason, whether or not a limit would have come to it.
  if (guard !== undefined && !hasEnded(item)) return keep(guard)
  if (wanted === undefined) return keep(unwanted)
  if (spared !== undefined) return keep(spared)
  return guard === undefined ? { id, action: "remove", reason: wanted, clockAhead } : keep(guard)
}

/**
 * What is known of the bundles that a decision is not asked for: all of them ended later than those it is asked for, or
 * have not ended, and none of them would take a place of a keep rule. So the oldest bundles of a store can be decided on
 * without reading of the others.
 *
 * @category models
 * @since 0.1.0
 */
export interface Elsewhere {
  readonly bundles: number
  readonly bytes: number
}

const nothing: Elsewhere = { bundles: 0, bytes: 0 }

/**
 * Decides on every bundle. `now` is in milliseconds since 1970; `disk` is what the file system of the store says of
 * itself, and without it `minFree` asks for nothing.
 *
 * @category decisions
 * @since 0.1.0
 */
export const decide = (
  bundles: ReadonlyArray<BundleFacts>,
  policy: RetentionPolicy,
  now: number,
  disk: { readonly freeBytes: number } | undefined,
  elsewhere: Elsewhere = nothing
): Plan => {
  const items = bundles.map((facts) => itemOf(facts, now)).sort(oldestFirst)
  const { maxBytes, minFree } = policy
  for (const group of groupsOf(items, policy.groupBy)) {
    if (hasKeepRules(policy)) spare(group, policy, now)
    wantInGroup(group, policy, now, elsewhere.bundles)
  }
  if (maxBytes !== undefined) {
    const limit = { max: maxBytes, elsewhere: elsewhere.bytes }
    wantBeyond(items, limit, knownBytes, RemoveReason.BeyondBytes({ max: maxBytes }))
  }
  const forSpace = minFree === undefined || disk === undefined ? [] : wantSpace(items, minFree, disk.freeBytes)
  const forBytes = maxBytes === undefined ? [] : unmeasuredThatStay(items)
  const unwanted = isEmpty(policy) ? KeepReason.EmptyPolicy() : KeepReason.WithinLimits()
  return {
    decisions: items.map((item) => settle(item, unwanted, tierOf(item.facts, policy, now))),
    needsSize: [...new Set([...forSpace, ...forBytes].map(({ facts }) => facts.id))]
  }
}

const wantInGroup = ({ items, label }: Group, policy: RetentionPolicy, now: number, elsewhere: number): void => {
  if (policy.all === true) wantAll(items, RemoveReason.Everything())
  if (!hasLimits(policy) && hasKeepRules(policy)) wantAll(items, RemoveReason.NotSpared())
  if (policy.maxAge !== undefined) wantOlder(items, Duration.toMillis(policy.maxAge), now)
  if (policy.maxBundles !== undefined) {
    const limit = { max: policy.maxBundles, elsewhere }
    wantBeyond(items, limit, () => 1, RemoveReason.BeyondBundles({ max: policy.maxBundles, group: label }))
  }
}

/**
 * Asks again under the claim, of a bundle that was to be removed: what it reads now against what the decision saw.
 * Returns the reason to keep it, or `undefined` when it may go.
 *
 * @category decisions
 * @since 0.1.0
 */
export const recheck = (
  decidedOn: BundleFacts,
  fresh: BundleFacts,
  policy: RetentionPolicy,
  now: number
): KeepReason | undefined => {
  const guarded = guard(fresh)
  if (guarded !== undefined) return guarded
  const end = endOf(fresh, now)
  if (end > endOf(decidedOn, now)) return KeepReason.Changed()
  const { groupBy } = policy
  if (groupBy !== undefined && groupOf(fresh, groupBy)[0] !== groupOf(decidedOn, groupBy)[0]) {
    return KeepReason.Changed()
  }
  return sparedByItself(fresh, end, policy, now)
}
