/**
 * Going on with a run wherever it is: in the store, or in the archive, and while others move it from one to the other.
 */
import * as Effect from "effect/Effect"
import { LeaseError } from "../Lease.ts"
import type { RunId } from "../RunId.ts"
import type { ResumeOptions, RunStore } from "../RunStore.ts"
import type { StoreError, StoreReason } from "../StoreError.ts"

type Store = RunStore["Service"]

type Archived = Extract<StoreReason, { readonly _tag: "Archived" }>

const isArchived = (error: { readonly _tag: string }): error is StoreError & { readonly reason: Archived } =>
  error._tag === "StoreError" && (error as StoreError).reason._tag === "Archived"

/**
 * A run that has gone since it was found need not have gone for good: says so where it has been archived.
 *
 * @internal
 */
export const orArchived =
  (store: Store, id: RunId) =>
  <A, E, R>(effect: Effect.Effect<A, E | LeaseError, R>): Effect.Effect<A, E | LeaseError | StoreError, R> =>
    Effect.tapError(effect, (error) =>
      error instanceof LeaseError && error.reason._tag === "RunGone"
        ? Effect.catchIf(Effect.asVoid(store.get(id)), (missing) => !isArchived(missing), () => Effect.void)
        : Effect.void)

/** Loaded only for a run that has been archived. Somebody may restore it at the same moment. */
const fromArchive = Effect.fnUntraced(function*(store: Store, id: RunId, options: ResumeOptions) {
  const RunArchive = yield* Effect.promise(() => import("../RunArchive.ts"))
  return yield* RunArchive.resume(id, options).pipe(
    Effect.catchIf(
      (error) => error._tag === "ArchiveError" && error.reason._tag === "Present",
      () => store.resume(id, options)
    )
  )
})

/**
 * Goes on with the run that a person means, as its owner.
 *
 * @internal
 */
export const resume = (store: Store, name: string, options: ResumeOptions) =>
  Effect.flatMap(store.find(name), ({ id }) => orArchived(store, id)(store.resume(id, options))).pipe(
    Effect.catchIf(isArchived, ({ reason }) => fromArchive(store, reason.id, options))
  )
