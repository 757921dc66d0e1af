/**
 * From a bundle to the entries of an archive: everything in it, as it is, but the store's own traces of who works there.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as NodeCrypto from "node:crypto"
import { Errno } from "../internal/Errno.ts"
import { type ByteEntry, Files, Flags, type Info } from "../internal/Files.ts"
import { replacedBy, sameFile } from "../internal/io.ts"
import * as Tree from "../internal/Tree.ts"
import type { RunId } from "../RunId.ts"
import { type ArchiveEntry, faultOfPath, toHeader } from "./ArchiveEntry.ts"
import * as Manifest from "./Manifest.ts"
import { type Packer, pieceBytes, type TarError } from "./Tar.ts"

/**
 * Something in the bundle that an archive could not give back.
 *
 * @internal
 */
export class Unpackable extends Data.TaggedError("Unpackable")<{ readonly path: string; readonly why: string }> {}

/**
 * The one file that others may replace without a claim was replaced: people pin a run.
 *
 * @internal
 */
export class RecordChanged extends Data.TaggedError("RecordChanged") {}

/** @internal */
export interface Packed extends Manifest.Sums {
  /** Sockets, which have nothing in them, and are of no use to anybody once their program has ended. */
  readonly omitted: number
  readonly digest: string
}

const recordName = Buffer.from("run.json")
const slash = Buffer.from("/")

/** A lease is made anew with the bundle, and its holders are gone; a draft is what a crash has left. */
const isOfTheStore = (name: Buffer) => {
  const text = name.toString()
  return text === "lease" || text === "holders" || replacedBy(text) === "run.json"
}

const pathTo = (way: ReadonlyArray<Buffer>, name?: Buffer): Buffer => {
  const parts = name === undefined ? way : [...way, name]
  return Buffer.concat(parts.flatMap((part, index) => index === 0 ? [part] : [slash, part]))
}

interface Packing {
  readonly walk: Tree.Walk
  readonly packer: Packer
  readonly id: RunId
  readonly manifest: Manifest.Manifest
  /** Where files with several names were first met. */
  readonly linked: Map<bigint, Buffer>
  omitted: number
}

const fail = (path: Buffer, why: string) => Effect.fail(new Unpackable({ path: path.toString(), why }))

/** Its own header says nothing that could differ from one time to the next. */
const addPart = ({ manifest, packer }: Packing, take: (manifest: Manifest.Manifest) => Buffer) => {
  const name = manifest.name()
  const part = take(manifest)
  return packer.add({ name, type: "file", mode: 0o600, mtime: new Date(0), size: part.length }, part)
}

const note = Effect.fnUntraced(function*(packing: Packing, entry: ArchiveEntry, sha256?: string) {
  packing.manifest.add(entry, sha256)
  if (packing.manifest.isDue()) yield* addPart(packing, (manifest) => manifest.part())
})

const entryOf = (kind: ArchiveEntry["kind"], path: Buffer, info: Info, target?: Buffer): ArchiveEntry => ({
  kind,
  path,
  mode: info.mode,
  mtimeNanos: info.mtimeNanos,
  size: kind === "file" ? info.size : 0,
  target
})

const addPlain = Effect.fnUntraced(function*(packing: Packing, entry: ArchiveEntry) {
  yield* packing.packer.add(toHeader(packing.id, entry))
  yield* note(packing, entry)
})

/** The next piece of a file, of which so many bytes are still to come. */
const readPiece = Effect.fnUntraced(function*(fd: number, path: Buffer, left: number) {
  const files = yield* Files
  const piece = Buffer.allocUnsafe(Math.min(left, pieceBytes))
  const count = yield* files.read(fd, piece, path.toString())
  return count === 0 ? yield* fail(path, "it became shorter while it was read") : piece.subarray(0, count)
})

const addContent = Effect.fnUntraced(function*(packing: Packing, fd: number, entry: ArchiveEntry) {
  const { id, packer } = packing
  const hash = NodeCrypto.createHash("sha256")
  let left = entry.size
  if (left <= pieceBytes) {
    const pieces: Array<Buffer> = []
    while (left > 0) {
      const piece = yield* readPiece(fd, entry.path, left)
      hash.update(piece)
      pieces.push(piece)
      left -= piece.length
    }
    yield* packer.add(toHeader(id, entry), pieces.length === 1 ? pieces[0] : Buffer.concat(pieces))
  } else {
    yield* packer.stream(
      toHeader(id, entry),
      Effect.fnUntraced(function*(write) {
        while (left > 0) {
          const piece = yield* readPiece(fd, entry.path, left)
          hash.update(piece)
          left -= piece.length
          yield* write(piece)
        }
      })
    )
  }
  yield* note(packing, entry, hash.digest("hex"))
})

const isUnchanged = (before: Info, after: Info) => before.size === after.size && before.mtimeNanos === after.mtimeNanos

const addFile = Effect.fnUntraced(function*(packing: Packing, path: Buffer, name: Buffer, seen: Info) {
  const files = yield* Files
  const { linked, walk } = packing
  if (seen.nlink > 1) {
    const first = linked.get(seen.ino)
    if (first !== undefined) return yield* addPlain(packing, entryOf("link", path, seen, first))
    linked.set(seen.ino, path)
  }
  const fd = yield* files.openAt(walk.place(), name, Flags.read)
  yield* Effect.gen(function*() {
    const info = yield* files.fstat(fd, path.toString())
    if (!sameFile(info, seen)) {
      return yield* path.equals(recordName) ? new RecordChanged() : fail(path, "it was replaced while it was read")
    }
    yield* addContent(packing, fd, entryOf("file", path, info))
    const after = yield* files.fstat(fd, path.toString())
    if (!isUnchanged(info, after)) return yield* fail(path, "it was written to while it was read")
  }).pipe(Effect.ensuring(files.close(fd)))
})

const addName = Effect.fnUntraced(function*(packing: Packing, path: Buffer, name: Buffer, info: Info) {
  const files = yield* Files
  const { walk } = packing
  switch (info.kind) {
    case "file":
      return yield* addFile(packing, path, name, info)
    case "link":
      return yield* addPlain(
        packing,
        entryOf("symlink", path, info, yield* files.readlinkAt(walk.place(), name))
      )
    case "fifo":
      return yield* addPlain(packing, entryOf("fifo", path, info))
    case "socket":
      packing.omitted++
      return
    case "device":
      return yield* fail(path, "it is a device")
    case "directory":
      return yield* fail(path, "it is a directory")
  }
})

/** In an order that is the same each time, whatever the file system says first. */
const list = Effect.fnUntraced(function*({ walk }: Packing) {
  const files = yield* Files
  const names: Array<ByteEntry> = []
  const listing = yield* files.listAt(walk.place())
  yield* Effect.gen(function*() {
    for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) names.push(...piece)
  }).pipe(Effect.ensuring(listing.close))
  return names.map(({ name }) => name).sort(Buffer.compare)
})

/** What goes by descriptors knows the last part of a name, or a number. */
const about = (path: Buffer) => <A, E, R>(effect: Effect.Effect<A, E | Errno, R>) =>
  Effect.mapError(effect, (error) =>
    error instanceof Errno
      ? new Errno({ code: error.code, call: error.call, path: path.toString(), cause: error.cause })
      : error)

/** Names that are left in each directory on the way, innermost last, in the order in which they come. */
const packTree = Effect.fnUntraced(function*(packing: Packing) {
  const files = yield* Files
  const { walk } = packing
  const way: Array<Buffer> = []
  yield* addPlain(packing, entryOf("directory", Buffer.alloc(0), walk.top))
  // First, so that who wants to know no more than that can stop reading.
  yield* addName(packing, recordName, recordName, yield* files.lstatAt(walk.place(), recordName))
  const isDone = (name: Buffer) => way.length === 0 && (name.equals(recordName) || isOfTheStore(name))
  const stack = [(yield* list(packing)).filter((name) => !isDone(name)).toReversed()]
  for (let names = stack.at(-1); names !== undefined; names = stack.at(-1)) {
    const name = names.pop()
    if (name === undefined) {
      stack.pop()
      if (stack.length === 0) break
      way.pop()
      yield* walk.leave
      continue
    }
    const path = pathTo(way, name)
    const fault = faultOfPath(path)
    if (fault !== undefined) return yield* fail(path, fault)
    if (walk.isMounted(name)) return yield* fail(path, "something is mounted there")
    const info = yield* files.lstatAt(walk.place(), name)
    if (info.kind !== "directory") {
      yield* about(path)(addName(packing, path, name, info))
      continue
    }
    yield* addPlain(packing, entryOf("directory", path, yield* about(path)(walk.enter(name))))
    way.push(name)
    stack.push((yield* about(path)(list(packing))).toReversed())
  }
})

const whyBarred = { "a mount point": "something is mounted there", "moved elsewhere": "it was moved while it was read" }

/**
 * Packs a bundle, which the caller has claimed.
 *
 * @internal
 */
export const pack = Effect.fnUntraced(function*(
  dir: string,
  id: RunId,
  packer: Packer
): Effect.fn.Return<Packed, Errno | TarError | Unpackable | RecordChanged> {
  const walk = yield* Tree.open(dir)
  const manifest = Manifest.make(id)
  const packing: Packing = { walk, packer, id, manifest, linked: new Map(), omitted: 0 }
  yield* packTree(packing).pipe(
    Effect.catchTag("Barred", ({ why }) => Effect.fail(new Unpackable({ path: walk.shown(), why: whyBarred[why] }))),
    Effect.ensuring(walk.close)
  )
  yield* addPart(packing, () => manifest.last())
  return { ...manifest.sums(), omitted: packing.omitted, digest: manifest.digest() }
})
