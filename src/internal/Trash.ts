/**
 * How a bundle leaves the store: by one rename into the trash, under its claim. From then on it is not a run any more,
 * whatever happens to the process that did it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { Errno } from "./Errno.ts"
import { Files } from "./Files.ts"
import { findAstray, nonce } from "./io.ts"
import * as Tree from "./Tree.ts"

/** Windows says so of a file that a virus scanner or an indexer has open, mostly for a moment only. */
const mayPass = (errno: Errno) => errno.code === "EBUSY" || (process.platform === "win32" && errno.code === "EPERM")

/** It comes with the store, so that a full disk needs no new directory; somebody may have taken it away since. */
const requireTrash = Effect.fnUntraced(function*(trash: string) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(trash))
  if (Result.isFailure(there)) {
    if (there.failure.code !== "ENOENT") return yield* there.failure
    yield* Effect.catchIf(files.mkdir(trash), (errno) => errno.code === "EEXIST", () => Effect.void)
  } else if (there.success.kind !== "directory") {
    // A link in its place would take what is removed out of the store.
    return yield* new Errno({ code: "ENOTDIR", call: "rename", path: trash, cause: undefined })
  }
})

/**
 * Which of these directories, and of the trash, is none of the store's, if any: what is put into a trash that is a link
 * would leave it.
 *
 * @internal
 */
export const astray = (root: string, ways: ReadonlyArray<string>) =>
  findAstray([...ways, "trash"].map((way) => `${root}/${way}`))

/**
 * Takes a day of the runs away when it has become empty, and says whether it has gone. Whoever is about to publish a bundle
 * in it makes it anew.
 *
 * @internal
 */
export const leaveDay = (root: string, day: string): Effect.Effect<boolean> =>
  Effect.flatMap(Files, (files) => Effect.isSuccess(files.rmdir(`${root}/runs/${day}`)))

/**
 * Makes a directory in the trash for parts of a bundle, and gives its path. A sweep may take it away while it is empty.
 *
 * @internal
 */
export const makePlace = Effect.fnUntraced(function*(root: string, id: string) {
  const files = yield* Files
  yield* requireTrash(`${root}/trash`)
  const place = `${root}/trash/${id}-${yield* nonce}`
  yield* files.mkdir(place)
  return place
})

/**
 * Tries again what is refused for a moment only.
 *
 * @internal
 */
export const patiently = <A, R>(move: Effect.Effect<A, Errno, R>): Effect.Effect<A, Errno, R> =>
  Effect.retry(move, { times: 5, while: mayPass, schedule: Schedule.spaced("10 millis") })

/** To be moved into another directory, one must be writable itself, and a program may have made its own read-only. */
const makeWritable = Effect.fnUntraced(function*(dir: string) {
  const files = yield* Files
  yield* Effect.acquireUseRelease(
    Tree.open(dir),
    (walk) => files.chmodAt(walk.place(), walk.top.mode | 0o700),
    (walk) => walk.close
  )
})

/** @internal */
export const put = Effect.fnUntraced(function*(root: string, dir: string, id: string) {
  const files = yield* Files
  const trash = `${root}/trash`
  yield* requireTrash(trash)
  const move = files.rename(dir, `${trash}/${id}-${yield* nonce}`)
  yield* move.pipe(
    Effect.catchIf(
      (errno) => errno.code === "EACCES",
      (errno) => Effect.andThen(Effect.mapError(makeWritable(dir), () => errno), move)
    ),
    patiently
  )
})
