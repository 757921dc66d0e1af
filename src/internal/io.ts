/**
 * Reading and writing of small files, built from the calls of {@link Files}.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import { Errno } from "./Errno.ts"
import { type ByteEntry, type Entry, Files, Flags, type Info, type Kind } from "./Files.ts"

/** @internal */
export class NotRegular extends Data.TaggedError("NotRegular")<{ readonly path: string; readonly kind: Kind }> {
  override get message() {
    return `${this.path}: is a ${this.kind}, not a regular file`
  }
}

/** @internal */
export class TooLarge extends Data.TaggedError("TooLarge")<{ readonly path: string; readonly bytes: number }> {
  override get message() {
    return `${this.path}: has ${this.bytes} bytes, more than are read`
  }
}

/**
 * The text of a regular file of at most `limit` bytes. Never waits on a FIFO and never follows a link.
 *
 * @internal
 */
export const readText = Effect.fnUntraced(
  function*(path: string, limit: number): Effect.fn.Return<string, Errno | NotRegular | TooLarge> {
    const files = yield* Files
    const fd = yield* files.open(path, Flags.read)
    return yield* Effect.flatMap(files.fstat(fd, path), (info) => readOpened({ fd, info }, path, limit)).pipe(
      Effect.ensuring(files.close(fd))
    )
  },
  // Opening a link with O_NOFOLLOW and a socket at all fails before anything can be asked of the descriptor.
  Effect.catchTag("Errno", (errno) => {
    const kind = unopenable[errno.code]
    return Effect.fail(kind === undefined ? errno : new NotRegular({ path: errno.path, kind }))
  })
)

const unopenable: Record<string, Kind> = { ELOOP: "link", ENXIO: "socket" }

/**
 * An open file, and what was found of it.
 *
 * @internal
 */
export interface Opened {
  readonly fd: number
  readonly info: Info
}

/**
 * The bytes of a file that is open already and of which nothing was read yet.
 *
 * @internal
 */
export const readBytes = Effect.fnUntraced(function*({ fd, info }: Opened, path: string, limit: number) {
  const files = yield* Files
  if (info.kind !== "file") return yield* new NotRegular({ path, kind: info.kind })
  if (info.size > limit) return yield* new TooLarge({ path, bytes: info.size })
  const buffer = new Uint8Array(info.size)
  let length = 0
  while (length < buffer.length) {
    const count = yield* files.read(fd, buffer.subarray(length), path)
    // It has become shorter since.
    if (count === 0) break
    length += count
  }
  return buffer.subarray(0, length)
})

/**
 * The same as text.
 *
 * @internal
 */
export const readOpened = (opened: Opened, path: string, limit: number) =>
  Effect.map(readBytes(opened, path, limit), (bytes) => decoder.decode(bytes))

/**
 * The last bytes of a file that is open, as text.
 *
 * @internal
 */
export const readTail = Effect.fnUntraced(function*({ fd, info }: Opened, path: string, bytes: number) {
  const files = yield* Files
  const buffer = new Uint8Array(Math.min(bytes, info.size))
  const count = yield* files.read(fd, buffer, path, info.size - buffer.length)
  return decoder.decode(buffer.subarray(0, count))
})

const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** @internal */
export const writeAll = Effect.fnUntraced(function*(fd: number, bytes: Uint8Array, path: string) {
  const files = yield* Files
  let rest = bytes
  while (rest.length > 0) rest = rest.subarray(yield* files.write(fd, rest, path))
})

/**
 * Six characters that nobody else will have chosen at the same moment in the same place.
 *
 * @internal
 */
export const nonce: Effect.Effect<string> = Effect.map(
  Random.nextIntBetween(0, 36 ** 6, { halfOpen: true }),
  (value) => value.toString(36).padStart(6, "0")
)

const draftName = /^(.*)\.draft-[0-9a-z]{6}\.tmp$/s

/**
 * The name of the file that {@link replace} was to put this one in the place of, if it is such a draft: somebody is writing
 * it, or has died over it. No program is likely to name a file of its own so.
 *
 * @internal
 */
export const replacedBy = (name: string): string | undefined => draftName.exec(name)?.[1]

/**
 * Makes a new file; fails with EEXIST where there is one. What was begun and not finished is taken away again.
 *
 * @internal
 */
export const writeNew = Effect.fnUntraced(
  function*(path: string, text: string, options?: { readonly fsync?: boolean | undefined }) {
    const files = yield* Files
    const fd = yield* files.open(path, Flags.create)
    yield* writeAll(fd, encoder.encode(text), path).pipe(
      Effect.andThen(options?.fsync === true ? files.fsync(fd, path) : Effect.void),
      Effect.ensuring(files.close(fd)),
      Effect.onError(() => Effect.ignore(files.unlink(path)))
    )
  }
)

/**
 * Puts a text in the place of a file in one step: readers see the old one or the new one, and a failure leaves the old
 * one. With `fsync` it is also still there after a power cut.
 *
 * @internal
 */
export const replace = Effect.fnUntraced(
  function*(path: string, text: string, options?: { readonly fsync?: boolean | undefined }) {
    const files = yield* Files
    // A crash may leave the temporary file behind, so nobody may depend on its name being free.
    const temporary = `${path}.draft-${yield* nonce}.tmp`
    yield* writeNew(temporary, text, options)
    yield* files.rename(temporary, path).pipe(Effect.onError(() => Effect.ignore(files.unlink(temporary))))
    if (options?.fsync !== true) return
    // Somebody may have taken the directory away by now, and the file as it is with it.
    const isGone = ({ code }: Errno) => code === "ENOENT"
    yield* Effect.catchIf(syncDirectory(path.slice(0, path.lastIndexOf("/"))), isGone, () => Effect.void)
  }
)

/** How a system says that it has no flush of a directory; Windows does not even open one. */
const noFlush: ReadonlySet<string> = new Set(
  process.platform === "win32" ? ["EPERM", "EISDIR", "EACCES", "EINVAL"] : ["EINVAL", "ENOTSUP", "EOPNOTSUPP"]
)

/**
 * A rename is on the disk for good once its directory is. Where there is no such flush, all has been done that can be.
 *
 * @internal
 */
export const syncDirectory = Effect.fnUntraced(
  function*(path: string) {
    const files = yield* Files
    const fd = yield* files.open(path, Flags.directory)
    yield* files.fsync(fd, path).pipe(Effect.ensuring(files.close(fd)))
  },
  Effect.catchIf((errno) => noFlush.has(errno.code), () => Effect.void)
)

/**
 * Whether a failed look says that nothing lies there. Of what cannot be looked at it is not known that it has gone.
 *
 * @internal
 */
export const isAbsence = ({ code }: Errno): boolean => code === "ENOENT" || code === "ENOTDIR"

/**
 * Whether something lies there, or may.
 *
 * @internal
 */
export const isThere = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(path))
  return Result.isSuccess(there) || !isAbsence(there.failure)
})

/**
 * Whether two looks saw the same file.
 *
 * @internal
 */
export const sameFile = (left: Info, right: Info): boolean => left.ino === right.ino && left.dev === right.dev

/**
 * Fails where something else lies in the place of a directory, which may lead elsewhere.
 *
 * @internal
 */
export const requireDirectory = Effect.fnUntraced(function*(path: string): Effect.fn.Return<void, Errno> {
  const files = yield* Files
  const { kind } = yield* files.lstat(path)
  if (kind !== "directory") return yield* notADirectory(path, kind)
})

/** @internal */
export const notADirectory = (path: string, kind: Kind): Errno =>
  new Errno({ code: "ENOTDIR", call: "open", path, cause: new Error(`is a ${kind}`) })

/**
 * Shows every entry of a directory, of which there may be a million: never more than a piece of them is remembered. Ends
 * where `show` says `false`.
 *
 * @internal
 */
export const eachEntry = Effect.fnUntraced(
  function*(path: string, show: (entry: ByteEntry) => unknown): Effect.fn.Return<void, Errno> {
    const files = yield* Files
    const listing = yield* files.listAt(Buffer.from(path))
    yield* Effect.gen(function*() {
      for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) {
        for (const entry of piece) if (show(entry) === false) return
        yield* Effect.yieldNow
      }
    }).pipe(Effect.ensuring(listing.close))
  }
)

/**
 * What of a directory is wanted by its name, the last first: of days and ids those are the newest. One that is not there
 * has nothing in it. Of very many no more than `most` are taken, as they come.
 *
 * @internal
 */
export const entriesOf = Effect.fnUntraced(
  function*(
    path: string,
    isWanted: (name: string) => boolean,
    most = Number.POSITIVE_INFINITY
  ): Effect.fn.Return<ReadonlyArray<Entry>, Errno> {
    const found: Array<Entry> = []
    const take = ({ kind, name: bytes }: ByteEntry) => {
      const name = bytes.toString()
      if (isWanted(name)) found.push({ name, kind })
      return found.length < most
    }
    yield* requireDirectory(path).pipe(
      Effect.andThen(eachEntry(path, take)),
      Effect.catchIf((errno) => errno.code === "ENOENT", () => Effect.void)
    )
    return found.sort((left, right) => left.name < right.name ? 1 : -1)
  }
)

/**
 * The first of these places in which something lies that is no directory: a link there would lead out of the store.
 *
 * @internal
 */
export const findAstray = Effect.fnUntraced(function*(places: ReadonlyArray<string>) {
  const files = yield* Files
  for (const path of places) {
    const there = yield* Effect.result(files.lstat(path))
    if (Result.isSuccess(there) && there.success.kind !== "directory") return { path, kind: there.success.kind }
  }
  return undefined
})
