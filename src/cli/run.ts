import * as Command from "effect/cli/Command"
import { commandAfterDashes, StoreOrNew } from "./Context.ts"
import { flagsOf } from "./Flags.ts"
import { options, start } from "./Starting.ts"

export const run = Command.make("run", { ...flagsOf(options), command: commandAfterDashes(1) }).pipe(
  Command.withDescription("Run a command in a bundle of its own, and exit as it does"),
  Command.withHandler(({ command, ...given }) => start(given, command)),
  Command.provide(StoreOrNew)
)
