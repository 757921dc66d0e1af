import * as Effect from "effect/Effect"
import { whileMoving } from "../internal/Whereabouts.ts"
import * as RunArchive from "../RunArchive.ts"
import type { RunId } from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"

/** Removes a run wherever it is. It may be archived, or restored, at just this moment. Gives the bytes that are free by now. */
export const remove = (id: RunId) =>
  Effect.as(RunRemoval.remove(id), 0).pipe(
    Effect.catchIf(
      (error) => error._tag === "StoreError" && error.reason._tag === "Archived",
      () => RunArchive.remove(id)
    ),
    whileMoving((error) =>
      (error._tag === "ArchiveError" && error.reason._tag === "Present") ||
      (error._tag === "StoreError" && error.reason._tag === "NoSuchRun")
    )
  )
