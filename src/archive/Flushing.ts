/**
 * Having many new files on the disk before anybody relies on them. One flush after another waits for the disk each time;
 * of those that come together the file system makes one. So some files are kept open until they are flushed side by side,
 * and where there are very many the whole file system is flushed at the end instead.
 */
import * as Effect from "effect/Effect"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import * as WholeFlush from "../internal/WholeFlush.ts"

/** So many files are open at a time, of the few that a process may have. */
const together = 16

/** After so many, all of which have been flushed then, one of everything is quicker, even with much that is not ours. */
const many = 512

interface Open {
  readonly fd: number
  readonly shown: string
}

/** @internal */
export interface Flushing {
  /** Takes over a file that has been written, and closes it some time. */
  readonly add: (fd: number, shown: string) => Effect.Effect<void, Errno>
  /** Has everything on the disk that was added. */
  readonly finish: Effect.Effect<void, Errno>
  /** Closes what is open, flushed or not. */
  readonly close: Effect.Effect<void>
}

/**
 * For the files of one directory, and of those below.
 *
 * @internal
 */
export const make = Effect.fnUntraced(function*(directory: string): Effect.fn.Return<Flushing> {
  const files = yield* Files
  const open: Array<Open> = []
  let count = 0
  let isWhole = false

  const closeAll = (batch: ReadonlyArray<Open>) => Effect.forEach(batch, ({ fd }) => files.close(fd), { discard: true })

  // A descriptor must not be closed, and its number be given to another, while it is being flushed.
  const flush = ({ fd, shown }: Open) => Effect.uninterruptible(files.fsync(fd, shown))

  const flushOpen = Effect.suspend(() => {
    const batch = open.splice(0)
    return Effect.ensuring(
      Effect.forEach(batch, flush, { concurrency: together, discard: true }),
      closeAll(batch)
    )
  })

  const add: Flushing["add"] = Effect.fnUntraced(function*(fd, shown) {
    if (isWhole) return yield* files.close(fd)
    open.push({ fd, shown })
    count++
    if (open.length < together) return
    yield* flushOpen
    if (count === many) isWhole = yield* WholeFlush.tryFlush(directory)
  })

  return {
    add,
    finish: Effect.suspend(() => isWhole ? WholeFlush.flush(directory) : flushOpen),
    close: Effect.suspend(() => closeAll(open.splice(0)))
  }
})
