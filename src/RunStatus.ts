/**
 * The status of a run as people mean it: what its record says, seen together with whether anybody works in it.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { Liveness } from "./Liveness.ts"
import type { RecordError, RunRecord, Status } from "./RunRecord.ts"

/**
 * The record's statuses and two that it cannot know of: `closing` has its outcome and is still cleaning up, `damaged`
 * has a record that cannot be read.
 *
 * @category constants
 * @since 0.1.0
 */
export const statuses = ["running", "closing", "ok", "error", "interrupted", "crashed", "damaged"] as const

/**
 * @category models
 * @since 0.1.0
 */
export type ShownStatus = typeof statuses[number]

/**
 * @category guards
 * @since 0.1.0
 */
export const isShownStatus = (text: string): text is ShownStatus => statuses.some((status) => status === text)

type Read = Result.Result<RunRecord, RecordError>

/**
 * What the record alone says. A run that says `running` while nobody holds it has crashed, whether or not a pass has
 * written that down yet.
 *
 * @category getters
 * @since 0.1.0
 */
export const recorded = (record: Read, liveness: Liveness): Status | "damaged" =>
  Result.isFailure(record)
    ? "damaged"
    : record.success.status === "running" && liveness._tag === "Dead"
    ? "crashed"
    : record.success.status

/**
 * What a person is shown.
 *
 * @category getters
 * @since 0.1.0
 */
export const shown = (record: Read, liveness: Liveness): ShownStatus => {
  const status = recorded(record, liveness)
  return status !== "running" && status !== "damaged" && liveness._tag === "Live" ? "closing" : status
}

/**
 * Whether a run may turn out to be of a status, by its record alone: what can be told before anybody asks the kernel.
 *
 * @category guards
 * @since 0.1.0
 */
export const mayBe = (record: Read, status: ShownStatus): boolean => {
  if (Result.isFailure(record)) return status === "damaged"
  const said = record.success.status
  if (status === "closing") return said !== "running"
  return said === status || (status === "crashed" && said === "running")
}
