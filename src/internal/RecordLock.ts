/**
 * Keeping everybody from changing a record while something is done that rests on what it says. A claim alone does not:
 * people pin a run without a lease.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Errno } from "./Errno.ts"
import { Files, Flags } from "./Files.ts"
import { type Opened, sameFile } from "./io.ts"
import { cannotLock, Locks } from "./Locks.ts"
import { pause } from "./Pause.ts"

/** With the waits between, some ten seconds: whoever changes a record is done in milliseconds, on most disks. */
const maxTries = 200

/** Some half a second, for a pass, which nobody who is stopped in the middle of a change may hold up. */
const maxTriesInBrief = 10

/** A file that was replaced before it was locked is the lock of nobody any more. */
const lock = Effect.fnUntraced(function*(fd: number, path: string) {
  const files = yield* Files
  const locks = yield* Locks
  // Where the file system has no locks there is none to wait for.
  const granted = yield* Effect.catchIf(
    locks.tryExclusive(fd, path),
    ({ code }) => cannotLock(code),
    () => Effect.succeed(true)
  )
  if (!granted) return undefined
  const info = yield* files.fstat(fd, path)
  const there = yield* Effect.result(files.lstat(path))
  return Result.isSuccess(there) && sameFile(info, there.success) ? { fd, info } : undefined
})

/** The file with the lock, or nothing, and then nothing stays open. */
const tryOnce = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const fd = yield* files.open(path, Flags.lock)
  const locked = yield* Effect.onError(lock(fd, path), () => files.close(fd))
  if (locked === undefined) yield* files.close(fd)
  return locked
})

/**
 * Takes the lock that every change of a record takes, until the scope ends, and gives the file, of which nothing was
 * read yet. Only for a record that can be read. Fails with EBUSY where somebody else keeps it.
 *
 * @internal
 */
export const take = Effect.fnUntraced(function*(
  bundle: string,
  options?: { readonly brief?: boolean | undefined }
): Effect.fn.Return<Opened, Errno, Scope.Scope> {
  const path = `${bundle}/run.json`
  const most = options?.brief === true ? maxTriesInBrief : maxTries
  for (let tries = 0; tries < most; tries++) {
    const locked = yield* Effect.acquireRelease(
      tryOnce(path),
      (locked) => locked === undefined ? Effect.void : Effect.flatMap(Files, (files) => files.close(locked.fd))
    )
    if (locked !== undefined) return locked
    yield* pause(yield* Random.nextIntBetween(1, 100))
  }
  return yield* new Errno({ code: "EBUSY", call: "lock", path, cause: new Error("another process keeps writing it") })
})

/**
 * The same, or nothing where the record cannot be opened: then there is nothing to lock, and what is wrong with it is for
 * the reading to say.
 *
 * @internal
 */
export const takeIfOpen = (
  bundle: string,
  options?: { readonly brief?: boolean | undefined }
): Effect.Effect<Opened | undefined, Errno, Scope.Scope> =>
  Effect.catchIf(take(bundle, options), ({ call }) => call === "open", () => Effect.undefined)
