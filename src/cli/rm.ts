import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type * as Documents from "../Documents.ts"
import * as RunArchive from "../RunArchive.ts"
import type { RunId } from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"
import { Store } from "./Context.ts"
import { giveBack, takeFromAll } from "./Freeing.ts"
import { runNames } from "./Several.ts"

/** It may be archived, or restored, at just this moment. Gives the bytes that are free by now. */
const remove = (id: RunId) =>
  Effect.as(RunRemoval.remove(id), 0).pipe(
    Effect.catchIf(
      (error) => error._tag === "StoreError" && error.reason._tag === "Archived",
      () => RunArchive.remove(id)
    )
  )

export const rm = Command.make("rm", { runs: runNames({ min: 1 }) }).pipe(
  Command.withDescription("Remove runs that nobody works in and nobody has pinned, and give their space back"),
  Command.withHandler(Effect.fn(function*({ runs }) {
    const outcome = yield* takeFromAll(
      runs,
      (id) => Effect.map(remove(id), (freedBytes) => ({ id, freedBytes })),
      ({ id }) => `removed ${id}`,
      { archived: true }
    )
    yield* giveBack(outcome, {
      tookAny: outcome.done.length > 0,
      freedBytes: outcome.done.reduce((all, { freedBytes }) => all + freedBytes, 0),
      document: (removed, rest) =>
        ({ version: 1, removed: removed.map(({ id }) => ({ id })), ...rest }) satisfies typeof Documents.Rm.Type
    })
  })),
  Command.provide(Store)
)
