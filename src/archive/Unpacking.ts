/**
 * From the entries of an archive to a bundle. Nothing is ever written through a name that the archive could have put
 * there: each step is made in a directory that was made here a moment before and is held open since.
 */
import * as Effect from "effect/Effect"
import { Errno } from "../internal/Errno.ts"
import { Files, Flags } from "../internal/Files.ts"
import { isAbsence, nonce, writeAll } from "../internal/io.ts"
import { makeFifo } from "../internal/Pipes.ts"
import * as Tree from "../internal/Tree.ts"
import type { ArchiveEntry } from "./ArchiveEntry.ts"
import * as Flushing from "./Flushing.ts"
import { type Content, Corrupt, read, type Source, Unsafe } from "./Reading.ts"
import type { TarError } from "./Tar.ts"

interface Unpacking {
  readonly dir: string
  readonly flushing: Flushing.Flushing
  readonly walk: Tree.Walk
  /** The directories on the way to the innermost, which is the last: what they are to be like when all is in them. */
  readonly way: Array<ArchiveEntry>
  /** What the bundle itself is to be like in the end. */
  mode: number
}

const nameOf = (path: Buffer) => path.subarray(path.lastIndexOf("/") + 1)

const parentOf = (path: Buffer) => path.subarray(0, Math.max(0, path.lastIndexOf("/")))

/** Last, since whatever is put into a directory moves its time, and it may be one that nothing may be put into. */
const settle = Effect.fnUntraced(function*({ walk }: Unpacking, { mode, mtimeNanos, path }: ArchiveEntry) {
  const files = yield* Files
  // A bundle is its owner's alone, whatever an archive says.
  yield* files.chmodAt(walk.place(), path.length === 0 ? 0o700 : mode)
  yield* files.utimesAt(walk.place(), mtimeNanos)
})

const leave = Effect.fnUntraced(function*(unpacking: Unpacking) {
  const left = unpacking.way.pop()
  if (left === undefined) return
  if (unpacking.way.length > 0) {
    yield* settle(unpacking, left)
    return yield* unpacking.walk.leave
  }
  // What is to be moved into its place has to be writable until it is there.
  unpacking.mode = left.mode
  yield* settle(unpacking, { ...left, mode: left.mode | 0o700 })
})

/** Goes back up to the directory that an entry belongs to. One that was left is complete, and is not entered again. */
const reach = Effect.fnUntraced(function*(unpacking: Unpacking, { path }: ArchiveEntry) {
  const parent = parentOf(path)
  const { way } = unpacking
  while (way.length > 0 && !way.at(-1)!.path.equals(parent)) yield* leave(unpacking)
  if (way.length === 0) {
    return yield* new Unsafe({ name: path.toString(), why: "the directory it lies in is not there" })
  }
})

const makeFile = Effect.fnUntraced(function*({ flushing, walk }: Unpacking, entry: ArchiveEntry, content: Content) {
  const files = yield* Files
  const shown = walk.shown(nameOf(entry.path))
  const fd = yield* files.openAt(walk.place(), nameOf(entry.path), Flags.write)
  yield* content((piece) => writeAll(fd, piece, shown)).pipe(
    Effect.andThen(files.fchmod(fd, entry.mode, shown)),
    Effect.andThen(files.futimes(fd, entry.mtimeNanos, shown)),
    Effect.onError(() => files.close(fd))
  )
  yield* flushing.add(fd, shown)
})

const isMissing = (error: Errno | Tree.Barred | Unsafe): error is Errno => error._tag === "Errno" && isAbsence(error)

/** The first name of the file is found from the top, where it can have been put by nobody but us. */
const makeLink = Effect.fnUntraced(function*({ dir, walk }: Unpacking, { path, target }: ArchiveEntry) {
  const files = yield* Files
  const first = target ?? Buffer.alloc(0)
  const way = parentOf(first)
  const other = yield* Tree.open(dir)
  const refuse = (why: string) => new Unsafe({ name: path.toString(), why })
  const find = Effect.gen(function*() {
    if (way.length > 0) {
      for (const part of way.toString("latin1").split("/")) yield* other.enter(Buffer.from(part, "latin1"))
    }
    return yield* files.lstatAt(other.place(), nameOf(first))
  })
  yield* Effect.gen(function*() {
    const there = yield* Effect.catchIf(find, isMissing, () => refuse("it is a link to a file that is not there"))
    if (there.kind !== "file") {
      return yield* refuse(`it is a link to a ${there.kind}`)
    }
    yield* files.linkAt(other.place(), nameOf(first), walk.place(), nameOf(path))
  }).pipe(Effect.ensuring(other.close))
})

/**
 * The system's own program makes them, which takes no names of other bytes than UTF-8 and no bits but permissions. A
 * rename would put it in the place of something else.
 */
const makeNamedPipe = Effect.fnUntraced(function*({ dir, walk }: Unpacking, { mode, mtimeNanos, path }: ArchiveEntry) {
  const files = yield* Files
  const temporary = Buffer.from(`.fifo-${yield* nonce}`)
  yield* makeFifo(`${dir}/${temporary}`, 0o600)
  yield* files.chmodAt(Buffer.from(`${dir}/${temporary}`), mode)
  const top = walk.placeAt(0)
  if (top === undefined) return yield* new Errno({ code: "EBADF", call: "mkfifo", path: dir, cause: undefined })
  yield* files.linkAt(top, temporary, walk.place(), nameOf(path))
  yield* files.unlinkAt(top, temporary)
  yield* files.lutimesAt(walk.place(), nameOf(path), mtimeNanos)
})

const make = Effect.fnUntraced(function*(unpacking: Unpacking, entry: ArchiveEntry, content: Content) {
  const files = yield* Files
  const { walk, way } = unpacking
  // The directory itself has been made for us, and leased.
  if (entry.path.length === 0) return void way.push(entry)
  yield* reach(unpacking, entry)
  const name = nameOf(entry.path)
  switch (entry.kind) {
    case "directory":
      yield* files.mkdirAt(walk.place(), name)
      yield* walk.enter(name)
      return void way.push(entry)
    case "file":
      return yield* makeFile(unpacking, entry, content)
    case "symlink":
      yield* files.symlinkAt(entry.target ?? Buffer.alloc(0), walk.place(), name)
      return yield* files.lutimesAt(walk.place(), name, entry.mtimeNanos)
    case "link":
      return yield* makeLink(unpacking, entry)
    case "fifo":
      return yield* makeNamedPipe(unpacking, entry)
  }
})

const clash = ({ path }: ArchiveEntry) => (error: Errno) =>
  error.code === "EEXIST" ? new Unsafe({ name: path.toString(), why: "its name comes twice" }) : error

const barred = ({ path }: ArchiveEntry) => ({ why }: Tree.Barred) =>
  new Unsafe({ name: path.toString(), why: `the way to it is ${why}` })

/**
 * Unpacks an archive into a directory that the caller has made and that nobody else writes to, and gives the mode that is
 * for the caller to set once the directory is in its place. Of what it has made when it fails nothing may be used.
 *
 * @internal
 */
export const unpack = Effect.fnUntraced(function*(
  source: Source,
  dir: string
): Effect.fn.Return<number, Errno | Unsafe | Corrupt | TarError> {
  const walk = yield* Tree.open(dir)
  const flushing = yield* Flushing.make(dir)
  const unpacking: Unpacking = { dir, flushing, walk, way: [], mode: 0o700 }
  const visit = (entry: ArchiveEntry, content: Content): Effect.Effect<void, Errno | TarError | Unsafe> =>
    make(unpacking, entry, content).pipe(
      Effect.mapError((error) =>
        error._tag === "Errno" ? clash(entry)(error) : error._tag === "Barred" ? barred(entry)(error) : error
      )
    )
  const closeAll = Effect.gen(function*() {
    while (unpacking.way.length > 0) yield* leave(unpacking)
  }).pipe(Effect.catchTag("Barred", ({ why }) => Effect.fail(new Corrupt({ detail: `a directory of it is ${why}` }))))
  yield* read(source, visit).pipe(
    Effect.andThen(closeAll),
    Effect.andThen(flushing.finish),
    Effect.ensuring(Effect.andThen(flushing.close, walk.close))
  )
  return unpacking.mode
})
