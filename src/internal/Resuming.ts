/**
 * Going on with a run wherever it is: in the store, or in the archive, and while others move it from one to the other.
 */
import * as Effect from "effect/Effect"
import type { ArchiveError } from "../ArchiveError.ts"
import type { LeaseError } from "../Lease.ts"
import type { RunId } from "../RunId.ts"
import type { ResumeOptions, RunStore } from "../RunStore.ts"
import type { StoreError, StoreReason } from "../StoreError.ts"
import { whileMoving } from "./Whereabouts.ts"

type Store = RunStore["Service"]

type Failure = StoreError | LeaseError | ArchiveError

type Archived = Extract<StoreReason, { readonly _tag: "Archived" }>

const isArchived = (error: Failure): error is StoreError & { readonly reason: Archived } =>
  error._tag === "StoreError" && error.reason._tag === "Archived"

/** Loaded only for a run that has been archived. */
const fromArchive = Effect.fnUntraced(function*(id: RunId, options: ResumeOptions) {
  const RunArchive = yield* Effect.promise(() => import("../RunArchive.ts"))
  return yield* RunArchive.resume(id, options)
})

/** Somebody has restored it at the same moment. */
const isElsewhere = (error: Failure): boolean => {
  if (error._tag === "StoreError") return error.reason._tag === "NoSuchRun"
  if (error._tag === "LeaseError") return false
  return error.reason._tag === "Present" || (error.reason._tag === "System" && error.reason.errno.code === "ENOENT")
}

/**
 * Goes on with the run that a person means, as its owner.
 *
 * @internal
 */
export const resume = Effect.fnUntraced(function*(store: Store, name: string, options: ResumeOptions) {
  const id = yield* store.find(name).pipe(
    Effect.map((found) => found.id),
    Effect.catchIf(isArchived, ({ reason }) => Effect.succeed(reason.id))
  )
  return yield* whileMoving(isElsewhere)(
    Effect.catchIf(store.resume(id, options), isArchived, () => fromArchive(id, options))
  )
})
