/** Doors to the disk and to the locks that tell of every call before it is made: a place to stop at, or to step in. */
import * as Effect from "effect/Effect"
import { Files, node } from "../../src/internal/Files.ts"
import { Locks, native } from "../../src/internal/Locks.ts"

/** What is done before a call. `paths` are the words among its arguments: what it is about. */
export type Before = (call: string, paths: ReadonlyArray<string>) => Effect.Effect<void>

const isText = (value: unknown): value is string => typeof value === "string"

const watched = <A extends object>(door: A, before: Before): A =>
  Object.fromEntries(
    Object.entries(door).map(([call, perform]) => [
      call,
      (...args: ReadonlyArray<unknown>) =>
        before(call, args.filter(isText)).pipe(
          // Who steps in comes through the doors as they are.
          Effect.provideService(Files, node),
          Effect.provideService(Locks, native),
          Effect.andThen(perform(...args))
        )
    ])
  ) as A

/** Every call that an effect makes to the disk or to the locks is told of before it is made. */
export const watch = (before: Before) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  effect.pipe(
    Effect.provideService(Files, watched(node, before)),
    Effect.provideService(Locks, watched(native, before))
  )

/** Steps in once, before the first call that is the one. */
export const once = (
  isTheOne: (call: string, paths: ReadonlyArray<string>) => boolean,
  step: Effect.Effect<void>
): Before => {
  let done = false
  return (call, paths) =>
    Effect.suspend(() => {
      if (done || !isTheOne(call, paths)) return Effect.void
      done = true
      return step
    })
}
