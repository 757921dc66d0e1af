/**
 * Why one bundle stays or would go: what each rule of a policy says of it by itself, and what the whole policy decides.
 *
 * Pure, and it decides nothing. A rule is asked by asking {@link decide} with a policy that has no other, so that an
 * explanation cannot say otherwise than a pass acts; only the figures beside it are counted here, for people.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import { decide, type Decision, groupOf } from "./RetentionDecision.ts"
import { type BundleFacts, endOf, guard, isClockAhead, sizeOf, type State, stateOf } from "./RetentionFacts.ts"
import { startOfSpan, units } from "./RetentionKeepRules.ts"
import { decode, type Field, fieldNames, type GroupBy, type RetentionPolicy } from "./RetentionPolicy.ts"
import { countOf, type KeepReason, lengthText, type Period, reasonKind, sizeText, whyText } from "./RetentionReason.ts"
import type { RunId } from "./RunId.ts"
import { formatAgo, formatBytes } from "./Units.ts"

/**
 * The fields that are rules. `groupBy` says among whom they are asked; the limits of archives ask for no bundle.
 *
 * @category models
 * @since 0.1.0
 */
export type RuleField = Exclude<Field, "groupBy" | "archiveMaxAge" | "archiveMaxBytes">

/**
 * What a rule says of a bundle: a limit or a tier `asks` for it, a keep rule `spares` it, or it does `neither`.
 *
 * @category models
 * @since 0.1.0
 */
export type Verdict = "asks" | "spares" | "neither"

/**
 * The answer of one rule, as if the policy had no other. `value` is what the policy has, `why` the figures that the
 * answer rests on, both in words.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answer {
  readonly field: RuleField
  readonly value: string
  readonly verdict: Verdict
  readonly why: string
}

/**
 * All there is to say of a bundle under a policy. `guard` keeps it whatever is asked; `ended` is when it ended as
 * retention sees it, in milliseconds since 1970; `note` is there where the whole policy comes to something that no rule
 * says by itself.
 *
 * @category models
 * @since 0.1.0
 */
export interface Explanation {
  readonly facts: BundleFacts
  readonly ended: number | undefined
  readonly group: string | undefined
  readonly guard: KeepReason | undefined
  readonly answers: ReadonlyArray<Answer>
  readonly decision: Decision
  readonly note: string | undefined
}

/** What the figures are counted from. All lists go from the oldest to the newest. */
interface Scene {
  readonly facts: BundleFacts
  readonly state: State
  readonly ended: number | undefined
  readonly now: number
  readonly disk: { readonly freeBytes: number } | undefined
  /** What counts for others: of the store, and of the group. */
  readonly store: ReadonlyArray<BundleFacts>
  readonly group: ReadonlyArray<BundleFacts>
  /** Those of the group that keep rules count: how many, and which ended after it. */
  readonly finished: number
  readonly newer: ReadonlyArray<BundleFacts>
}

type Value<F extends RuleField> = NonNullable<RetentionPolicy[F]>

interface Rule<A> {
  readonly role: "limit" | "keep" | "tier"
  readonly value: (value: A) => string
  readonly why: (scene: Scene, value: A, verdict: Verdict) => string
}

// == figures

const endText = ({ ended, facts, now, state }: Scene): string => {
  if (state === "running") return "has not ended, by its record"
  if (ended === undefined) return state === "live" ? "has not ended" : "cannot be told whether it has ended"
  const ago = formatAgo(now - ended)
  return isClockAhead(facts, now) ? `claims to end in the future, first seen ended ${ago}` : `ended ${ago}`
}

const ordinal = (number: number): string => {
  const ending = number % 100 > 10 && number % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][number % 10] ?? "th"
  return `${number}${ending}`
}

const lengthOf = (value: Duration.Duration) => lengthText(Duration.toMillis(value))

const age: Rule<Duration.Duration> = { role: "limit", value: lengthOf, why: endText }

const storeBytes = ({ store }: Scene) => {
  const sizes = store.map(sizeOf)
  const missing = sizes.filter((size) => size === undefined).length
  const sum = formatBytes(sizes.reduce<number>((all, size) => all + (size ?? 0), 0))
  return missing === 0 ? sum : `${sum} and ${countOf(missing, "bundle")} not measured,`
}

/** A keep rule counts what has finished, and of the others there is nothing else to say. */
const ofFinished = (why: (scene: Scene, end: number) => string) => (scene: Scene): string =>
  scene.state === "finished" && scene.ended !== undefined ? why(scene, scene.ended) : endText(scene)

const perPeriod = (period: Period): Rule<number> => ({
  role: "keep",
  value: String,
  why: (scene, count, verdict) =>
    ofFinished(({ newer, now }, end) => {
      const unit = units[period]
      if (verdict === "spares") return `it is the newest of its ${unit}`
      const span = startOfSpan(period, end)
      return newer.some((other) => startOfSpan(period, endOf(other, now)) === span)
        ? `a newer one stands for its ${unit}`
        : `newer runs fill ${countOf(count, unit)}`
    })(scene)
})

/** One entry for each rule that there is. */
const rules: { readonly [F in RuleField]: Rule<Value<F>> } = {
  maxBundles: {
    role: "limit",
    value: String,
    why: ({ facts, group, ended }, max) => {
      const older = group.findIndex(({ id }) => id === facts.id)
      const place = ended === undefined || older < 0 ? "" : `, ${older === 0 ? "none" : older} older than it`
      return `${group.length} of at most ${countOf(max, "bundle")}${place}`
    }
  },
  maxAge: age,
  maxBytes: {
    role: "limit",
    value: sizeText,
    why: (scene, max) => `${storeBytes(scene)} of at most ${sizeText(max)}`
  },
  minFree: {
    role: "limit",
    value: sizeText,
    why: ({ disk }, goal) =>
      disk === undefined
        ? "how much is free with the trash empty is not known"
        : `${formatBytes(disk.freeBytes)} free of at least ${sizeText(goal)}`
  },
  all: { role: "limit", value: String, why: endText },
  keepLast: {
    role: "keep",
    value: String,
    why: ofFinished(({ finished, newer }) =>
      `it is the ${newer.length === 0 ? "" : `${ordinal(newer.length + 1)} `}newest of ${finished}`
    )
  },
  keepHourly: perPeriod("hourly"),
  keepDaily: perPeriod("daily"),
  keepWeekly: perPeriod("weekly"),
  keepMonthly: perPeriod("monthly"),
  keepYearly: perPeriod("yearly"),
  keepWithin: { ...age, role: "keep" },
  keepTag: {
    role: "keep",
    value: (tags) => tags.join(", "),
    why: ({ facts: { tags } }) => {
      const own = Object.entries(tags).map(([key, value]) => `${key}=${value}`)
      return own.length === 0 ? "it has no tags" : `it has ${own.join(" ")}`
    }
  },
  keepStatus: {
    role: "keep",
    value: (statuses) => statuses.join(", "),
    why: ofFinished(({ facts: { status } }) => `it is ${status === "running" ? "crashed" : status}`)
  },
  trim: {
    role: "tier",
    value: ({ after, paths }) => `${paths.join(", ")} after ${lengthOf(after)}`,
    why: (scene) => scene.facts.trimmed === true ? "it has been trimmed since it ended" : endText(scene)
  },
  archive: { role: "tier", value: ({ after }) => `after ${lengthOf(after)}`, why: endText }
}

// == answers

/**
 * The policy with one rule of its own. A keep rule by itself has to have something to spare from.
 *
 * @internal
 */
export const only = (policy: RetentionPolicy, field: RuleField): RetentionPolicy => {
  const everything = rules[field].role === "keep" ? { all: true } : {}
  return Result.getOrThrow(decode({ ...everything, [field]: policy[field], groupBy: policy.groupBy }))
}

const isRule = (field: Field): field is RuleField => Object.hasOwn(rules, field)

/** What keeps a bundle that a limit has asked for; what is live or unknown no limit asks for. */
const heldBack: ReadonlySet<string> = new Set(["Pinned", "Unprobed"])

const verdictOf = (field: RuleField, { action, reason }: Decision): Verdict => {
  if (rules[field].role === "keep") return reasonKind(reason) === field ? "spares" : "neither"
  return action !== "keep" || heldBack.has(reason._tag) ? "asks" : "neither"
}

const answer = <F extends RuleField>(
  field: F,
  policy: RetentionPolicy,
  scene: Scene,
  ask: (policy: RetentionPolicy) => Decision
): ReadonlyArray<Answer> => {
  const value = policy[field]
  if (value === undefined || value === false) return []
  const rule: Rule<Value<F>> = rules[field]
  const given = value as Value<F>
  const verdict = verdictOf(field, ask(only(policy, field)))
  return [{ field, value: rule.value(given), verdict, why: rule.why(scene, given, verdict) }]
}

const noteOf = (answers: ReadonlyArray<Answer>, { action, reason }: Decision): string | undefined => {
  const asking = answers.filter(({ verdict }) => verdict === "asks")
  if (reason._tag === "WithinLimits" && asking.length > 0) return "others go first, and then the limits hold"
  const deciding = answers.find(({ field }) => field === reasonKind(reason))
  return action === "remove" && deciding !== undefined && deciding.verdict === "neither"
    ? "older ones are spared, and it goes in their place"
    : undefined
}

const membersOf = (bundles: ReadonlyArray<BundleFacts>, facts: BundleFacts, groupBy: GroupBy | undefined) => {
  if (groupBy === undefined) return { label: undefined, members: bundles }
  const [key, label] = groupOf(facts, groupBy)
  return { label, members: bundles.filter((other) => groupOf(other, groupBy)[0] === key) }
}

/**
 * Explains what a policy makes of one of all bundles; nothing where it is not among them. What is given is what
 * {@link decide} is given.
 *
 * @category explaining
 * @since 0.1.0
 */
export const explain = (
  bundles: ReadonlyArray<BundleFacts>,
  policy: RetentionPolicy,
  now: number,
  disk: { readonly freeBytes: number } | undefined,
  id: RunId
): Explanation | undefined => {
  const { decisions } = decide(bundles, policy, now, disk)
  const decision = decisions.find((each) => each.id === id)
  const byId = new Map(bundles.map((facts) => [facts.id, facts]))
  const facts = byId.get(id)
  if (decision === undefined || facts === undefined) return undefined
  const ask = (alone: RetentionPolicy) => decide(bundles, alone, now, disk).decisions.find((each) => each.id === id)!
  const counts = (other: BundleFacts) => other.id === id || !isClockAhead(other, now)
  const isCounted = (other: BundleFacts) => counts(other) && stateOf(other) === "finished"
  // In the order of the decisions, which is that of the ends.
  const ordered = decisions.flatMap((each) => byId.get(each.id) ?? [])
  const { label, members } = membersOf(ordered, facts, policy.groupBy)
  const state = stateOf(facts)
  const ended = state === "finished" || state === "running" ? endOf(facts, now) : undefined
  const scene: Scene = {
    facts,
    state,
    ended,
    now,
    disk,
    store: ordered.filter((other) => !isClockAhead(other, now)),
    group: members.filter(counts),
    finished: members.filter(isCounted).length,
    newer: members.slice(members.indexOf(facts) + 1).filter(isCounted)
  }
  const answers = fieldNames.flatMap((field) => isRule(field) ? answer(field, policy, scene, ask) : [])
  return { facts, ended, group: label, guard: guard(facts), answers, decision, note: noteOf(answers, decision) }
}

/**
 * What a rule says, in a word or two.
 *
 * @category rendering
 * @since 0.1.0
 */
export const verdictText = (verdict: Verdict): string =>
  ({ asks: "asks for it", spares: "spares it", neither: "does not" })[verdict]

const deeds = { remove: "would go", keep: "stays", trim: "would be trimmed", archive: "would be archived" } as const

/**
 * The decision as a sentence: `it would go: older than 14 days`, `it stays: pinned: release`.
 *
 * @category rendering
 * @since 0.1.0
 */
export const decisionText = ({ decision: { action, reason }, note }: Explanation): string => {
  const why = whyText(reason)
  return `it ${deeds[action]}: ${why}${note === undefined ? "" : ` (${note})`}`
}
