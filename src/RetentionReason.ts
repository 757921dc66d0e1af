/**
 * Why a bundle goes, and why one stays: the closed list of reasons that a retention decision can give, and their words.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import { formatBytes } from "./Units.ts"

/**
 * The spans of the calendar that keep rules count in, all in UTC. A week starts on Monday.
 *
 * @category models
 * @since 0.1.0
 */
export type Period = "hourly" | "daily" | "weekly" | "monthly" | "yearly"

/**
 * Why a bundle is to be removed: the first limit that asked for it.
 *
 * @category models
 * @since 0.1.0
 */
export type RemoveReason = Data.TaggedEnum<{
  /** It ended longer ago than `maxAge`. */
  OlderThan: { readonly millis: number }
  /** The store, or the group it belongs to, holds more than `maxBundles`. */
  BeyondBundles: { readonly max: number; readonly group: string | undefined }
  /** The store holds more than `maxBytes`. */
  BeyondBytes: { readonly max: number }
  /** The file system has less than `minFree` to give. */
  ShortOfSpace: { readonly goal: number }
  /** `all` asks for every finished bundle. */
  Everything: {}
  /** The policy has keep rules alone, and none of them spares it. */
  NotSpared: {}
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const RemoveReason = Data.taggedEnum<RemoveReason>()

/**
 * Why a bundle is kept. `Live` and `Unknown` are given whatever the policy says; `Pinned` and the keep rules only where
 * a limit asked for the bundle, so that a report can count the pinned ones that matched.
 *
 * @category models
 * @since 0.1.0
 */
export type KeepReason = Data.TaggedEnum<{
  /** Somebody holds its lease. */
  Live: {}
  /** It cannot be told whether anybody does, or its record cannot be read. */
  Unknown: { readonly detail: string }
  /** Somebody ordered it kept. */
  Pinned: { readonly detail: string }
  /** A limit asks for it, its record says `running`, and nobody has looked at its lease yet. */
  Unprobed: {}
  /** Under the claim it turned out to have ended later than the decision assumed. */
  Changed: {}
  KeepLast: { readonly count: number }
  KeepPeriod: { readonly period: Period; readonly nth: number; readonly count: number }
  KeepWithin: { readonly millis: number }
  KeepTag: { readonly tag: string }
  KeepStatus: { readonly status: string }
  /** No limit asks for it. */
  WithinLimits: {}
  /** The policy has no limit and no keep rule. */
  EmptyPolicy: {}
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const KeepReason = Data.taggedEnum<KeepReason>()

/**
 * Why a tier takes a bundle.
 *
 * @category models
 * @since 0.1.0
 */
export type TierReason = Data.TaggedEnum<{
  /** It ended longer ago than `trim.after`, and has not been trimmed by these globs since. */
  TrimAfter: { readonly millis: number; readonly paths: ReadonlyArray<string> }
  /** It ended longer ago than `archive.after`. */
  ArchiveAfter: { readonly millis: number }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const TierReason = Data.taggedEnum<TierReason>()

/**
 * @category models
 * @since 0.1.0
 */
export type Reason = RemoveReason | KeepReason | TierReason

const units = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1000]] as const

/**
 * The length of time of a rule: `14 days`, `90 minutes`, `1d 2h 30m`. Exact, since two rules must not read alike.
 *
 * @category rendering
 * @since 0.1.0
 */
export const lengthText = (millis: number): string => {
  const unit = units.find(([, size]) => millis % size === 0)
  return unit === undefined ? Duration.format(Duration.millis(millis)) : countOf(millis / unit[1], unit[0])
}

const sizes = ["B", "KiB", "MiB", "GiB", "TiB"]

/**
 * A number of bytes in the largest unit in which it comes out even: `[2, "GiB"]`, `[1500, "B"]`.
 *
 * @category rendering
 * @since 0.1.0
 */
export const evenSize = (bytes: number): readonly [count: number, unit: string] => {
  let rank = 0
  while (rank < sizes.length - 1 && bytes % 1024 ** (rank + 1) === 0) rank++
  return [bytes / 1024 ** rank, sizes[rank] ?? "B"]
}

/**
 * The size of a rule: `2 GiB`, `1500 MiB`; rounded only where it comes out even in no unit that can be read.
 *
 * @category rendering
 * @since 0.1.0
 */
export const sizeText = (bytes: number): string => {
  const [count, unit] = evenSize(bytes)
  return count < 10_000 ? `${count} ${unit}` : formatBytes(bytes)
}

const withDetail = (word: string, detail: string) => detail === "" ? word : `${word}: ${detail}`

/**
 * A reason in words for people: `older than 14 days`, `kept: daily 3 of 7`, `pinned: release`, `live`.
 *
 * @category rendering
 * @since 0.1.0
 */
export const reasonText = (reason: Reason): string => {
  switch (reason._tag) {
    case "OlderThan":
      return `older than ${lengthText(reason.millis)}`
    case "BeyondBundles":
      return `beyond ${countOf(reason.max, "bundle")}${reason.group === undefined ? "" : ` of ${reason.group}`}`
    case "BeyondBytes":
      return `beyond ${sizeText(reason.max)}`
    case "ShortOfSpace":
      return `less than ${sizeText(reason.goal)} free`
    case "Everything":
      return "everything finished goes"
    case "NotSpared":
      return "no keep rule spares it"
    case "Live":
      return "live"
    case "Unknown":
      return withDetail("unknown", reason.detail)
    case "Pinned":
      return withDetail("pinned", reason.detail)
    case "Unprobed":
      return "running by its record; its lease has not been looked at yet"
    case "Changed":
      return "changed since it was decided on"
    case "KeepLast":
      return `kept: newest ${reason.count}`
    case "KeepPeriod":
      return `kept: ${reason.period} ${reason.nth} of ${reason.count}`
    case "KeepWithin":
      return `kept: ended within ${lengthText(reason.millis)}`
    case "KeepTag":
      return `kept: tag ${reason.tag}`
    case "KeepStatus":
      return `kept: status ${reason.status}`
    case "WithinLimits":
      return "within the limits"
    case "EmptyPolicy":
      return "the policy removes nothing"
    case "TrimAfter":
      return `ended more than ${lengthText(reason.millis)} ago, and has ${reason.paths.join(", ")} still`
    case "ArchiveAfter":
      return `ended more than ${lengthText(reason.millis)} ago`
  }
}

/**
 * The same where it is said already that something is kept: `newest 10`.
 *
 * @internal
 */
export const whyText = (reason: Reason): string => reasonText(reason).replace(/^kept: /, "")

/**
 * A count with its noun: `1 bundle`, `200 bundles`.
 *
 * @category rendering
 * @since 0.1.0
 */
export const countOf = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

/**
 * The kind of a reason, without figures and details: a key to count by that stays the same from one version to the next.
 *
 * @category rendering
 * @since 0.1.0
 */
export const reasonKind = (reason: Reason): string =>
  reason._tag === "KeepPeriod" ? periodKinds[reason.period] : kinds[reason._tag]

const periodKinds: { readonly [P in Period]: string } = {
  hourly: "keepHourly",
  daily: "keepDaily",
  weekly: "keepWeekly",
  monthly: "keepMonthly",
  yearly: "keepYearly"
}

const kinds: { readonly [Tag in Exclude<Reason["_tag"], "KeepPeriod">]: string } = {
  OlderThan: "maxAge",
  BeyondBundles: "maxBundles",
  BeyondBytes: "maxBytes",
  ShortOfSpace: "minFree",
  Everything: "all",
  NotSpared: "notSpared",
  Live: "live",
  Unknown: "unknown",
  Pinned: "pinned",
  Unprobed: "unprobed",
  Changed: "changed",
  KeepLast: "keepLast",
  KeepWithin: "keepWithin",
  KeepTag: "keepTag",
  KeepStatus: "keepStatus",
  WithinLimits: "withinLimits",
  EmptyPolicy: "emptyPolicy",
  TrimAfter: "trim",
  ArchiveAfter: "archive"
}
