/**
 * Waiting for something outside this program, such as another process's lock.
 */
import * as Effect from "effect/Effect"

/**
 * Waits in real time: a test that moves the clock of its program does not move that of others.
 *
 * @internal
 */
export const pause = (millis: number): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    const timer = setTimeout(() => resume(Effect.void), millis)
    return Effect.sync(() => clearTimeout(timer))
  })
