/**
 * The seal of the index: what `index.db` looked like when the last pass let go of it, written into `retention.lock`.
 *
 * A file that does not look exactly so is not even opened: whether it is torn, noise, a liar, of another version or an
 * older copy, nobody has to find out, and no check is needed that would take the longer the more there is in it.
 */
import * as Effect from "effect/Effect"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info } from "./Files.ts"
import { writeAll } from "./io.ts"
import { Kernel, unknown } from "./Kernel.ts"

const pathOf = (root: string) => `${root}/retention.lock`

/** A seal is overwritten in place, so each covers all of the one before. */
const sealBytes = 256

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Not with the device, whose number may be another after a reboot. */
const sealOf = (info: Info, format: number, boot?: string) =>
  JSON.stringify({
    index: { format, ino: info.ino.toString(), size: info.size, mtime: info.mtimeNanos.toString(), boot }
  })

/**
 * Errors that come from what bears a name, and not from the state that the process or the disk is in.
 *
 * @internal
 */
export const isOfTheName = ({ code }: Errno): boolean => ["EACCES", "EISDIR", "ELOOP", "ENXIO", "EPERM"].includes(code)

const using = <A, E>(open: Effect.Effect<number, Errno>, use: (fd: number) => Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(open, use, (fd) => Effect.flatMap(Files, (files) => files.close(fd)))

const read = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const path = pathOf(root)
  const buffer = new Uint8Array(sealBytes)
  const count = yield* using(files.open(path, Flags.read), (fd) => files.read(fd, buffer, path)).pipe(
    Effect.catchIf((errno) => errno.code === "ENOENT" || isOfTheName(errno), () => Effect.succeed(0))
  )
  return decoder.decode(buffer.subarray(0, count)).trimEnd()
})

/**
 * Whoever holds the pass lock has it on another descriptor of this file, which neither stops this one from writing nor
 * lets go of the lock when it closes.
 */
const write = Effect.fnUntraced(function*(root: string, text: string, options?: { readonly fsync: boolean }) {
  const files = yield* Files
  const path = pathOf(root)
  const bytes = encoder.encode(`${text.padEnd(sealBytes - 1)}\n`)
  const open = files.open(path, Flags.lock).pipe(
    Effect.catchIf((errno) => errno.code === "ENOENT", () => files.open(path, Flags.create))
  )
  const fill = Effect.fnUntraced(function*(fd: number) {
    const { kind, nlink } = yield* files.fstat(fd, path)
    // Somebody else's, or what was put there to have it written to.
    if (kind !== "file" || nlink > 1) return yield* new Errno({ code: "EMLINK", call: "open", path, cause: undefined })
    yield* writeAll(fd, bytes, path)
    if (options?.fsync === true) yield* files.fsync(fd, path)
  })
  yield* using(open, fill)
})

/**
 * Before a change, so that a process that is killed in the middle of it leaves a file without a seal.
 *
 * @internal
 */
export const wipe = (root: string): Effect.Effect<void, Errno> => write(root, "")

/** @internal */
export interface Options {
  /**
   * A file that has been flushed is sealed until it is changed. Any other only until the machine goes down: a power cut
   * may have let any part of what was written last through.
   */
  readonly until: "changed" | "reboot"
  /** Have the seal itself on the disk before going on. */
  readonly fsync: boolean
}

/** @internal */
export const put = Effect.fnUntraced(function*(root: string, info: Info, format: number, options: Options) {
  const { boot } = yield* Kernel
  yield* write(root, sealOf(info, format, options.until === "reboot" ? boot : undefined), options)
})

/**
 * Whether two looks are of a file that nobody has written to in between.
 *
 * @internal
 */
export const looksAlike = (left: Info, right: Info): boolean => sealOf(left, 0) === sealOf(right, 0)

/** @internal */
export const isSealed = Effect.fnUntraced(function*(root: string, info: Info, format: number) {
  const { boot } = yield* Kernel
  const seal = yield* read(root)
  return seal === sealOf(info, format) || (boot !== unknown && seal === sealOf(info, format, boot))
})
