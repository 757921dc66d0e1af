/**
 * What becomes of a run whose owner died: its record is brought to an end by whoever has proved that.
 *
 * A crashed run cannot say when it ended. The best evidence is the last event that it logged; without one it is taken
 * to have ended when it was found, so that it is kept rather too long than too short. No mtime takes part.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Holder } from "./Holder.ts"
import { end, endOf } from "./internal/Crash.ts"
import { type Claim, Lease, type LeaseError } from "./Lease.ts"
import { describeDoubt } from "./Liveness.ts"
import type { RunId } from "./RunId.ts"
import { isTerminal, type RunRecord, type Status } from "./RunRecord.ts"
import { type Entry, RunStore } from "./RunStore.ts"
import type { StoreError } from "./StoreError.ts"

/**
 * How a run is brought to its end.
 *
 * @category options
 * @since 0.1.0
 */
export interface RecoverOptions {
  /** When it ended, where nothing tells, in milliseconds since 1970; else now. */
  readonly foundAt?: number | undefined
  /** Wait for others who change the record half a second and not ten. */
  readonly brief?: boolean | undefined
}

/**
 * Writes `crashed` into the record of a run that says `running` while nobody holds its lease. The claim is the proof. A
 * run that has an outcome keeps it.
 *
 * @category recovering
 * @since 0.1.0
 */
export const recover: (claim: Claim, options?: RecoverOptions) => Effect.Effect<RunRecord, StoreError, RunStore> =
  Effect.fnUntraced(function*({ record, target }, options) {
    const store = yield* RunStore
    if (isTerminal(record)) return record
    const endedAt = yield* endOf(record, target.dir, options?.foundAt ?? (yield* Clock.currentTimeMillis))
    return yield* store.update(target.id, (before) => end(before, endedAt), { brief: options?.brief })
  })

/**
 * What came of an attempt to recover a run.
 *
 * @category models
 * @since 0.1.0
 */
export type Recovered = Data.TaggedEnum<{
  /** It had crashed, and its record says so now. */
  Recovered: { readonly id: RunId }
  /** Its record has an outcome, so there was nothing to do. Somebody may work in it all the same. */
  Ended: { readonly id: RunId; readonly status: Status }
  /** Somebody works in it. */
  Live: { readonly id: RunId; readonly holders: ReadonlyArray<Holder> }
  /** It cannot be told whether anybody works in it, or what its record says. */
  Unknown: { readonly id: RunId; readonly reason: string }
  /** It was taken away meanwhile. */
  Gone: { readonly id: RunId }
  /** It is dead, and its record could not be brought to an end. */
  Failed: { readonly id: RunId; readonly error: StoreError | LeaseError }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const Recovered = Data.taggedEnum<Recovered>()

const notClaimed = (error: LeaseError): Recovered => {
  const { id, reason } = error
  switch (reason._tag) {
    case "Held":
    case "Claimed":
      return Recovered.Live({ id, holders: reason.holders })
    case "Undecided":
      return Recovered.Unknown({ id, reason: describeDoubt(reason.doubt) })
    case "RunGone":
      return Recovered.Gone({ id })
    default:
      return Recovered.Failed({ id, error })
  }
}

const claimAndRecover = Effect.fnUntraced(function*({ dir, id }: Entry) {
  const lease = yield* Lease
  const claim = yield* Effect.result(lease.claim({ id, dir }))
  if (Result.isFailure(claim)) return notClaimed(claim.failure)
  const { id: recorded, status } = claim.success.record
  if (status !== "running") return Recovered.Ended({ id, status })
  if (recorded !== id) return Recovered.Unknown({ id, reason: `its record is that of ${recorded}` })
  return yield* recover(claim.success).pipe(
    Effect.match({
      onSuccess: (record) =>
        record.status === "crashed" ? Recovered.Recovered({ id }) : Recovered.Ended({ id, status: record.status }),
      onFailure: (error) => error.reason._tag === "NoSuchRun" ? Recovered.Gone({ id }) : Recovered.Failed({ id, error })
    })
  )
})

/**
 * Recovers a run if it needs that, under a claim of its own. It never fails: what stood in the way is the answer.
 *
 * @category recovering
 * @since 0.1.0
 */
export const recoverEntry = Effect.fnUntraced(
  function*(entry: Entry): Effect.fn.Return<Recovered, never, RunStore | Lease> {
    const { id, record } = entry
    if (Result.isFailure(record)) {
      const store = yield* RunStore
      const liveness = yield* store.liveness(entry)
      if (liveness._tag === "Live") return Recovered.Live({ id, holders: liveness.holders })
      const isThere = yield* Effect.isSuccess(store.get(id))
      return isThere ? Recovered.Unknown({ id, reason: record.failure.message }) : Recovered.Gone({ id })
    }
    if (isTerminal(record.success)) return Recovered.Ended({ id, status: record.success.status })
    return yield* Effect.uninterruptible(Effect.scoped(claimAndRecover(entry)))
  }
)

const concurrency = 8

/**
 * Recovers every run of the store that needs it, newest first, and tells what came of each.
 *
 * @category recovering
 * @since 0.1.0
 */
export const recoverAll: Stream.Stream<Recovered, StoreError, RunStore | Lease> = Stream.unwrap(
  Effect.map(RunStore, (store) => Stream.mapEffect(store.list, recoverEntry, { concurrency }))
)
