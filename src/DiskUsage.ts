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

/**
 * A part of a tree: names that are chosen, each with all that is below it.
 *
 * @internal
 */
export interface Choice {
  /** Asked of names that lie in nothing that is chosen, by the way to them from the top. */
  readonly isChosen: (way: string) => boolean
  /** Whether anything below a directory that is not chosen may be. */
  readonly mayHold: (way: string) => boolean
  /** Told of each name that is chosen, while its directory is the innermost. */
  readonly chosen: (walk: Tree.Walk, name: Buffer) => void
  /** Told of what could not be looked through, though it may hold something that is chosen. */
  readonly missed: (way: string, cause: Errno | Tree.Barred) => void
}

const everything: Choice = { isChosen: () => true, mayHold: () => true, chosen: () => {}, missed: () => {} }

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

interface Directory {
  readonly name: Buffer
  /** Whether it counts, and with it all that lies in it. */
  readonly isCounted: boolean
}

interface Frame {
  readonly directories: Array<Directory>
  readonly isCounted: boolean
}

interface Task extends MeasureOptions {
  readonly choice: Choice
  readonly restore: Restore
}

const measureFrom = Effect.fnUntraced(function*(walk: Tree.Walk, task: Task) {
  const files = yield* Files
  const { choice, maxEntries = Number.POSITIVE_INFINITY, restore, until } = task
  const tally = makeTally()
  const stack: Array<Frame> = []
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

  const miss = (cause: Errno | Tree.Barred, isCounted: boolean, name?: Buffer) => {
    if (cause._tag === "Barred" && cause.why === "a mount point") mounts++
    // What has vanished takes up nothing, and what was swapped for something else since is not what was listed.
    else if (!Tree.hasVanished(cause)) {
      unreadable++
      if (!isCounted) choice.missed(walk.shown(name), cause)
    }
  }

  const look = Effect.fnUntraced(function*(name: Buffer) {
    if (walk.isMounted(name)) {
      mounts++
      return
    }
    const info = yield* Effect.result(files.lstatAt(walk.place(), name))
    if (Result.isFailure(info)) miss(info.failure, true, name)
    else if (info.success.kind !== "directory") tally.add(info.success)
  })

  /** What is neither chosen nor can hold anything that is, is passed over. */
  const readThrough = Effect.fnUntraced(function*(listing: Listing, frame: Frame) {
    for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) {
      yield* breathe
      for (const { kind, name } of piece) {
        const isChosen = !frame.isCounted && choice.isChosen(walk.shown(name))
        if (isChosen) choice.chosen(walk, name)
        const isCounted = frame.isCounted || isChosen
        if (kind === "directory") {
          if (isCounted || choice.mayHold(walk.shown(name))) frame.directories.push({ name, isCounted })
        } else if (!isCounted) continue
        else if (yield* admits) yield* look(name)
        else return
      }
    }
  })

  /** Looks at what is in the innermost directory, and leaves the directories that are in it for later. */
  const read = Effect.fnUntraced(function*(isCounted: boolean) {
    const frame: Frame = { directories: [], isCounted }
    yield* files.listAt(walk.place()).pipe(
      Effect.flatMap((listing) => Effect.ensuring(readThrough(listing, frame), listing.close)),
      Effect.catch((cause) => Effect.sync(() => miss(cause, isCounted)))
    )
    stack.push(frame)
  })

  const enter = Effect.fnUntraced(function*({ isCounted, name }: Directory) {
    const entered = yield* Effect.result(walk.enter(name))
    if (Result.isFailure(entered)) return miss(entered.failure, isCounted, name)
    if (isCounted) tally.add(entered.success)
    yield* read(isCounted)
  })

  if (choice === everything) tally.add(walk.top)
  yield* read(choice === everything)
  while (!isCut) {
    const next = stack.at(-1)!.directories.pop()
    if (next !== undefined) {
      if (yield* admits) yield* enter(next)
      continue
    }
    if (stack.length === 1) break
    stack.pop()
    const left = yield* Effect.result(walk.leave)
    if (Result.isSuccess(left)) continue
    if (Tree.hasVanished(left.failure)) {
      stack.at(-1)!.directories.length = 0
      continue
    }
    // Somebody moved the directory away, and with it the way to the rest.
    unreadable++
    choice.missed(walk.shown(), left.failure)
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
    : { ...nothing, unreadable: Tree.hasVanished(info.failure) ? 0 : 1 }
})

const measureWalk = (path: string, options: MeasureOptions, choice: Choice) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.acquireUseRelease(
      Tree.open(path),
      (walk) => measureFrom(walk, { ...options, choice, restore }),
      (walk) => walk.close
    )
  )

/**
 * Measures a directory, or a single file. A link counts for itself, and a path where there is nothing for nothing.
 *
 * @category measuring
 * @since 0.1.0
 */
export const measure = (path: string, options: MeasureOptions = {}): Effect.Effect<Usage> =>
  Effect.catch(measureWalk(path, options, everything), () => measureSingle(path))

/**
 * Measures what is chosen of a directory, and nothing beside it. Fails where the directory cannot be opened.
 *
 * @internal
 */
export const measureChosen = (path: string, choice: Choice): Effect.Effect<Usage, Errno> =>
  measureWalk(path, {}, choice)
