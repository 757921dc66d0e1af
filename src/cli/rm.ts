import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type * as Documents from "../Documents.ts"
import { Store } from "./Context.ts"
import { giveBack, takeFromAll } from "./Freeing.ts"
import { remove } from "./Removing.ts"
import { runNames } from "./Several.ts"

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
