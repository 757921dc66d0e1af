/**
 * What becomes of a run whose owner died: its record is brought to an end by whoever has proved that.
 *
 * A crashed run cannot say when it ended. The best evidence is the last event that it logged; without one it is taken
 * to have ended when it was found, so that it is kept rather too long than too short. No mtime takes part.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { readTail } from "./internal/io.ts"
import type { Claim } from "./Lease.ts"
import { type RunRecord, type Timestamp, timestamp, toMillis } from "./RunRecord.ts"
import { RunStore } from "./RunStore.ts"
import type { StoreError } from "./StoreError.ts"

const tailBytes = 64 * 1024

const decodeEvent = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ timestamp: Schema.String })))

/** The last event of a killed process may be half a line; the one before it then has to do. */
const lastEvent = Effect.fnUntraced(function*(dir: string) {
  const tail = yield* Effect.orElseSucceed(readTail(`${dir}/logs/events.jsonl`, tailBytes), () => "")
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

const end = (record: RunRecord, endedAt: Timestamp): RunRecord =>
  record.status !== "running" ? record : {
    ...record,
    status: "crashed",
    endedAt,
    attempts: record.attempts.map((attempt, index) =>
      index === record.attempts.length - 1 ? { ...attempt, endedAt, status: "crashed" } : attempt
    )
  }

/**
 * What the record of a run becomes that was found dead at an instant, in milliseconds since 1970. Writes nothing.
 *
 * @category recovering
 * @since 0.1.0
 */
export const crashed = Effect.fnUntraced(function*(record: RunRecord, dir: string, foundAt: number) {
  const endedAt = yield* findEnd(dir, toMillis(record.startedAt), foundAt)
  return end(record, timestamp(DateTime.makeUnsafe(endedAt)))
})

/**
 * Writes `crashed` into the record of a run that says `running` while nobody holds its lease. The claim is the proof. A
 * run that has an outcome keeps it.
 *
 * @category recovering
 * @since 0.1.0
 */
export const recover = Effect.fnUntraced(
  function*({ record, target }: Claim, foundAt?: number): Effect.fn.Return<RunRecord, StoreError, RunStore> {
    const store = yield* RunStore
    if (record.status !== "running") return record
    const { endedAt } = yield* crashed(record, target.dir, foundAt ?? (yield* Clock.currentTimeMillis))
    return yield* store.update(target.id, (before) => endedAt === undefined ? before : end(before, endedAt))
  }
)
