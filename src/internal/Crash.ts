/**
 * What is known of a run whose owner died before it could say how it ended.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { inLastAttempt, isTerminal, type RunRecord, type Timestamp, timestamp, toMillis } from "../RunRecord.ts"
import { Files } from "./Files.ts"
import { readTail } from "./io.ts"
import { openToRead } from "./OwnFile.ts"

const tailBytes = 64 * 1024

const decodeEvent = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ timestamp: Schema.String })))

/** The last event of a killed process may be half a line; the one before it then has to do. */
const lastEvent = Effect.fnUntraced(function*(dir: string) {
  const files = yield* Files
  const path = `${dir}/logs/events.jsonl`
  const read = Effect.acquireUseRelease(
    openToRead(path),
    (opened) => readTail(opened, path, tailBytes),
    ({ fd }) => files.close(fd)
  )
  const tail = yield* Effect.orElseSucceed(read, () => "")
  for (const line of tail.split("\n").toReversed()) {
    const event = decodeEvent(line)
    const millis = Option.isSome(event) ? Date.parse(event.value.timestamp) : Number.NaN
    if (!Number.isNaN(millis)) return millis
  }
  return undefined
})

const findEnd = Effect.fnUntraced(function*(dir: string, startedAt: number, foundAt: number) {
  const event = yield* lastEvent(dir)
  return event !== undefined && event >= startedAt && event <= foundAt ? event : Math.max(startedAt, foundAt)
})

/**
 * The record with a crash for its end.
 *
 * @internal
 */
export const end = (record: RunRecord, endedAt: Timestamp): RunRecord =>
  isTerminal(record) ? record : {
    ...inLastAttempt(record, { endedAt, status: "crashed" }),
    status: "crashed",
    endedAt
  }

/**
 * When a run ended that was found dead at an instant, in milliseconds since 1970.
 *
 * @internal
 */
export const endOf = Effect.fnUntraced(function*(record: RunRecord, dir: string, foundAt: number) {
  const { startedAt } = record.attempts.at(-1) ?? record
  return timestamp(DateTime.makeUnsafe(yield* findEnd(dir, toMillis(startedAt), foundAt)))
})

/**
 * What the record of such a run becomes. Writes nothing.
 *
 * @internal
 */
export const crashed = (record: RunRecord, dir: string, foundAt: number): Effect.Effect<RunRecord, never> =>
  Effect.map(endOf(record, dir, foundAt), (endedAt) => end(record, endedAt))
