/**
 * How a row of the index lies in its table. What is read back is checked: a row that we cannot have written is none.
 */
import * as Result from "effect/Result"
import { isDay, isRunId, type RunId, startedAt } from "../RunId.ts"
import type { ArchiveDay, Day, Row } from "../RunIndex.ts"
import { Status, type Tags } from "../RunRecord.ts"
import type { Cells, Value } from "./Sqlite.ts"

/** The largest whole numbers that come back as they went in. */
const most = Number.MAX_SAFE_INTEGER

/**
 * A whole number near to any: the tables take no others, and a strange one must not cost the index.
 *
 * @internal
 */
export const whole = (value: number): number => Math.trunc(Math.max(-most, Math.min(most, value))) || 0

/** @internal */
export const columns = "id, state, status, ended_at, first_seen_ended, bytes, failures, trimmed, looked_at, words"

/**
 * Texts that nothing asks for lie together as JSON, which also brings back a NUL and half a surrogate pair.
 *
 * @internal
 */
export const toValues = (row: Row): ReadonlyArray<Value> => [
  row.id,
  row.state,
  row.status,
  whole(row.endedAt),
  row.firstSeenEnded === undefined ? null : whole(row.firstSeenEnded),
  row.bytes === undefined ? null : Math.max(0, whole(row.bytes)),
  Math.max(0, whole(row.failures)),
  row.trimmed ? 1 : 0,
  Math.max(0, whole(row.lookedAt)),
  JSON.stringify([row.name, row.tags, row.pin ?? null, row.problem ?? null, row.stamp ?? null])
]

/**
 * A bundle of which nothing but its name is known.
 *
 * @internal
 */
export const listed = (id: RunId): Row => ({
  id,
  state: "listed",
  name: "",
  status: "unknown",
  tags: {},
  pin: undefined,
  endedAt: startedAt(id).epochMilliseconds,
  firstSeenEnded: undefined,
  bytes: undefined,
  problem: undefined,
  stamp: undefined,
  failures: 0,
  trimmed: false,
  lookedAt: 0
})

const states: ReadonlySet<unknown> = new Set<Row["state"]>(["listed", "running", "finished", "unknown"])
const statuses: ReadonlySet<unknown> = new Set<Row["status"]>([...Status.literals, "unknown"])

const isState = (value: unknown): value is Row["state"] => states.has(value)
const isStatus = (value: unknown): value is Row["status"] => statuses.has(value)
const isWhole = (value: unknown): value is number => Number.isSafeInteger(value)
const isNatural = (value: unknown): value is number => isWhole(value) && value >= 0
const isText = (value: unknown): value is string => typeof value === "string"
const isTags = (value: unknown): value is Tags =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(isText)

const isBit = (value: unknown): value is 0 | 1 => value === 0 || value === 1

const orNull = <A>(is: (value: unknown) => value is A) => (value: unknown): value is A | null =>
  value === null || is(value)

const isWholeOrNull = orNull(isWhole)
const isNaturalOrNull = orNull(isNatural)
const isTextOrNull = orNull(isText)

const parse = (text: string): unknown =>
  Result.getOrUndefined(Result.try({ try: (): unknown => JSON.parse(text), catch: () => undefined }))

/** @internal */
export const fromCells = (cells: Cells): Row | undefined => {
  const { bytes, ended_at: endedAt, failures, first_seen_ended: firstSeenEnded, id, looked_at: lookedAt } = cells
  const { state, status, trimmed, words } = cells
  if (!isText(id) || !isRunId(id) || !isState(state) || !isStatus(status) || !isText(words)) return undefined
  if (!isWhole(endedAt) || !isWholeOrNull(firstSeenEnded) || !isNaturalOrNull(bytes)) return undefined
  if (!isNatural(failures) || !isNatural(lookedAt) || !isBit(trimmed)) return undefined
  const parsed = parse(words)
  if (!Array.isArray(parsed)) return undefined
  const [name, tags, pin, problem, stamp = null] = parsed as ReadonlyArray<unknown>
  if (!isText(name) || !isTags(tags) || !isTextOrNull(pin) || !isTextOrNull(problem)) return undefined
  if (!isTextOrNull(stamp)) return undefined
  return {
    id,
    state,
    name,
    status,
    tags,
    pin: pin ?? undefined,
    endedAt,
    firstSeenEnded: firstSeenEnded ?? undefined,
    bytes: bytes ?? undefined,
    problem: problem ?? undefined,
    stamp: stamp ?? undefined,
    failures,
    trimmed: trimmed === 1,
    lookedAt
  }
}

const nanosGrammar = /^-?\d{1,20}$/

/**
 * The ids of a day lie between these two.
 *
 * @internal
 */
export const idsOfDay = (day: string): readonly [string, string] => {
  const beginning = day.replaceAll("-", "")
  return [`${beginning}T`, `${beginning}U`]
}

/** @internal */
export const dayFromCells = ({ day, mtime, settled }: Cells): Day | undefined =>
  isText(day) && isDay(day) && isText(mtime) && nanosGrammar.test(mtime) && isBit(settled)
    ? { day, mtimeNanos: BigInt(mtime), settled: settled === 1 }
    : undefined

/** @internal */
export const archiveDayFromCells = (cells: Cells): ArchiveDay | undefined => {
  const day = dayFromCells(cells)
  const { archives, bytes } = cells
  return day !== undefined && isNatural(archives) && isNatural(bytes) ? { ...day, archives, bytes } : undefined
}
