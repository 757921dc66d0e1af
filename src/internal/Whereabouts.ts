/**
 * Runs that move while somebody comes for them: from the store into the archive, or back. Whoever has found one in the
 * store and comes too late must not be told that it has been removed.
 */
import * as Effect from "effect/Effect"
import { type Entry, obstacle } from "../Bundle.ts"
import type { Target } from "../Lease.ts"
import type { RecordError } from "../RunRecord.ts"
import type { StoreError } from "../StoreError.ts"

/** A run that goes there and back again and again at just these moments may as well have gone. */
const most = 10

/**
 * Comes again at once for a run that was on its way, as its error tells.
 *
 * @internal
 */
export const whileMoving =
  <E>(isOnItsWay: (error: E) => boolean) => <A, R>(attempt: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.retry(attempt, { times: most, while: isOnItsWay })

interface Refusal {
  readonly _tag: string
  readonly reason: { readonly _tag: string }
}

const isGone = (error: Refusal): boolean =>
  (error._tag === "LeaseError" && error.reason._tag === "RunGone") ||
  (error._tag === "StoreError" && error.reason._tag === "NoSuchRun")

/**
 * Tries again what has not found a run that is back in the store, and says of one that has been archived that it has.
 *
 * @internal
 */
export const following = (get: Effect.Effect<Entry, StoreError>) =>
<A, E extends Refusal, R>(
  attempt: Effect.Effect<A, E, R>
): Effect.Effect<A, E | StoreError, R> => {
  const from = (nth: number): Effect.Effect<A, E | StoreError, R> =>
    Effect.catchIf(attempt, (error) => isGone(error), (error) =>
      Effect.matchEffect(get, {
        onFailure: (now) => Effect.fail<E | StoreError>(now.reason._tag === "Archived" ? now : error),
        onSuccess: () => nth < most ? from(nth + 1) : Effect.fail<E | StoreError>(error)
      }))
  return from(0)
}

/**
 * The same for what is done to a bundle under its claim. What lies in the place of a bundle and is none is refused as
 * `unreadable` says: a lease would be looked for behind a link.
 *
 * @internal
 */
export const where =
  <U extends Refusal>(get: Effect.Effect<Entry, StoreError>, unreadable: (error: RecordError) => U) =>
  <A, E extends Refusal, R>(act: (target: Target) => Effect.Effect<A, E, R>): Effect.Effect<A, E | U | StoreError, R> =>
    following(get)(
      Effect.flatMap(
        get,
        (entry): Effect.Effect<A, E | U, R> => {
          const error = obstacle(entry)
          return error === undefined ? act({ id: entry.id, dir: entry.dir }) : Effect.fail(unreadable(error))
        }
      )
    )
