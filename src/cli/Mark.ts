/** Lines of our own in what is kept of a program's output. */
import * as Effect from "effect/Effect"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import { type Opened, writeAll } from "../internal/io.ts"
import { openToAppend } from "../internal/OwnFile.ts"
import * as Run from "../Run.ts"

/** A program may have ended in the middle of a line, or have written what has no lines. */
const isMidLine = Effect.fnUntraced(function*({ fd, info: { size } }: Opened, path: string) {
  const files = yield* Files
  const last = Buffer.alloc(1)
  return size > 0 && (yield* files.read(fd, last, path, size - 1)) === 1 && last.toString() !== "\n"
})

const append = Effect.fnUntraced(function*(opened: Opened, path: string, text: string) {
  const line = `${(yield* isMidLine(opened, path)) ? "\n" : ""}--- ${text} ---\n`
  yield* writeAll(opened.fd, new TextEncoder().encode(line), path)
})

/** Appends `--- text ---` to logs of the run, in a line of its own. */
export const mark = Effect.fnUntraced(
  function*(logs: ReadonlyArray<string>, text: string): Effect.fn.Return<void, Errno, Run.Run> {
    const files = yield* Files
    const { paths } = yield* Run.Run
    yield* Effect.catchIf(files.mkdir(paths.logs), (errno) => errno.code === "EEXIST", () => Effect.void)
    for (const name of logs) {
      const path = `${paths.logs}/${name}`
      yield* Effect.acquireUseRelease(
        openToAppend(path),
        (opened) => append(opened, path, text),
        ({ fd }) => files.close(fd)
      )
    }
  }
)
