/**
 * The one door to `node:fs`. Everything Leasehold does to a disk goes through here, call by call, so that a test can
 * make any single one of them fail, be slow, or be the last thing the process did.
 *
 * Calls that touch one name or one small file are made synchronously: on a local file system they take microseconds,
 * where a trip through the thread pool takes ten times that. Those that can take long (listings of a directory,
 * flushes to the disk) leave the event loop free.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { type Errno, fromUnknown } from "./Errno.ts"

/** @internal */
export type Kind = "file" | "directory" | "link" | "fifo" | "socket" | "device"

/** @internal */
export interface Info {
  readonly kind: Kind
  readonly dev: bigint
  readonly ino: bigint
  readonly mode: number
  readonly uid: number
  readonly nlink: number
  readonly size: number
  /** Bytes allocated on the disk, not the length of the content. */
  readonly allocated: number
  readonly mtimeNanos: bigint
  /** When it was last changed in any way, which nobody can set. */
  readonly ctimeNanos: bigint
}

/** @internal */
export interface Entry {
  readonly name: string
  readonly kind: Kind | undefined
}

/**
 * A directory to find names in: an open descriptor of it, or a path. On Linux a descriptor goes on meaning the same
 * directory whatever becomes of the names above it, and its length has no limit.
 *
 * @internal
 */
export type Place = number | Buffer

/**
 * An entry of a directory with its name as the file system has it, which need not be UTF-8.
 *
 * @internal
 */
export interface ByteEntry {
  readonly name: Buffer
  readonly kind: Kind | undefined
}

/**
 * A listing that is being read. The end is an empty piece.
 *
 * @internal
 */
export interface Listing {
  readonly read: Effect.Effect<ReadonlyArray<ByteEntry>, Errno>
  readonly close: Effect.Effect<void>
}

/** @internal */
export interface FilesApi {
  readonly open: (path: string, flags: number, mode?: number) => Effect.Effect<number, Errno>
  readonly close: (fd: number) => Effect.Effect<void>
  /** From a position, else from where the last read ended. */
  readonly read: (fd: number, buffer: Uint8Array, path: string, position?: number) => Effect.Effect<number, Errno>
  readonly write: (fd: number, bytes: Uint8Array, path: string) => Effect.Effect<number, Errno>
  readonly fsync: (fd: number, path: string) => Effect.Effect<void, Errno>
  readonly fstat: (fd: number, path: string) => Effect.Effect<Info, Errno>
  readonly fchmod: (fd: number, mode: number, path: string) => Effect.Effect<void, Errno>
  readonly futimes: (fd: number, mtimeNanos: bigint, path: string) => Effect.Effect<void, Errno>
  readonly lstat: (path: string) => Effect.Effect<Info, Errno>
  readonly mkdir: (path: string, options?: { readonly recursive?: boolean }) => Effect.Effect<void, Errno>
  readonly rename: (from: string, to: string) => Effect.Effect<void, Errno>
  readonly link: (from: string, to: string) => Effect.Effect<void, Errno>
  readonly unlink: (path: string) => Effect.Effect<void, Errno>
  readonly rmdir: (path: string) => Effect.Effect<void, Errno>
  readonly realpath: (path: string) => Effect.Effect<string, Errno>
  readonly readdir: (path: string) => Effect.Effect<ReadonlyArray<Entry>, Errno>
  readonly fileSystemType: (path: string) => Effect.Effect<number, Errno>
  /** What is left for this user on the file system of a path, in bytes. */
  readonly freeBytes: (path: string) => Effect.Effect<number, Errno>
  /** Removes a tree of our own making, in which nobody else can have put anything. */
  readonly removeOwnTree: (path: string) => Effect.Effect<void, Errno>

  // == by bytes, in a place

  readonly openAt: (place: Place, name: Buffer, flags: number, mode?: number) => Effect.Effect<number, Errno>
  readonly lstatAt: (place: Place, name: Buffer) => Effect.Effect<Info, Errno>
  readonly unlinkAt: (place: Place, name: Buffer) => Effect.Effect<void, Errno>
  /** The same in the thread pool, for files whose blocks take long to give back. */
  readonly unlinkLaterAt: (place: Place, name: Buffer) => Effect.Effect<void, Errno>
  readonly rmdirAt: (place: Place, name: Buffer) => Effect.Effect<void, Errno>
  readonly renameAt: (place: Place, from: Buffer, toPlace: Place, to: Buffer) => Effect.Effect<void, Errno>
  readonly mkdirAt: (place: Place, name: Buffer) => Effect.Effect<void, Errno>
  readonly readlinkAt: (place: Place, name: Buffer) => Effect.Effect<Buffer, Errno>
  readonly symlinkAt: (target: Buffer, place: Place, name: Buffer) => Effect.Effect<void, Errno>
  /** A second name for a file. */
  readonly linkAt: (place: Place, from: Buffer, toPlace: Place, to: Buffer) => Effect.Effect<void, Errno>
  /**
   * Makes a file with the content and mode of another, which is an open descriptor of it or its path; in one step that
   * shares its blocks where the file system can. Fails with EEXIST where there is something.
   */
  readonly cloneAt: (source: Place, place: Place, name: Buffer) => Effect.Effect<void, Errno>
  /** Of the place itself. */
  readonly chmodAt: (place: Place, mode: number) => Effect.Effect<void, Errno>
  /** Times are set as exactly as node can: to a quarter of a microsecond. Of the place itself. */
  readonly utimesAt: (place: Place, mtimeNanos: bigint) => Effect.Effect<void, Errno>
  /** Of a name in the place, which may be a link. */
  readonly lutimesAt: (place: Place, name: Buffer, mtimeNanos: bigint) => Effect.Effect<void, Errno>
  /**
   * Begins a listing of the place, to be read in pieces of at most `listingPiece` entries. One that is known to be
   * short is read at once, which takes a third of the time.
   */
  readonly listAt: (place: Place, options?: { readonly isShort: boolean }) => Effect.Effect<Listing, Errno>
}

const listingPiece = 256

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = NFS.constants

/**
 * The ways in which Leasehold opens things. Windows has no O_NOFOLLOW and no O_NONBLOCK; there they are zero.
 *
 * @internal
 */
export const Flags = {
  /** Reads what is there. Follows no link, and does not wait for the other end of a FIFO. */
  read: O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0),
  /** The same through links, for a file that somebody names who may have one there. */
  readThrough: O_RDONLY | (O_NONBLOCK ?? 0),
  /** For locks: an exclusive lock needs a descriptor open for writing. Nothing is ever written through it. */
  lock: O_RDWR | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0),
  create: O_RDWR | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0),
  /** Writes at the end of what is there, and may read it. */
  append: O_RDWR | O_APPEND | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0),
  appendNew: O_RDWR | O_APPEND | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0),
  write: O_WRONLY | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0),
  directory: O_RDONLY | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0),
  /**
   * A hold on a directory that needs no permission on it and reads nothing: O_PATH, which only Linux has and node does
   * not name.
   */
  anchor: (process.platform === "linux" ? 0o10000000 : O_RDONLY) | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0)
} as const

type Typed = Pick<NFS.Stats, "isFile" | "isDirectory" | "isSymbolicLink" | "isFIFO" | "isSocket">

const kindOf = (stats: Typed): Kind =>
  stats.isFile() ?
    "file" :
    stats.isDirectory() ?
    "directory" :
    stats.isSymbolicLink() ?
    "link" :
    stats.isFIFO() ?
    "fifo" :
    stats.isSocket() ?
    "socket" :
    "device"

const toInfo = (stats: NFS.BigIntStats): Info => ({
  kind: kindOf(stats as unknown as Typed),
  dev: stats.dev,
  ino: stats.ino,
  mode: Number(stats.mode) & 0o7777,
  uid: Number(stats.uid),
  nlink: Number(stats.nlink),
  size: Number(stats.size),
  allocated: Number(stats.blocks) * 512,
  mtimeNanos: stats.mtimeNs,
  ctimeNanos: stats.ctimeNs
})

const sync = <A>(call: string, path: string, evaluate: () => A): Effect.Effect<A, Errno> =>
  Effect.try({ try: evaluate, catch: (cause) => fromUnknown(call, path, cause) })

const later = <A>(call: string, path: string, evaluate: () => Promise<A>): Effect.Effect<A, Errno> =>
  Effect.tryPromise({ try: evaluate, catch: (cause) => fromUnknown(call, path, cause) })

// == by bytes, in a place

const slash = Buffer.from("/")

const pathOf = (place: Place): Buffer => typeof place === "number" ? Buffer.from(`/proc/self/fd/${place}`) : place

const join = (place: Place, name: Buffer): Buffer => Buffer.concat([pathOf(place), slash, name])

/** Errors name the last part alone: whoever walks knows the way there, which need not be the path that was used. */
const syncAt = <A>(call: string, name: Buffer, evaluate: () => A): Effect.Effect<A, Errno> =>
  Effect.try({ try: evaluate, catch: (cause) => fromUnknown(call, name.toString(), cause) })

// @types/node knows listings in UTF-8 alone.
const openListing = (path: Buffer): NFS.Dir =>
  NFS.opendirSync(path, { encoding: "buffer" as BufferEncoding, bufferSize: listingPiece })

const readPiece = (dir: NFS.Dir): ReadonlyArray<ByteEntry> => {
  const piece: Array<ByteEntry> = []
  while (piece.length < listingPiece) {
    const entry = dir.readSync()
    if (entry === null) break
    piece.push({ name: entry.name as unknown as Buffer, kind: kindOf(entry) })
  }
  return piece
}

const listAtOnce = (place: Place): Effect.Effect<Listing, Errno> =>
  syncAt("readdir", pathOf(place), () => {
    const entries = NFS.readdirSync(pathOf(place), { encoding: "buffer", withFileTypes: true })
    const all = entries.map((entry): ByteEntry => ({ name: entry.name, kind: kindOf(entry) }))
    return { read: Effect.sync(() => all.splice(0, listingPiece)), close: Effect.void }
  })

const listInPieces = (place: Place): Effect.Effect<Listing, Errno> =>
  syncAt("opendir", pathOf(place), () => openListing(pathOf(place))).pipe(
    Effect.map((dir) => ({
      read: syncAt("readdir", pathOf(place), () => readPiece(dir)),
      close: Effect.sync(() => {
        try {
          dir.closeSync()
        } catch {}
      })
    }))
  )

const mode = 0o700

/** As seconds, and as text since before 1970 node takes no numbers. */
const timeOf = (nanos: bigint): string => String(Number(nanos) / 1e9)

const cloning = NFS.constants.COPYFILE_EXCL | NFS.constants.COPYFILE_FICLONE

/** Node's own never ends below a directory in which nothing can be made and that says ENOENT of it, as `/proc` does. */
const makeDirectories = (path: string): void => {
  try {
    NFS.mkdirSync(path, { mode })
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined
    const parent = NodePath.dirname(path)
    if (code === "EEXIST" && NFS.statSync(path).isDirectory()) return
    if (code !== "ENOENT" || parent === path) throw cause
    makeDirectories(parent)
    try {
      NFS.mkdirSync(path, { mode })
    } catch (again) {
      if (!NFS.existsSync(path)) throw again
    }
  }
}

/** @internal */
export const node: FilesApi = {
  open: (path, flags, mode = 0o600) => sync("open", path, () => NFS.openSync(path, flags, mode)),
  // A failing close has closed the descriptor all the same, and there is nothing left that anybody could do.
  close: (fd) =>
    Effect.sync(() => {
      try {
        NFS.closeSync(fd)
      } catch {}
    }),
  read: (fd, buffer, path, position) =>
    sync("read", path, () => NFS.readSync(fd, buffer, { position: position ?? null })),
  write: (fd, bytes, path) => sync("write", path, () => NFS.writeSync(fd, bytes)),
  fsync: (fd, path) =>
    Effect.callback<void, Errno>((resume) => {
      NFS.fsync(fd, (cause) => resume(cause ? Effect.fail(fromUnknown("fsync", path, cause)) : Effect.void))
    }),
  fstat: (fd, path) => sync("fstat", path, () => toInfo(NFS.fstatSync(fd, { bigint: true }))),
  fchmod: (fd, mode, path) => sync("chmod", path, () => NFS.fchmodSync(fd, mode)),
  futimes: (fd, nanos, path) => sync("utimes", path, () => NFS.futimesSync(fd, timeOf(nanos), timeOf(nanos))),
  lstat: (path) => sync("lstat", path, () => toInfo(NFS.lstatSync(path, { bigint: true }))),
  mkdir: (path, options) =>
    sync("mkdir", path, () => options?.recursive === true ? makeDirectories(path) : NFS.mkdirSync(path, { mode })),
  rename: (from, to) => sync("rename", from, () => NFS.renameSync(from, to)),
  link: (from, to) => sync("link", to, () => NFS.linkSync(from, to)),
  unlink: (path) => sync("unlink", path, () => NFS.unlinkSync(path)),
  rmdir: (path) => sync("rmdir", path, () => NFS.rmdirSync(path)),
  realpath: (path) => sync("realpath", path, () => NFS.realpathSync.native(path)),
  // By callback: a start that needs no other promise of node:fs does not load them.
  readdir: (path) =>
    Effect.callback<ReadonlyArray<Entry>, Errno>((resume) => {
      NFS.readdir(path, { withFileTypes: true }, (cause, entries) =>
        resume(
          cause
            ? Effect.fail(fromUnknown("readdir", path, cause))
            : Effect.succeed(entries.map((entry) => ({ name: entry.name, kind: kindOf(entry) })))
        ))
    }),
  fileSystemType: (path) => later("statfs", path, async () => (await NFS.promises.statfs(path)).type),
  freeBytes: (path) =>
    later("statfs", path, async () => {
      const { bavail, bsize } = await NFS.promises.statfs(path)
      return bavail * bsize
    }),
  removeOwnTree: (path) => later("rm", path, () => NFS.promises.rm(path, { recursive: true, force: true })),
  openAt: (place, name, flags, mode = 0o600) =>
    syncAt("open", name, () => NFS.openSync(join(place, name), flags, mode)),
  lstatAt: (place, name) => syncAt("lstat", name, () => toInfo(NFS.lstatSync(join(place, name), { bigint: true }))),
  unlinkAt: (place, name) => syncAt("unlink", name, () => NFS.unlinkSync(join(place, name))),
  unlinkLaterAt: (place, name) =>
    Effect.callback<void, Errno>((resume) => {
      NFS.unlink(join(place, name), (cause) =>
        resume(cause ? Effect.fail(fromUnknown("unlink", name.toString(), cause)) : Effect.void))
    }),
  rmdirAt: (place, name) => syncAt("rmdir", name, () => NFS.rmdirSync(join(place, name))),
  renameAt: (place, from, toPlace, to) =>
    syncAt("rename", from, () => NFS.renameSync(join(place, from), join(toPlace, to))),
  mkdirAt: (place, name) => syncAt("mkdir", name, () => NFS.mkdirSync(join(place, name), { mode })),
  readlinkAt: (place, name) => syncAt("readlink", name, () => NFS.readlinkSync(join(place, name), "buffer")),
  symlinkAt: (target, place, name) => syncAt("symlink", name, () => NFS.symlinkSync(target, join(place, name))),
  linkAt: (place, from, toPlace, to) => syncAt("link", to, () => NFS.linkSync(join(place, from), join(toPlace, to))),
  cloneAt: (source, place, name) =>
    Effect.callback<void, Errno>((resume) => {
      NFS.copyFile(pathOf(source), join(place, name), cloning, (cause) =>
        resume(cause ? Effect.fail(fromUnknown("copyfile", name.toString(), cause)) : Effect.void))
    }),
  chmodAt: (place, mode) => syncAt("chmod", pathOf(place), () => NFS.chmodSync(pathOf(place), mode)),
  utimesAt: (place, nanos) =>
    syncAt("utimes", pathOf(place), () => NFS.utimesSync(pathOf(place), timeOf(nanos), timeOf(nanos))),
  lutimesAt: (place, name, nanos) =>
    syncAt("utimes", name, () => NFS.lutimesSync(join(place, name), timeOf(nanos), timeOf(nanos))),
  listAt: (place, options) => options?.isShort === true ? listAtOnce(place) : listInPieces(place)
}

/** @internal */
export const Files: Context.Reference<FilesApi> = Context.Reference<FilesApi>("leasehold/internal/Files", {
  defaultValue: () => node
})
