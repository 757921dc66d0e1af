import * as Effect from "effect/Effect"
import * as RunArchive from "../RunArchive.ts"
import type { RunId } from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"

/** Somebody may archive and restore it again and again. */
const most = 10

/** Removes a run wherever it is. It may be archived, or restored, at just this moment. Gives the bytes that are free by now. */
export const remove = (
  id: RunId,
  nth = 1
): Effect.Effect<
  number,
  Effect.Error<ReturnType<typeof RunRemoval.remove>> | Effect.Error<ReturnType<typeof RunArchive.remove>>,
  Effect.Services<ReturnType<typeof RunRemoval.remove>>
> =>
  Effect.as(RunRemoval.remove(id), 0).pipe(
    Effect.catchIf(
      (error) => error._tag === "StoreError" && error.reason._tag === "Archived",
      () =>
        RunArchive.remove(id).pipe(
          Effect.catchIf(
            (error) =>
              nth < most && ((error._tag === "ArchiveError" && error.reason._tag === "Present") ||
                (error._tag === "StoreError" && error.reason._tag === "NoSuchRun")),
            () => remove(id, nth + 1)
          )
        )
    )
  )
