/**
 * A policy in words for people.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import { units } from "./RetentionKeepRules.ts"
import { hasLimits, isEmpty, periodFields, type RetentionPolicy } from "./RetentionPolicy.ts"
import { countOf, lengthText, sizeText } from "./RetentionReason.ts"

const list = (parts: ReadonlyArray<string>, conjunction: "and" | "or"): string => {
  const last = parts.at(-1) ?? ""
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(", ")} ${conjunction} ${last}`
}

const limitsOf = (policy: RetentionPolicy): ReadonlyArray<string> => {
  const parts: Array<string> = []
  if (policy.maxBundles !== undefined) parts.push(`beyond ${countOf(policy.maxBundles, "bundle")}`)
  if (policy.maxAge !== undefined) parts.push(`older than ${lengthText(Duration.toMillis(policy.maxAge))}`)
  if (policy.maxBytes !== undefined) parts.push(`beyond ${sizeText(policy.maxBytes)} in all`)
  if (policy.minFree !== undefined) parts.push(`while less than ${sizeText(policy.minFree)} is free`)
  return parts
}

const keptBy = (policy: RetentionPolicy): ReadonlyArray<string> => {
  const parts = ["pinned ones"]
  if (policy.keepLast !== undefined) parts.push(policy.keepLast === 1 ? "the newest" : `the newest ${policy.keepLast}`)
  for (const [field, period] of periodFields) {
    const count = policy[field]
    if (count === undefined) continue
    const spans = count === 1 ? `the last ${units[period]}` : `each of the last ${countOf(count, units[period])}`
    parts.push(`the newest of ${spans} with runs`)
  }
  if (policy.keepWithin !== undefined) {
    parts.push(`those that ended within ${lengthText(Duration.toMillis(policy.keepWithin))}`)
  }
  if (policy.keepTag !== undefined) parts.push(`those tagged ${list(policy.keepTag, "or")}`)
  if (policy.keepStatus !== undefined) parts.push(`those with status ${list(policy.keepStatus, "or")}`)
  return parts
}

const perGroup = ({ groupBy }: RetentionPolicy): string => {
  if (groupBy === undefined) return ""
  const each = groupBy === "name" ? "each name" : `each value of tag ${groupBy.tag}`
  return `; counts and keep rules are for ${each}`
}

const targetOf = (policy: RetentionPolicy): string => {
  if (policy.all === true || !hasLimits(policy)) return "every finished run"
  const limits = limitsOf(policy)
  const which = policy.maxAge !== undefined && limits.length === 1 ? "finished runs" : "the oldest finished runs"
  return `${which} ${list(limits, "or")}`
}

const lengthOf = (length: Duration.Duration) => lengthText(Duration.toMillis(length))

const tiersOf = ({ archive, archiveMaxAge, archiveMaxBytes, trim }: RetentionPolicy): ReadonlyArray<string> => {
  const parts: Array<string> = []
  if (trim !== undefined) parts.push(`trim ${list(trim.paths, "and")} after ${lengthOf(trim.after)}`)
  if (archive !== undefined) parts.push(`archive after ${lengthOf(archive.after)}`)
  const limits = [
    ...archiveMaxAge === undefined ? [] : [`of runs that ended more than ${lengthOf(archiveMaxAge)} ago`],
    ...archiveMaxBytes === undefined ? [] : [`beyond ${sizeText(archiveMaxBytes)} in all`]
  ]
  if (limits.length > 0) parts.push(`remove archives ${list(limits, "or")}`)
  return parts
}

/**
 * The policy as a sentence: `remove the oldest finished runs beyond 200 bundles or older than 14 days, keep pinned ones
 * and the newest 10`.
 *
 * @category rendering
 * @since 0.1.0
 */
export const describe = (policy: RetentionPolicy): string => {
  const removal = isEmpty(policy)
    ? "remove nothing"
    : `remove ${targetOf(policy)}, keep ${list(keptBy(policy), "and")}${perGroup(policy)}`
  return [removal, ...tiersOf(policy)].join("; ")
}
