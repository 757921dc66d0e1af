/**
 * A file of JSON lines that is written in batches while a program runs and to its end when the scope closes.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { Files } from "./Files.ts"
import { writeAll } from "./io.ts"
import { openToAppend } from "./OwnFile.ts"

/** @internal */
export interface JsonLines {
  /** Never waits and never fails: a program must not be held up, or end otherwise, by its telemetry. */
  readonly push: (line: string) => void
}

const window = "100 millis"

/**
 * The file is made with the first line. The first failure is logged as a warning, by the loggers of whoever made this,
 * and ends the writing; nothing else learns of it.
 *
 * @internal
 */
export const make = Effect.fnUntraced(function*(path: string): Effect.fn.Return<JsonLines, never, Scope.Scope> {
  const files = yield* Files
  const queue = yield* Queue.unbounded<string>()
  let broken = false

  const append = (lines: ReadonlyArray<string>) =>
    Effect.acquireUseRelease(
      openToAppend(path),
      ({ fd }) => writeAll(fd, new TextEncoder().encode(`${lines.join("\n")}\n`), path),
      ({ fd }) => files.close(fd)
    ).pipe(
      Effect.catch((errno) => {
        broken = true
        return Effect.logWarning(`telemetry is not kept any more: ${errno.message}`)
      })
    )

  const flush = Effect.gen(function*() {
    const lines = yield* Queue.clear(queue)
    if (lines.length > 0 && !broken) yield* append(lines)
  })

  // Registered before the writer starts, so that it runs after the writer has been stopped and finds what is left.
  yield* Effect.addFinalizer(() => flush)
  const writer = Effect.gen(function*() {
    const first = yield* Queue.peek(queue)
    yield* Effect.sleep(window)
    yield* Effect.uninterruptible(flush)
    return first
  })
  yield* Effect.forkScoped(Effect.forever(writer))

  return {
    push: (line) => {
      if (!broken) Queue.offerUnsafe(queue, line)
    }
  }
})
