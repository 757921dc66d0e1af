/** Doors to the disk and to the locks that tell of every call before it is made: a place to stop at, or to step in. */
import * as Effect from "effect/Effect"
import type { Errno } from "../../src/internal/Errno.ts"
import { Files, type FilesApi, type Info, node } from "../../src/internal/Files.ts"
import { Locks, native } from "../../src/internal/Locks.ts"
import { hour } from "./Time.ts"

/** What is done before a call. `paths` are the words among its arguments: what it is about. */
export type Before = (call: string, paths: ReadonlyArray<string>) => Effect.Effect<void>

const isText = (value: unknown): value is string => typeof value === "string"

/** What becomes of a call: it may be made, or not, or something else beside it. */
export type Step = (
  call: string,
  args: ReadonlyArray<unknown>,
  perform: Effect.Effect<unknown, Errno>
) => Effect.Effect<unknown, Errno>

/** A door of which every call comes by a step. */
export const by = <A extends object>(door: A, step: Step): A =>
  Object.fromEntries(
    Object.entries(door).map(([call, perform]) => [
      call,
      typeof perform === "function"
        ? (...args: ReadonlyArray<unknown>) =>
          Effect.suspend(() => step(call, args, Effect.suspend(() => perform(...args))))
        : perform
    ])
  ) as A

/** An effect of which every call to the disk, where some may be otherwise, and to the locks comes by a step. */
export const allBy =
  (step: Step, changed: Partial<FilesApi> = {}) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    effect.pipe(
      Effect.provideService(Files, by({ ...node, ...changed }, step)),
      Effect.provideService(Locks, by(native, step))
    )

/** Every call that an effect makes to the disk or to the locks is told of before it is made. */
export const watch = (before: Before, changed?: Partial<FilesApi>) =>
  allBy((call, args, perform) =>
    before(call, args.filter(isText)).pipe(
      // Who steps in comes through the doors as they are.
      Effect.provideService(Files, node),
      Effect.provideService(Locks, native),
      Effect.andThen(perform)
    ), changed)

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

const early = Effect.map((info: Info) => ({ ...info, ctimeNanos: info.ctimeNanos - BigInt(hour) * 1_000_000n }))

/** Where whatever has changed has changed an hour before: nobody can set that time. */
export const hourAgo: Partial<FilesApi> = { lstat: (path) => early(node.lstat(path)) }
