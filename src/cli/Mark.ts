/** Lines of our own in what is kept of a program's output. */
import * as Effect from "effect/Effect"
import type { Errno } from "../internal/Errno.ts"
import { Files, Flags } from "../internal/Files.ts"
import { writeAll } from "../internal/io.ts"
import * as Run from "../Run.ts"

/** Appends `--- text ---` to logs of the run. */
export const mark = Effect.fnUntraced(
  function*(logs: ReadonlyArray<string>, text: string): Effect.fn.Return<void, Errno, Run.Run> {
    const files = yield* Files
    const { paths } = yield* Run.Run
    yield* Effect.catchIf(files.mkdir(paths.logs), (errno) => errno.code === "EEXIST", () => Effect.void)
    for (const name of logs) {
      const path = `${paths.logs}/${name}`
      yield* Effect.acquireUseRelease(
        files.open(path, Flags.append),
        (fd) => writeAll(fd, new TextEncoder().encode(`--- ${text} ---\n`), path),
        files.close
      )
    }
  }
)
