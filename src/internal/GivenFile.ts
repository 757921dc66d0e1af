/** Files that a person names, which are their own and no part of a store: a link may lead to one, and it may be a pipe. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as NodeNet from "node:net"
import { type Errno, fromUnknown } from "./Errno.ts"
import { Files, Flags } from "./Files.ts"
import { type NotRegular, readBytes, TooLarge } from "./io.ts"

/** @internal */
export class NotText extends Data.TaggedError("NotText")<{ readonly path: string }> {
  override get message() {
    return `${this.path}: is not text in UTF-8`
  }
}

/** To its end, which comes when nobody has it open to write any more. Whoever is interrupted does not wait for that. */
const readPipe = (fd: number, path: string, limit: number) =>
  Effect.callback<Uint8Array, Errno | TooLarge>((resume) => {
    const reader = new NodeNet.Socket({ fd, readable: true, writable: false })
    const chunks: Array<Buffer> = []
    let bytes = 0
    reader.on("data", (chunk) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= limit) return
      resume(Effect.fail(new TooLarge({ path, bytes })))
      reader.destroy()
    })
    reader.on("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
    reader.on("error", (cause) => resume(Effect.fail(fromUnknown("read", path, cause))))
    return Effect.sync(() => void reader.destroy())
  })

/**
 * The text of such a file, of at most `limit` bytes.
 *
 * @internal
 */
export const readGiven = Effect.fnUntraced(
  function*(path: string, limit: number): Effect.fn.Return<string, Errno | NotRegular | TooLarge | NotText> {
    const files = yield* Files
    const fd = yield* files.open(path, Flags.readThrough)
    const info = yield* files.fstat(fd, path).pipe(Effect.onError(() => files.close(fd)))
    const bytes = yield* info.kind === "fifo"
      ? readPipe(fd, path, limit)
      : Effect.ensuring(readBytes({ fd, info }, path, limit), files.close(fd))
    return yield* Effect.try({
      try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
      catch: () => new NotText({ path })
    })
  }
)
