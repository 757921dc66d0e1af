/**
 * The archive: what lies in its days, and whether it can be restored. Beside a bundle of the same run an archive is what
 * somebody has left who died, unless it is all that is left of the run; or somebody is at it, and has it locked.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { type Entry, standsForRun } from "../Bundle.ts"
import * as Place from "../internal/ArchivePlace.ts"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import { isThere, replacedBy } from "../internal/io.ts"
import * as RunArchive from "../RunArchive.ts"
import * as RunId from "../RunId.ts"
import { RunStore } from "../RunStore.ts"
import { Fault, type Finding, Outcome } from "../VerificationFinding.ts"
import { asOutcome, finding, type Options } from "./Options.ts"
import { byDays, type Heard, misplaced, type Named } from "./Places.ts"

// == whether it can be restored

const isGone = ({ reason }: RunArchive.ArchiveError) => reason._tag === "System" && reason.errno.code === "ENOENT"

const checkAlone = Effect.fnUntraced(function*(path: string, id: RunId.RunId, options: Options) {
  const read: Effect.Effect<unknown, RunArchive.ArchiveError> = options.archives
    ? RunArchive.verify({ id, path })
    : RunArchive.readRecord({ id, path })
  return yield* Effect.match(read, {
    onSuccess: () => [],
    onFailure: (error) => isGone(error) ? [] : [finding(Fault.ArchiveUnusable({ error }), path, { id })]
  })
})

// == beside its bundle

const faultBeside = (entry: Entry): Fault =>
  standsForRun(entry)
    ? Fault.Superseded()
    : Fault.OnlyCopy({ error: Result.isFailure(entry.record) ? entry.record.failure : undefined })

type Locking = Result.Result<Place.Locked | "busy" | "absent", Errno>

const isBusy = (locked: Locking) => Result.isSuccess(locked) && locked.success === "busy"

/** The bundle is looked at under the lock, and cannot be archived anew while we have it. */
const checkBeside = Effect.fnUntraced(
  function*(path: string, id: RunId.RunId, options: Options) {
    const { get, root } = yield* RunStore
    const locked = yield* Effect.result(Place.lock(path))
    if (Result.isSuccess(locked) && typeof locked.success === "string") return []
    const entry = yield* Effect.result(get(id))
    // Removed meanwhile, and its archive with it.
    if (Result.isFailure(entry)) return []
    const fault = faultBeside(entry.success)
    if (fault._tag !== "Superseded") return [finding(fault, path, { id }), ...yield* checkAlone(path, id, options)]
    if (!options.repair) return [finding(fault, path, { id })]
    const outcome = Result.isFailure(locked)
      ? Outcome.Failed({ reason: locked.failure.message })
      : yield* asOutcome(Place.remove(root, id))
    return [finding(fault, path, { id, outcome })]
  },
  Effect.scoped
)

// == when it was restored

/** A mark is of use as long as the bundle is there; what is written beside it, for a moment only. */
const isOfUse = Effect.fnUntraced(function*(id: RunId.RunId, isDraft: boolean) {
  const { dir } = yield* RunStore
  return !isDraft && (yield* isThere(dir(id)))
})

/** Whoever restores the run has its archive locked, from before the mark is there until after the bundle is. */
const checkMark = Effect.fnUntraced(
  function*(path: string, id: RunId.RunId, isDraft: boolean, options: Options) {
    const files = yield* Files
    const { root } = yield* RunStore
    if (isBusy(yield* Effect.result(Place.lock(Place.pathOf(root, id))))) return []
    if (yield* isOfUse(id, isDraft)) return []
    if (Result.isFailure(yield* Effect.result(files.lstat(path)))) return []
    const outcome = options.repair ? yield* asOutcome(files.unlink(path)) : Outcome.Left()
    return [finding(Fault.Leftover(), path, { id, outcome })]
  },
  Effect.scoped
)

// == every name

const checkNamed = Effect.fnUntraced(function*(day: string, named: Named, options: Options, heard: Heard) {
  const { dir, root } = yield* RunStore
  const { kind, name, path } = named
  const replaced = replacedBy(name)
  const marked = Place.markedBy(replaced ?? name)
  const id = marked ?? Place.idOf(name)
  if (id === undefined) return [finding(Fault.Strange(), path)]
  if (kind !== "file") return [misplaced(path, "file", kind)]
  if (id === marked) return yield* checkMark(path, id, replaced !== undefined, options)
  if (RunId.day(id) !== day) return [finding(Fault.WrongDay({ place: Place.pathOf(root, id) }), path, { id })]
  yield* heard(id)
  return (yield* isThere(dir(id)))
    ? yield* checkBeside(path, id, options)
    : yield* checkAlone(path, id, options)
})

const isOwn = (name: string) => Place.idOf(name) !== undefined || Place.markedBy(replacedBy(name) ?? name) !== undefined

/** So many of a day are read at a time. */
const concurrency = 2

/** @internal */
export const archives = (options: Options, heard: Heard): Stream.Stream<Finding, never, RunStore> =>
  Stream.unwrap(
    Effect.map(RunStore, ({ root }) =>
      byDays(`${root}/archive`, {
        isOwn,
        concurrency,
        check: (day, named) => checkNamed(day, named, options, heard)
      }))
  )
