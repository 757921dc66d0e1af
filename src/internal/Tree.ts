/**
 * Going about in a directory tree that others may change at the same moment, at any depth, with few open files.
 *
 * On Linux every step is made from an open descriptor of the directory, so that a directory that is renamed or swapped
 * for a link in the meantime leads nowhere else: the descriptor still means the directory that was looked at, and names
 * in it are found relative to it. Only the innermost few are held open. The way back up is `..`, and counts only if it
 * leads to the directory that the way down came from.
 *
 * Where that does not work (other systems, no `/proc`, a program that gave up root's rights) plain paths are used.
 * Then a step is checked before it is made and whenever {@link Walk.check} is asked, and someone who swaps a directory
 * for a link between that and the next call is not stopped. Trees deeper than paths can be long end in ENAMETOOLONG.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Anchor from "./Anchor.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info, type Place } from "./Files.ts"
import { isAbsence, sameFile } from "./io.ts"
import * as Mounts from "./Mounts.ts"

/**
 * A directory that must not be entered.
 *
 * @internal
 */
export class Barred extends Data.TaggedError("Barred")<{ readonly why: "a mount point" | "moved elsewhere" }> {}

/**
 * Whether something is there no more, or something else is in the place of it or of what it lay in: whoever else is at
 * work in a tree may bring that about at any moment.
 *
 * @internal
 */
export const hasVanished = (cause: Errno | Barred): boolean => cause._tag === "Errno" && isAbsence(cause)

/** @internal */
export interface Walk {
  /** What the directory at the top was like at the start. */
  readonly top: Info
  /** The innermost directory. */
  readonly place: () => Place
  /** One further out, while it is not closed: the top never is, nor is any where paths are used. */
  readonly placeAt: (depth: number) => Place | undefined
  /** Whether something is mounted on a name in the innermost directory, by the table read at the start. */
  readonly isMounted: (name: Buffer) => boolean
  /**
   * Goes into a directory and tells of it what was true before; fails with ENOTDIR where the name is something else by
   * now.
   */
  readonly enter: (name: Buffer) => Effect.Effect<Info, Errno | Barred>
  /**
   * Goes back up. Where the directory above has vanished it is the innermost all the same; after any other failure only
   * {@link Walk.surface} helps.
   */
  readonly leave: Effect.Effect<void, Errno | Barred>
  /** Goes back to the top at once. */
  readonly surface: Effect.Effect<void>
  /** Fails if the path to the innermost directory leads elsewhere by now. */
  readonly check: Effect.Effect<void, Errno | Barred>
  /** The names on the way from the top to the innermost directory. */
  readonly way: () => ReadonlyArray<Buffer>
  /** The same, and on to a name in that directory, for people to read. */
  readonly shown: (name?: Buffer) => string
  /** How long the path to a name in the innermost directory is, where paths are used. */
  readonly pathLength: (name: Buffer) => number
  readonly close: Effect.Effect<void>
}

interface Level {
  readonly name: Buffer
  readonly info: Info
  /** Undefined once it was closed to keep few files open. */
  place: Place | undefined
}

/** As many of the innermost directories are held open; a process may have to do with 64 files in all. */
const window = 4

const dot = Buffer.from(".")
const dotDot = Buffer.from("..")
const slash = Buffer.from("/")

const child = (path: Buffer, name: Buffer) => Buffer.concat([path, slash, name])

const notADirectory = (name: Buffer) =>
  new Errno({ code: "ENOTDIR", call: "lstat", path: name.toString(), cause: undefined })

const closePlace = Effect.fnUntraced(function*(place: Place | undefined) {
  const files = yield* Files
  if (typeof place === "number") yield* files.close(place)
})

/**
 * Starts at a directory, which may not be a link. The caller closes the walk.
 *
 * @internal
 */
export const open = Effect.fnUntraced(function*(path: string): Effect.fn.Return<Walk, Errno> {
  const { info, place } = yield* Anchor.hold(path)
  return yield* start(path, info, typeof place === "number" ? place : undefined)
})

const start = Effect.fnUntraced(function*(path: string, topInfo: Info, top: number | undefined) {
  const files = yield* Files
  const byDescriptor = top !== undefined
  const mount = byDescriptor ? yield* Mounts.idOf(top) : undefined
  const real = yield* Effect.orElseSucceed(files.realpath(path), () => path)
  const mounted = yield* Mounts.below(real)
  const realTop = Buffer.from(real)
  const levels: Array<Level> = [{ name: realTop, info: topInfo, place: top ?? Buffer.from(path) }]
  const innermost = () => levels.at(-1)!
  // Only levels above the window are ever closed, and never the top.
  const place = () => innermost().place!

  const names = (name?: Buffer) => {
    const parts = levels.slice(1).map((level) => level.name)
    return name === undefined ? parts : [...parts, name]
  }
  const isMounted = (name: Buffer) => mounted.size > 0 && mounted.has(Mounts.key(names(name).reduce(child, realTop)))

  const check: Walk["check"] = byDescriptor ? Effect.void : Effect.gen(function*() {
    const info = yield* files.lstatAt(place(), dot)
    if (!sameFile(info, innermost().info)) return yield* new Barred({ why: "moved elsewhere" })
  })

  const push = Effect.fnUntraced(function*(level: Level) {
    levels.push(level)
    const above = levels.at(-1 - window)
    if (above === undefined || above === levels[0] || typeof above.place !== "number") return
    yield* files.close(above.place)
    above.place = undefined
  })

  /** Through a descriptor nothing can come between the look at a directory and the work in it. */
  const admit = Effect.fnUntraced(function*(name: Buffer, fd: number): Effect.fn.Return<Info, Errno | Barred> {
    const info = yield* files.fstat(fd, name.toString())
    if (info.dev !== topInfo.dev || (yield* Mounts.idOf(fd)) !== mount) {
      return yield* new Barred({ why: "a mount point" })
    }
    return info
  })

  const enterByDescriptor = Effect.fnUntraced(function*(name: Buffer) {
    const fd = yield* files.openAt(place(), name, Flags.anchor).pipe(
      // What O_NOFOLLOW says of a link depends on what else was asked.
      Effect.mapError((errno) => errno.code === "ELOOP" ? notADirectory(name) : errno)
    )
    const info = yield* admit(name, fd).pipe(Effect.tapError(() => files.close(fd)))
    yield* push({ name, info, place: fd })
    return info
  })

  const enterByPath = Effect.fnUntraced(function*(name: Buffer) {
    yield* check
    const info = yield* files.lstatAt(place(), name)
    if (info.kind !== "directory") return yield* notADirectory(name)
    if (info.dev !== topInfo.dev) return yield* new Barred({ why: "a mount point" })
    yield* push({ name, info, place: child(place() as Buffer, name) })
    return info
  })

  const enter: Walk["enter"] = (name) =>
    isMounted(name)
      ? Effect.fail(new Barred({ why: "a mount point" }))
      : byDescriptor
      ? enterByDescriptor(name)
      : enterByPath(name)

  /** Opens the level above again, by `..` of the one that is about to be left. */
  const reopen = Effect.fnUntraced(function*(level: Level, from: Place): Effect.fn.Return<void, Errno | Barred> {
    const fd = yield* files.openAt(from, dotDot, Flags.anchor).pipe(
      Effect.mapError((errno) => hasVanished(errno) ? new Barred({ why: "moved elsewhere" }) : errno)
    )
    const info = yield* files.fstat(fd, "..").pipe(Effect.tapError(() => files.close(fd)))
    if (!sameFile(info, level.info)) {
      yield* files.close(fd)
      return yield* new Barred({ why: "moved elsewhere" })
    }
    level.place = fd
  })

  const leave: Walk["leave"] = Effect.gen(function*() {
    const left = levels.pop()!
    const above = innermost()
    yield* (above.place === undefined ? reopen(above, left.place!) : Effect.void).pipe(
      Effect.ensuring(closePlace(left.place))
    )
    yield* check
  })

  const surface: Walk["surface"] = Effect.gen(function*() {
    while (levels.length > 1) yield* closePlace(levels.pop()?.place)
  })

  const walk: Walk = {
    top: topInfo,
    place,
    placeAt: (depth) => levels[depth]?.place,
    isMounted,
    enter,
    leave,
    surface,
    check,
    way: names,
    shown: (name) => names(name).map(String).join("/"),
    pathLength: (name) => byDescriptor ? 0 : (place() as Buffer).length + 1 + name.length,
    close: Effect.flatMap(surface, () => closePlace(levels[0]?.place))
  }
  return walk
})
