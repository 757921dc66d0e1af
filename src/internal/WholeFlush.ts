/**
 * Having all of a file system on the disk at once, by the system's own `sync -f`: node has no call for it. For a tree of
 * very many files this is one commit of the journal, where a flush of each is as many.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NodeOs from "node:os"
import { Errno } from "./Errno.ts"
import { Files } from "./Files.ts"

/** Those for which it is known to mean what a flush of each file does: ext4, xfs, btrfs, f2fs, tmpfs, and overlays. */
const known: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x01021994, 0x794c7630])

/** From 5.8 on Linux tells of errors that came up while it wrote back. */
const tellsOfErrors = (release: string): boolean => {
  const [major = 0, minor = 0] = release.split(".").map((part) => Number.parseInt(part, 10))
  return major > 5 || (major === 5 && minor >= 8)
}

/**
 * Flushes the file system that a directory lies in.
 *
 * @internal
 */
export const flush = (directory: string): Effect.Effect<void, Errno> =>
  Effect.callback((resume) => {
    const child = NodeChildProcess.execFile("sync", ["-f", directory], (cause) => {
      resume(cause ? Effect.fail(new Errno({ code: "EIO", call: "syncfs", path: directory, cause })) : Effect.void)
    })
    return Effect.sync(() => void child.kill())
  })

/**
 * Flushes it if that can be relied upon here, and says whether it can.
 *
 * @internal
 */
export const tryFlush = Effect.fnUntraced(function*(directory: string) {
  if (process.platform !== "linux" || !tellsOfErrors(NodeOs.release())) return false
  const files = yield* Files
  const type = yield* Effect.orElseSucceed(files.fileSystemType(directory), () => 0)
  return known.has(type) && (yield* Effect.isSuccess(flush(directory)))
})
