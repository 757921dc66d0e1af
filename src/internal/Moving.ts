/**
 * Moving names out of a tree into the trash, without ever following a link or going the long way of copying.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import type { Left } from "../TrimError.ts"
import type { Errno } from "./Errno.ts"
import { Files, type Info, type Place } from "./Files.ts"
import { explain } from "./Removal.ts"
import * as Trash from "./Trash.ts"
import * as Tree from "./Tree.ts"

/**
 * Names that lie in one directory, and the names on the way to it.
 *
 * @internal
 */
export interface Group {
  readonly way: ReadonlyArray<Buffer>
  readonly names: ReadonlyArray<Buffer>
}

/** @internal */
export interface Moved {
  readonly moved: number
  readonly left: ReadonlyArray<Left>
}

interface Target {
  readonly id: string
  readonly dir: string
}

/** So often a sweep may take the place in the trash away, before it is taken to mean something else. */
const maxPlaces = 8

/** A place that nothing was moved to goes again. */
const openPlace = Effect.fnUntraced(function*(root: string, id: string) {
  const files = yield* Files
  const path = yield* Effect.acquireRelease(Trash.makePlace(root, id), (path) => Effect.ignore(files.rmdir(path)))
  const walk = yield* Effect.acquireRelease(Tree.open(path), ({ close }) => close)
  return walk.place()
})

const isDenied = (cause: Errno | Tree.Barred) =>
  cause._tag === "Errno" && (cause.code === "EACCES" || cause.code === "EPERM")

/** It may not be ours to change. What cannot be moved because of that will say so itself. */
const changeMode = Effect.fnUntraced(function*(walk: Tree.Walk, mode: number) {
  const files = yield* Files
  yield* Effect.ignore(Effect.andThen(walk.check, files.chmodAt(walk.place(), mode)))
})

const isWritable = ({ mode }: Info) => (mode & 0o700) === 0o700

/** Makes the innermost directory writable until the scope ends. */
const makeWritable = (walk: Tree.Walk, info: Info) =>
  isWritable(info)
    ? Effect.void
    : Effect.acquireRelease(changeMode(walk, info.mode | 0o700), () => changeMode(walk, info.mode))

/** Changes the mode of a directory in the innermost; what else has that name is left alone. */
const changeModeOf = Effect.fnUntraced(
  function*(walk: Tree.Walk, name: Buffer, modeOf: (info: Info) => number) {
    const info = yield* walk.enter(name)
    if (modeOf(info) !== info.mode) yield* changeMode(walk, modeOf(info))
    yield* walk.leave
    return info.mode
  },
  Effect.orElseSucceed(() => undefined)
)

/**
 * Moves each of these names into a new directory of the trash, where they have numbers for names. A directory that does
 * not let go of its names is made writable for that long, and one that does not let itself be moved for good, if it is.
 *
 * @internal
 */
export const move = Effect.fnUntraced(
  function*(
    root: string,
    { dir, id }: Target,
    groups: ReadonlyArray<Group>
  ): Effect.fn.Return<Moved, never, Scope.Scope> {
    const files = yield* Files
    // A place is for all groups, and the modes that are changed for one group go back with that.
    const lifetime = yield* Effect.scope
    const left: Array<Left> = []
    let moved = 0
    let places = 0
    let place: Place | undefined

    const leave = (path: string, cause: Errno | Tree.Barred) => void left.push({ path, reason: explain(cause) })

    const renameOnce = Effect.fnUntraced(function*(walk: Tree.Walk, name: Buffer) {
      place ??= yield* Scope.provide(openPlace(root, id), lifetime)
      yield* walk.check
      const renaming = files.renameAt(walk.place(), name, place, Buffer.from(String(moved)))
      yield* Trash.patiently(renaming)
      moved++
    })

    /** What has gone by somebody else's hand is as good as moved, and not counted. */
    const rename = Effect.fnUntraced(function*(walk: Tree.Walk, name: Buffer) {
      while (true) {
        const renamed = yield* Effect.result(renameOnce(walk, name))
        if (Result.isSuccess(renamed)) return
        const cause = renamed.failure
        if (!Tree.hasVanished(cause)) return yield* cause
        const looked = yield* Effect.result(files.lstatAt(walk.place(), name))
        if (Result.isFailure(looked) && Tree.hasVanished(looked.failure)) return
        // A sweep found the place empty, and took it away.
        if (++places > maxPlaces) return yield* cause
        place = undefined
      }
    })

    /** To be moved into another directory, one must be writable itself. */
    const renameMadeWritable = Effect.fnUntraced(function*(walk: Tree.Walk, around: Info, name: Buffer) {
      yield* makeWritable(walk, around)
      const mode = yield* changeModeOf(walk, name, (info) => info.mode | 0o700)
      yield* Effect.onError(
        rename(walk, name),
        () => mode === undefined ? Effect.void : changeModeOf(walk, name, () => mode)
      )
    })

    const moveName = (walk: Tree.Walk, around: Info, name: Buffer) =>
      (walk.isMounted(name) ? Effect.fail(new Tree.Barred({ why: "a mount point" })) : rename(walk, name)).pipe(
        Effect.catchIf(isDenied, () => renameMadeWritable(walk, around, name)),
        Effect.catch((cause) => Effect.sync(() => leave(walk.shown(name), cause)))
      )

    const moveGroup = Effect.fnUntraced(function*(walk: Tree.Walk, { names, way }: Group) {
      let around = walk.top
      for (const name of way) around = yield* walk.enter(name)
      // The modes are put back while the way there is still known.
      yield* Effect.scoped(Effect.forEach(names, (name) => moveName(walk, around, name), { discard: true }))
    })

    const moveAll = Effect.fnUntraced(function*(walk: Tree.Walk) {
      for (const group of groups) {
        const path = group.way.map(String).join("/")
        const left = (cause: Errno | Tree.Barred) =>
          Effect.sync(() => Tree.hasVanished(cause) ? undefined : leave(path, cause))
        yield* Effect.catch(moveGroup(walk, group), left)
        yield* walk.surface
      }
    })

    yield* Effect.acquireUseRelease(Tree.open(dir), moveAll, ({ close }) => close).pipe(
      Effect.catch((errno) => Effect.sync(() => leave("", errno)))
    )
    return { moved, left }
  }
)
