/** The command, struck by a signal at one of its calls to the disk. */
import * as Effect from "effect/Effect"
import { command, type Exit, repository, start, wordsFor } from "./Worker.ts"

const striking = ["--import", `${repository}/test/processes/fixtures/strike.mjs`]

/** Runs it to its end. It is struck as the environment says: see `strike.mjs`. */
export const struck = (
  root: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>
): Effect.Effect<Exit> =>
  Effect.scoped(Effect.flatMap(
    start([process.execPath, ...striking, command, ...wordsFor(root, args)], { env: { STRIKE_ROOT: root, ...env } }),
    (worker) => worker.exit
  ))
