import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { findRun, Json, runName, Store } from "./Context.ts"
import { printJson } from "./Output.ts"

export const path = Command.make("path", { run: runName }).pipe(
  Command.withDescription("Print the directory of a run"),
  Command.withHandler(Effect.fn(function*({ run }) {
    const { dir, id } = yield* findRun(run)
    yield* (yield* Json) ? printJson({ version: 1, id, dir }) : Console.log(dir)
  })),
  Command.provide(Store)
)
