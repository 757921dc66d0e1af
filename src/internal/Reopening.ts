/**
 * What becomes of a record when its run is gone on with, whether its bundle was in the store or has just come back to it.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Bundle } from "../Bundle.ts"
import type { Resumed, Target } from "../Lease.ts"
import * as Outcome from "../Outcome.ts"
import type { RunId } from "../RunId.ts"
import { isTerminal, type RunRecord, timestamp } from "../RunRecord.ts"
import { StoreError, StoreReason } from "../StoreError.ts"
import { toRebuild } from "../TrimHistory.ts"
import * as Crash from "./Crash.ts"

/**
 * Refuses a run of which parts are missing, unless they can be made again.
 *
 * @internal
 */
export const checkWhole = (record: RunRecord, options: { readonly rebuilds?: boolean | undefined } | undefined) => {
  const paths = toRebuild(record)
  return paths.length > 0 && options?.rebuilds !== true
    ? Effect.fail(new StoreError({ reason: StoreReason.Trimmed({ id: record.id, paths }) }))
    : Effect.void
}

/**
 * Writes down that the run is at work again, under its lease.
 *
 * @internal
 */
export const reopen = Effect.fnUntraced(function*(
  target: Target,
  { held, record }: Resumed,
  update: (id: RunId, change: (record: RunRecord) => RunRecord) => Effect.Effect<RunRecord, StoreError>
): Effect.fn.Return<Bundle, StoreError> {
  const now = yield* Clock.currentTimeMillis
  const endedAt = isTerminal(record) ? undefined : yield* Crash.endOf(record, target.dir, now)
  const startedAt = timestamp(DateTime.makeUnsafe(now))
  // Of what is there now: people pin a run without a lease.
  const resumed = yield* update(
    target.id,
    (current) => Outcome.again(endedAt === undefined ? current : Crash.end(current, endedAt), startedAt)
  )
  return { ...target, record: resumed, lease: held }
})
