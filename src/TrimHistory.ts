/**
 * What a record says of the trims of its bundle, and how it comes to say so.
 *
 * A trim belongs to the attempt that it came after: once a run is gone on with, its program may have made again what
 * was trimmed. A trim is dated no earlier than the end of that attempt, whatever the clock says.
 *
 * @since 0.1.0
 */
import type { RunId } from "./RunId.ts"
import { isTerminal, type RunRecord, type Timestamp, type Trim } from "./RunRecord.ts"

/**
 * What one trim moved out: names at the top of what was matched, and allocated bytes, each inode once.
 *
 * @category models
 * @since 0.1.0
 */
export interface Trimmed {
  readonly id: RunId
  readonly paths: ReadonlyArray<string>
  readonly entries: number
  readonly bytes: number
}

// Of one length and in UTC, timestamps sort as texts.
const later = (left: Timestamp, right: Timestamp): Timestamp => left < right ? right : left

const startOfLast = ({ attempts, startedAt }: RunRecord): Timestamp => attempts.at(-1)?.startedAt ?? startedAt

const endOfLast = ({ attempts, endedAt }: RunRecord): Timestamp | undefined => endedAt ?? attempts.at(-1)?.endedAt

const isWithin = (paths: ReadonlyArray<string>, all: ReadonlyArray<string>) => paths.every((path) => all.includes(path))

/**
 * Whether a bundle has been trimmed by all of these globs since its last attempt ended. They are compared as texts.
 *
 * @category getters
 * @since 0.1.0
 */
export const covers = (record: RunRecord, paths: ReadonlyArray<string>): boolean => {
  const end = endOfLast(record)
  if (!isTerminal(record) || end === undefined) return false
  const trims = (record.trimmed ?? []).filter(({ at, pending }) => pending !== true && at >= end)
  return isWithin(paths, trims.flatMap((trim) => trim.paths))
}

/**
 * The globs of what is missing, or may be, from a bundle whose run would be gone on with: of trims that found
 * something, also of those that did not come to their end.
 *
 * @category getters
 * @since 0.1.0
 */
export const toRebuild = (record: RunRecord): ReadonlyArray<string> => {
  const start = startOfLast(record)
  const trims = (record.trimmed ?? []).filter(({ at, entries, pending }) =>
    at >= start && (pending === true || entries > 0)
  )
  return [...new Set(trims.flatMap((trim) => trim.paths))]
}

/**
 * The globs of trims that were begun since the run ended and did not come to their end: one by these completes them all.
 *
 * @category getters
 * @since 0.1.0
 */
export const unfinished = (record: RunRecord): ReadonlyArray<string> => {
  const start = startOfLast(record)
  const trims = (record.trimmed ?? []).filter(({ at, pending }) => pending === true && at >= start)
  return isTerminal(record) ? [...new Set(trims.flatMap((trim) => trim.paths))] : []
}

/** What a trim matches, to be moved out. */
interface Plan {
  readonly at: Timestamp
  readonly paths: ReadonlyArray<string>
  readonly entries: number
  readonly bytes: number
}

/**
 * The record of a bundle that is about to be trimmed. One that did not come to its end is brought to it with this: what
 * it had set out to take and has taken is not there to be counted again.
 *
 * @internal
 */
export const begin = (record: RunRecord, plan: Plan): RunRecord => {
  const start = startOfLast(record)
  const before = record.trimmed ?? []
  const isCovered = (trim: Trim) => trim.pending === true && isWithin(trim.paths, plan.paths)
  const unfinished = before.filter((trim) => isCovered(trim) && trim.at >= start)
  const sum = (of: "entries" | "bytes") => unfinished.reduce((total, trim) => total + trim[of], 0)
  const trim: Trim = {
    at: later(plan.at, later(start, endOfLast(record) ?? start)),
    paths: plan.paths,
    entries: Math.max(plan.entries, sum("entries")),
    bytes: Math.max(plan.bytes, sum("bytes")),
    pending: true
  }
  const others = before.filter((each) => !unfinished.includes(each))
  return { ...record, trimmed: [...others.map((each) => isCovered(each) ? finished(each) : each), trim] }
}

const finished = ({ pending: _, ...trim }: Trim): Trim => trim as Trim

/**
 * The record of a bundle whose trim has come to its end. A size that was measured before is that of another bundle.
 *
 * @internal
 */
export const end = ({ bytes: _, ...record }: RunRecord): RunRecord =>
  ({
    ...record,
    trimmed: record.trimmed?.map((trim, index, all) => index === all.length - 1 ? finished(trim) : trim)
  }) as RunRecord

/**
 * The record with the trims that another knows of: for a trim that took nothing.
 *
 * @internal
 */
export const undo = ({ trimmed: _, ...record }: RunRecord, { trimmed }: RunRecord): RunRecord =>
  ({ ...record, ...(trimmed === undefined ? {} : { trimmed }) }) as RunRecord

/**
 * Whether a trim that finds nothing has something to say all the same: that these globs match nothing any more.
 *
 * @internal
 */
export const isNews = (record: RunRecord, paths: ReadonlyArray<string>): boolean =>
  !covers(record, paths) || (record.trimmed ?? []).some((trim) => trim.pending === true && isWithin(trim.paths, paths))
