/**
 * Copies a tree into a directory of our own making: files by sharing their blocks where the file system can, links as
 * links, names as bytes, with modes and mtimes. FIFOs, sockets and devices are left out. No link is followed, no mount
 * is entered, and what vanishes while it is copied was not there.
 *
 * Limits. Names of one file become files of their own, holes may be filled, and owners, extended attributes and the
 * order of what others write at the same moment are not kept. Times are kept to the microsecond. Where paths have to be
 * used in place of descriptors, who swaps a file for a link between the look at it and its copy is not stopped.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Errno } from "./Errno.ts"
import { Files, Flags, type Info, type Listing } from "./Files.ts"
import { explain } from "./Removal.ts"
import * as Tree from "./Tree.ts"

/**
 * Why a copy could not be brought to its end, and at which name.
 *
 * @internal
 */
export class CopyFailed extends Data.TaggedError("CopyFailed")<{ readonly path: string; readonly problem: string }> {}

type Cause = Errno | Tree.Barred

const namesPerBreath = 32

const slash = Buffer.from("/")

const pass: Effect.Effect<void> = Effect.void

interface Level {
  readonly name: Buffer
  readonly info: Info
  readonly directories: Array<Buffer>
}

const copyBetween = Effect.fnUntraced(function*(from: Tree.Walk, to: Tree.Walk) {
  const files = yield* Files
  let steps = 0

  /** Others get their turn, and whoever interrupts is heard, though everything around this is uninterruptible. */
  const breathe = Effect.suspend(() => steps++ % namesPerBreath === 0 ? Effect.interruptible(Effect.yieldNow) : pass)

  const failAt = (name?: Buffer) => (cause: Cause) =>
    new CopyFailed({
      path: ["artifacts", from.shown(name)].filter((part) => part !== "").join("/"),
      problem: explain(cause)
    })

  const keepTime = (name: Buffer, { mtimeNanos }: Info) => files.lutimesAt(to.place(), name, mtimeNanos)

  const copyFrom = Effect.fnUntraced(function*(fd: number, name: Buffer) {
    const info = yield* files.fstat(fd, name.toString())
    // Swapped since it was listed, and opened without harm.
    if (info.kind !== "file") return
    const place = from.place()
    const source = typeof place === "number" ? fd : Buffer.concat([place, slash, name])
    const cloned = yield* Effect.result(files.cloneAt(source, to.place(), name))
    if (Result.isSuccess(cloned)) return yield* keepTime(name, info)
    // It may be said of either of the two.
    const looked = yield* Effect.result(files.lstatAt(place, name))
    if (Result.isSuccess(looked) || !Tree.hasVanished(looked.failure)) return yield* cloned.failure
  })

  const copyFile = Effect.fnUntraced(function*(name: Buffer) {
    if (from.isMounted(name)) return yield* new Tree.Barred({ why: "a mount point" })
    const fd = yield* Effect.result(files.openAt(from.place(), name, Flags.read))
    if (Result.isSuccess(fd)) return yield* Effect.ensuring(copyFrom(fd.success, name), files.close(fd.success))
    // What opening a link or a socket says is said of what was swapped for a file.
    const isOther = Tree.hasVanished(fd.failure) || fd.failure.code === "ELOOP" || fd.failure.code === "ENXIO"
    if (!isOther) return yield* fd.failure
  })

  const copyLink = Effect.fnUntraced(function*(name: Buffer, info: Info) {
    const target = yield* Effect.result(files.readlinkAt(from.place(), name))
    if (Result.isFailure(target)) {
      if (Tree.hasVanished(target.failure) || target.failure.code === "EINVAL") return
      return yield* target.failure
    }
    yield* files.symlinkAt(target.success, to.place(), name)
    yield* keepTime(name, info)
  })

  const copyLeaf = Effect.fnUntraced(function*(name: Buffer) {
    const info = yield* Effect.result(files.lstatAt(from.place(), name))
    if (Result.isFailure(info)) return Tree.hasVanished(info.failure) ? undefined : yield* info.failure
    if (info.success.kind === "file") yield* copyFile(name)
    if (info.success.kind === "link") yield* copyLink(name, info.success)
  })

  const readThrough = Effect.fnUntraced(function*(listing: Listing, directories: Array<Buffer>) {
    for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) {
      yield* from.check
      for (const { kind, name } of piece) {
        yield* breathe
        if (kind === "directory") directories.push(name)
        else yield* Effect.mapError(copyLeaf(name), failAt(name))
      }
    }
  })

  /** Copies what is in the innermost directory, and gives the directories that are in it. */
  const read = Effect.gen(function*() {
    const directories: Array<Buffer> = []
    yield* files.listAt(from.place()).pipe(
      Effect.flatMap((listing) => Effect.ensuring(readThrough(listing, directories), listing.close)),
      Effect.catchIf((cause) => cause._tag !== "CopyFailed" && Tree.hasVanished(cause), () => Effect.void)
    )
    return directories
  }).pipe(Effect.mapError((cause) => cause._tag === "CopyFailed" ? cause : failAt()(cause)))

  /** The copy is made only when the directory was found to be one. */
  const enter = Effect.fnUntraced(function*(name: Buffer) {
    const entered = yield* Effect.result(from.enter(name))
    if (Result.isFailure(entered)) return Tree.hasVanished(entered.failure) ? undefined : yield* entered.failure
    yield* files.mkdirAt(to.place(), name)
    yield* to.enter(name)
    return entered.success
  })

  /** A directory gets its mode and its time when nothing more comes into it. */
  const leave = Effect.fnUntraced(function*({ info, name }: Level) {
    yield* Effect.catchIf(from.leave, Tree.hasVanished, () => Effect.void)
    yield* files.chmodAt(to.place(), info.mode)
    yield* to.leave
    yield* keepTime(name, info)
  })

  const stack: Array<Level> = [{ name: Buffer.from("."), info: from.top, directories: yield* read }]
  for (;;) {
    const level = stack.at(-1)!
    const next = level.directories.pop()
    if (next === undefined) {
      if (stack.length === 1) return
      stack.pop()
      yield* Effect.mapError(leave(level), failAt(level.name))
      continue
    }
    yield* breathe
    const info = yield* Effect.mapError(enter(next), failAt(next))
    if (info !== undefined) stack.push({ name: next, info, directories: yield* read })
  }
})

/** A directory that is not there has nothing in it. */
const openSource = (path: string) =>
  Effect.catchIf(Tree.open(path), ({ code }) => code === "ENOENT", () => Effect.undefined)

/**
 * Copies what is in a directory into another that is there and empty. Everything but the moments between two names is
 * uninterruptible. What was copied before a failure stays, for the caller to take away.
 *
 * @internal
 */
export const copy = (source: string, target: string): Effect.Effect<void, CopyFailed> =>
  Effect.uninterruptible(Effect.gen(function*() {
    const from = yield* openSource(source)
    if (from === undefined) return
    yield* Tree.open(target).pipe(
      Effect.flatMap((to) => Effect.ensuring(copyBetween(from, to), to.close)),
      Effect.ensuring(from.close)
    )
  })).pipe(
    Effect.catchTag("Errno", (cause) => Effect.fail(new CopyFailed({ path: "artifacts", problem: explain(cause) })))
  )
