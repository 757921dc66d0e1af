import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import type * as Documents from "../Documents.ts"
import * as RunArchive from "../RunArchive.ts"
import { RunStore } from "../RunStore.ts"
import { Store } from "./Context.ts"
import { giveBack, takeFromAll } from "./Freeing.ts"
import { runNames } from "./Several.ts"

const linksOut = Flag.Boolean("links-out").pipe(
  Flag.withDescription("Restore symbolic links that lead out of their run, too; an archive with one is refused else"),
  Flag.withDefault(false)
)

export const restore = Command.make("restore", { runs: runNames({ min: 1 }), linksOut }).pipe(
  Command.withDescription("Bring archived runs back, as they were"),
  Command.withHandler(Effect.fn(function*({ linksOut, runs }) {
    const store = yield* RunStore
    const outcome = yield* takeFromAll(
      runs,
      (id) => Effect.as(RunArchive.restore(id, { linksOut }), { id, dir: store.dir(id) }),
      ({ dir, id }) => `restored ${id}: ${dir}`,
      { archived: true }
    )
    yield* giveBack(outcome, {
      tookAny: false,
      document: (restored, { failed }) => ({ version: 1, restored, failed } satisfies typeof Documents.Restore.Type)
    })
  })),
  Command.provide(Store)
)
