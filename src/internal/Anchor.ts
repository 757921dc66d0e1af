/**
 * A hold on one directory, to find names in it whatever becomes of the path to it. On Linux it is a descriptor; where that
 * does not work (other systems, no `/proc`, a program that gave up root's rights) it is the path, which was a directory's
 * when it was looked at.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Errno } from "./Errno.ts"
import { Files, Flags, type Info, type Place } from "./Files.ts"
import { notADirectory, sameFile } from "./io.ts"

/** @internal */
export interface Anchor {
  readonly place: Place
  readonly info: Info
}

const dot = Buffer.from(".")

/** Whether a descriptor can be worked through. */
const canWorkThrough = Effect.fnUntraced(function*(fd: number, info: Info) {
  const files = yield* Files
  const through = yield* Effect.result(files.lstatAt(fd, dot))
  return Result.isSuccess(through) && sameFile(through.success, info)
})

const byPath = Effect.fnUntraced(function*(path: string, info: Info): Effect.fn.Return<Anchor, Errno> {
  return info.kind === "directory" ? { place: Buffer.from(path), info } : yield* notADirectory(path, info.kind)
})

/**
 * Takes hold of a directory; of a link to one it does not. The caller lets go.
 *
 * @internal
 */
export const hold = Effect.fnUntraced(function*(path: string): Effect.fn.Return<Anchor, Errno> {
  const files = yield* Files
  if (process.platform !== "linux") return yield* byPath(path, yield* files.lstat(path))
  const fd = yield* files.open(path, Flags.anchor)
  const info = yield* files.fstat(fd, path).pipe(Effect.tapError(() => files.close(fd)))
  if (yield* canWorkThrough(fd, info)) return { place: fd, info }
  yield* files.close(fd)
  return yield* byPath(path, info)
})

/** @internal */
export const letGo = Effect.fnUntraced(function*({ place }: Pick<Anchor, "place">) {
  const files = yield* Files
  if (typeof place === "number") yield* files.close(place)
})
