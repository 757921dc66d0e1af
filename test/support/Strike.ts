/** The command, struck by a signal at one of its calls to the disk. */
import * as Effect from "effect/Effect"
import { command, type Exit, repository, start } from "./Worker.ts"

/** Runs it to its end. It is struck as the environment says: see `strike.mjs`. */
export const struck = (
  root: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>
): Effect.Effect<Exit> => {
  const end = args.indexOf("--")
  const split = end === -1 ? args.length : end
  return Effect.scoped(Effect.flatMap(
    start([
      process.execPath,
      "--import",
      `${repository}/test/processes/fixtures/strike.mjs`,
      command,
      ...args.slice(0, split),
      "--root",
      root,
      "--allow-temp",
      ...args.slice(split)
    ], { env: { STRIKE_ROOT: root, ...env } }),
    (worker) => worker.exit
  ))
}
