/** Where this process works, which somebody may have removed. */
import * as Effect from "effect/Effect"
import { type Errno, fromUnknown } from "./Errno.ts"

/** @internal */
export const workingDirectory: Effect.Effect<string, Errno> = Effect.try({
  try: () => process.cwd(),
  catch: (cause) => fromUnknown("getcwd", "the working directory", cause)
})
