/** Lines of our own in what is kept of a program's output. */
import * as Effect from "effect/Effect"
import type { Errno } from "../internal/Errno.ts"
import { Files, Flags } from "../internal/Files.ts"
import { writeAll } from "../internal/io.ts"
import * as Run from "../Run.ts"

/** A program may have ended in the middle of a line, or have written what has no lines. */
const isMidLine = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const last = Buffer.alloc(1)
  return yield* Effect.acquireUseRelease(
    files.open(path, Flags.read),
    Effect.fnUntraced(function*(fd) {
      const { size } = yield* files.fstat(fd, path)
      return size > 0 && (yield* files.read(fd, last, path, size - 1)) === 1 && last.toString() !== "\n"
    }),
    files.close
  ).pipe(Effect.catchIf((errno) => errno.code === "ENOENT", () => Effect.succeed(false)))
})

/** Appends `--- text ---` to logs of the run, in a line of its own. */
export const mark = Effect.fnUntraced(
  function*(logs: ReadonlyArray<string>, text: string): Effect.fn.Return<void, Errno, Run.Run> {
    const files = yield* Files
    const { paths } = yield* Run.Run
    yield* Effect.catchIf(files.mkdir(paths.logs), (errno) => errno.code === "EEXIST", () => Effect.void)
    for (const name of logs) {
      const path = `${paths.logs}/${name}`
      const line = `${(yield* isMidLine(path)) ? "\n" : ""}--- ${text} ---\n`
      yield* Effect.acquireUseRelease(
        files.open(path, Flags.append),
        (fd) => writeAll(fd, new TextEncoder().encode(line), path),
        files.close
      )
    }
  }
)
