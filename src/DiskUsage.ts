/**
 * How much of the disk a directory takes up.
 *
 * **Guarantees.** Allocated blocks, not lengths: a sparse file counts for what it has. Each inode counts once, however
 * many names it has in the tree. Links are not followed, mounts are not entered (bind mounts of the same file system
 * included), names are bytes, depth does not matter, and nothing is opened but directories. It never fails and never
 * changes anything; what cannot be read is counted.
 *
 * **Limits.** Others may change the tree meanwhile, and then the figure is one that it may never have had. A file counts
 * in full though it may have a further name outside the tree, or share blocks with copies. The names of a directory's
 * subdirectories are held in memory while it is measured. Where paths must be used in place of descriptors (see
 * `TrashSweep`), what lies deeper than a path can be long is unreadable.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Errno } from "./internal/Errno.ts"
import { Files, type Info, type Listing } from "./internal/Files.ts"
import * as Tree from "./internal/Tree.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface MeasureOptions {
  /** Look at no more names than this. */
  readonly maxEntries?: number | undefined
  /** When to stop, in milliseconds of the Clock. */
  readonly until?: number | undefined
}

/**
 * @category models
 * @since 0.1.0
 */
export interface Usage {
  readonly bytes: number
  /** Names that were looked at, the directory itself included. */
  readonly entries: number
  /** Directories that could not be read and names that could not be looked at. */
  readonly unreadable: number
  /** Places where something is mounted, which is not counted. */
  readonly mounts: number
  /** Whether all of it was looked at; else a bound came first, and `bytes` is a part. */
  readonly complete: boolean
}

const namesPerBreath = 32

type Restore = <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>

/** The sums, and the inodes that have further names to come. */
const makeTally = () => {
  const awaited = new Map<bigint, number>()
  let bytes = 0
  /** Within one device, since nothing else is entered. */
  const isFirst = ({ ino, kind, nlink }: Info) => {
    if (kind === "directory" || nlink < 2) return true
    const missing = awaited.get(ino) ?? nlink
    // Once all names were seen the inode is forgotten, so that memory is needed only for those with names elsewhere.
    if (missing === 1) awaited.delete(ino)
    else awaited.set(ino, missing - 1)
    return missing === nlink
  }
  return {
    add: (info: Info) => {
      if (isFirst(info)) bytes += info.allocated
    },
    bytes: () => bytes
  }
}

const measureFrom = Effect.fnUntraced(function*(walk: Tree.Walk, options: MeasureOptions, restore: Restore) {
  const files = yield* Files
  const { maxEntries = Number.POSITIVE_INFINITY, until } = options
  const tally = makeTally()
  let entries = 1
  let unreadable = 0
  let mounts = 0
  let steps = 0
  let isLate = false
  let isCut = false

  const breathe = Effect.gen(function*() {
    yield* restore(Effect.yieldNow)
    if (until !== undefined && (yield* Clock.currentTimeMillis) >= until) isLate = true
  })

  /** Asked before each name: whether it may be looked at. */
  const admits = Effect.gen(function*() {
    if (steps++ % namesPerBreath === 0) yield* breathe
    // Written so that what is not a number allows nothing.
    if (isLate || !(entries < maxEntries)) isCut = true
    else entries++
    return !isCut
  })

  const miss = (cause: Errno | Tree.Barred) => {
    if (cause._tag === "Barred" && cause.why === "a mount point") mounts++
    // What has vanished takes up nothing, and what was swapped for something else since is not what was listed.
    else if (cause._tag === "Barred" || (cause.code !== "ENOENT" && cause.code !== "ENOTDIR")) unreadable++
  }

  const look = Effect.fnUntraced(function*(name: Buffer) {
    if (walk.isMounted(name)) {
      mounts++
      return
    }
    const info = yield* Effect.result(files.lstatAt(walk.place(), name))
    if (Result.isFailure(info)) miss(info.failure)
    else if (info.success.kind !== "directory") tally.add(info.success)
  })

  const readThrough = Effect.fnUntraced(function*(listing: Listing, directories: Array<Buffer>) {
    for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) {
      for (const { kind, name } of piece) {
        if (kind === "directory") directories.push(name)
        else if (yield* admits) yield* look(name)
        else return
      }
    }
  })

  /** Looks at what is in the innermost directory, and gives the directories that are in it. */
  const read = Effect.gen(function*() {
    const directories: Array<Buffer> = []
    yield* files.listAt(walk.place()).pipe(
      Effect.flatMap((listing) => Effect.ensuring(readThrough(listing, directories), listing.close)),
      Effect.catch((cause) => Effect.sync(() => miss(cause)))
    )
    return directories
  })

  const enter = Effect.fnUntraced(function*(name: Buffer) {
    const entered = yield* Effect.result(walk.enter(name))
    if (Result.isSuccess(entered)) tally.add(entered.success)
    else miss(entered.failure)
    return Result.isSuccess(entered)
  })

  tally.add(walk.top)
  const stack = [yield* read]
  while (!isCut) {
    const next = stack.at(-1)!.pop()
    if (next !== undefined) {
      if ((yield* admits) && (yield* enter(next))) stack.push(yield* read)
      continue
    }
    if (stack.length === 1) break
    stack.pop()
    const left = yield* Effect.result(walk.leave)
    if (Result.isSuccess(left)) continue
    // Somebody moved the directory away, and with it the way to the rest.
    unreadable++
    isCut = true
  }
  return { bytes: tally.bytes(), entries, unreadable, mounts, complete: !isCut } satisfies Usage
})

const nothing: Usage = { bytes: 0, entries: 0, unreadable: 0, mounts: 0, complete: true }

const measureSingle = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const info = yield* Effect.result(files.lstat(path))
  return Result.isSuccess(info)
    ? { ...nothing, bytes: info.success.allocated, entries: 1 }
    : { ...nothing, unreadable: info.failure.code === "ENOENT" ? 0 : 1 }
})

/**
 * Measures a directory, or a single file. A link counts for itself, and a path where there is nothing for nothing.
 *
 * @category measuring
 * @since 0.1.0
 */
export const measure = (path: string, options: MeasureOptions = {}): Effect.Effect<Usage> =>
  Effect.uninterruptibleMask((restore) =>
    Tree.open(path).pipe(
      Effect.flatMap((walk) => Effect.ensuring(measureFrom(walk, options, restore), walk.close)),
      Effect.catch(() => measureSingle(path))
    )
  )
