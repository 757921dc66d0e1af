/**
 * What retention knows of a bundle, and what of it forbids a removal whatever a policy asks for.
 *
 * @since 0.1.0
 */
import { KeepReason } from "./RetentionReason.ts"
import type { RunId } from "./RunId.ts"
import type { Status, Tags } from "./RunRecord.ts"

/**
 * What is known of a bundle. `unprobed` means that nobody has looked at its lease yet, which is the ordinary state of a
 * finished bundle in the index.
 *
 * @category models
 * @since 0.1.0
 */
export interface BundleFacts {
  readonly id: RunId
  readonly name: string
  /** `unknown` when the record cannot be read. */
  readonly status: Status | "unknown"
  /** Milliseconds since 1970: when the run ended by its record, else the best evidence there is. */
  readonly endedAt: number | undefined
  /** When a pass first saw that it had ended. Stands in for an end that is missing or in the future. */
  readonly firstSeenEnded?: number | undefined
  /** Allocated bytes; `undefined` while nobody has measured them. */
  readonly bytes: number | undefined
  readonly tags: Tags
  readonly pinned: boolean
  readonly pinReason?: string | undefined
  /** Whether all that the policy trims has been trimmed since the run ended. */
  readonly trimmed?: boolean | undefined
  readonly liveness: "live" | "dead" | "unknown" | "unprobed"
  readonly unknownReason?: string | undefined
}

/**
 * `running` is one whose record says so and whose lease nobody has looked at.
 *
 * @category models
 * @since 0.1.0
 */
export type State = "live" | "unknown" | "running" | "finished"

/**
 * @category decisions
 * @since 0.1.0
 */
export const stateOf = (facts: BundleFacts): State => {
  if (facts.liveness === "live") return "live"
  if (facts.liveness === "unknown" || facts.status === "unknown") return "unknown"
  // A dead `running` bundle is a crashed one, whether or not somebody has written that down yet.
  return facts.status === "running" && facts.liveness === "unprobed" ? "running" : "finished"
}

/**
 * What forbids the removal of a bundle whatever limit asks for it. Every removal goes through here, in a decision and
 * again under the claim.
 *
 * @category decisions
 * @since 0.1.0
 */
export const guard = (facts: BundleFacts): KeepReason | undefined => {
  const state = stateOf(facts)
  if (state === "live") return KeepReason.Live()
  if (state === "unknown") {
    const detail = facts.unknownReason ?? (facts.status === "unknown" ? "its record cannot be read" : "")
    return KeepReason.Unknown({ detail })
  }
  if (facts.pinned) return KeepReason.Pinned({ detail: facts.pinReason ?? "" })
  return state === "running" ? KeepReason.Unprobed() : undefined
}

/** The range of a date: anything else in an index is noise. */
const isInstant = (millis: number | undefined): millis is number => millis !== undefined && Math.abs(millis) <= 8.64e15

/**
 * Whether a bundle claims to have ended in the future. `now` is in milliseconds since 1970.
 *
 * @category decisions
 * @since 0.1.0
 */
export const isClockAhead = (facts: BundleFacts, now: number): boolean =>
  facts.endedAt !== undefined && facts.endedAt > now

/**
 * When a finished bundle ended, as retention sees it: by its record, else when a pass first saw it ended, else now. It is
 * never later than now.
 *
 * @category decisions
 * @since 0.1.0
 */
export const endOf = (facts: BundleFacts, now: number): number => {
  if (isInstant(facts.endedAt) && facts.endedAt <= now) return facts.endedAt
  return isInstant(facts.firstSeenEnded) ? Math.min(facts.firstSeenEnded, now) : now
}

/**
 * The size of a bundle in bytes, where it is known and can be one.
 *
 * @category decisions
 * @since 0.1.0
 */
export const sizeOf = ({ bytes }: BundleFacts): number | undefined =>
  bytes !== undefined && Number.isFinite(bytes) && bytes >= 0 ? bytes : undefined
