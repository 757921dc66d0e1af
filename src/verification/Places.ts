/** What lies in the directories of the store: in the root, among the runs, in staging and in the trash. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as ArchivePlace from "../internal/ArchivePlace.ts"
import { Files, type Kind } from "../internal/Files.ts"
import { entriesOf, isThere } from "../internal/io.ts"
import { isStuck } from "../internal/TrashQueue.ts"
import { Lease } from "../Lease.ts"
import * as RunId from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"
import { RunStore } from "../RunStore.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { Fault, type Finding, Outcome } from "../VerificationFinding.ts"
import { check } from "./Bundles.ts"
import { asOutcome, finding, type Options } from "./Options.ts"

/** @internal */
export interface Named {
  readonly name: string
  readonly path: string
  readonly kind: Kind | undefined
}

/** @internal */
export interface Listed {
  readonly entries: ReadonlyArray<Named>
  readonly findings: ReadonlyArray<Finding>
}

const nothing: Listed = { entries: [], findings: [] }

/** What is wanted of a directory, by name; one that is not there has nothing in it, and a link is not followed. */
const gather = Effect.fnUntraced(function*(path: string, isWanted: (name: string) => boolean) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(path))
  // Something else in its place is found where that place is looked at.
  if (Result.isSuccess(there) && there.success.kind !== "directory") return nothing
  return yield* Effect.match(entriesOf(path, isWanted), {
    onSuccess: (entries): Listed => ({
      entries: entries.map(({ kind, name }) => ({ name, kind, path: `${path}/${name}` })).toReversed(),
      findings: []
    }),
    onFailure: ({ message }): Listed => ({
      ...nothing,
      findings: [finding(Fault.Unlistable({ reason: message }), path)]
    })
  })
})

/** Somebody may have put a million things there; more of them than this need not be told one by one. */
const most = 100

/** What is in a directory, and of what is none of the store's some. */
const list = Effect.fnUntraced(function*(path: string, isOwn: (name: string) => boolean) {
  let strange = 0
  const { entries, findings } = yield* gather(path, (name) => isOwn(name) || ++strange <= most)
  const crowd = strange > most ? [finding(Fault.Crowd({ entries: strange - most }), path)] : []
  return { entries, findings: [...findings, ...crowd] } satisfies Listed
})

/** @internal */
export const misplaced = (path: string, expected: "directory" | "file", kind: Kind | undefined) =>
  finding(Fault.Misplaced({ expected, kind: kind ?? "thing of an unknown kind" }), path)

/** What is found in a directory, and of it. */
const inside = <R>(
  path: string,
  isOwn: (name: string) => boolean,
  look: (entries: Listed["entries"]) => Stream.Stream<Finding, never, R>
) =>
  Stream.unwrap(
    Effect.map(
      list(path, isOwn),
      ({ entries, findings }) => Stream.concat(Stream.fromIterable(findings), look(entries))
    )
  )

interface Days<R> {
  /** Whether a name in a day may be the store's own. */
  readonly isOwn: (name: string) => boolean
  readonly check: (day: string, named: Named) => Effect.Effect<ReadonlyArray<Finding>, never, R>
  readonly concurrency: number
}

/**
 * What is found of whatever lies in the days below a directory, so many names of a day at a time.
 *
 * @internal
 */
export const byDays = <R>(
  path: string,
  { check, concurrency, isOwn }: Days<R>
): Stream.Stream<Finding, never, R> => {
  const checkDay = (day: Named): Stream.Stream<Finding, never, R> => {
    if (!RunId.isDay(day.name)) return Stream.make(finding(Fault.Strange(), day.path))
    if (day.kind !== "directory") return Stream.make(misplaced(day.path, "directory", day.kind))
    return inside(day.path, isOwn, (entries) =>
      Stream.fromIterable(entries).pipe(
        Stream.mapEffect((named) => check(day.name, named), { concurrency }),
        Stream.flattenIterable
      ))
  }
  return inside(path, RunId.isDay, (days) => Stream.flatMap(Stream.fromIterable(days), checkDay))
}

// == the root

const places: ReadonlyArray<readonly [name: string, expected: "directory" | "file"]> = [
  ["runs", "directory"],
  ["staging", "directory"],
  ["trash", "directory"],
  ["archive", "directory"],
  ["retention.lock", "file"]
]

/** @internal */
export const root: Stream.Stream<Finding, never, RunStore> = Stream.fromIterableEffect(Effect.gen(function*() {
  const files = yield* Files
  const { root } = yield* RunStore
  const findings: Array<Finding> = []
  for (const [name, expected] of places) {
    const path = `${root}/${name}`
    const there = yield* Effect.result(files.lstat(path))
    if (Result.isFailure(there) || there.success.kind === expected) continue
    findings.push(misplaced(path, expected, there.success.kind))
  }
  return findings
}))

// == runs

const concurrency = 8

const checkNamed = Effect.fnUntraced(function*(day: string, { name, path }: Named, options: Options, heard: Heard) {
  const store = yield* RunStore
  if (!RunId.isRunId(name)) return [finding(Fault.Strange(), path)]
  if (RunId.day(name) !== day) return [finding(Fault.WrongDay({ place: store.dir(name) }), path, { id: name })]
  // One that was removed meanwhile is nothing to speak of.
  const entry = yield* Effect.result(store.get(name))
  if (Result.isFailure(entry)) return []
  yield* heard(name)
  return yield* check(entry.success, options)
})

/**
 * Told of each run that is looked at.
 *
 * @internal
 */
export type Heard = (id: RunId.RunId) => Effect.Effect<void>

/** @internal */
export const runs = (options: Options, heard: Heard): Stream.Stream<Finding, never, RunStore | Lease> =>
  Stream.unwrap(
    Effect.map(RunStore, ({ root }) =>
      byDays(`${root}/runs`, {
        isOwn: RunId.isRunId,
        concurrency,
        check: (day, named) => checkNamed(day, named, options, heard)
      }))
  )

// == staging

const stagedFault = Effect.fnUntraced(function*(dir: string, id: RunId.RunId) {
  const lease = yield* Lease
  const liveness = yield* lease.probe({ id, dir })
  if (liveness._tag === "Live") return Fault.Building({ holders: liveness.holders })
  return liveness._tag === "Unknown" && liveness.doubt._tag !== "RecordUnusable"
    ? Fault.LeaseInDoubt({ doubt: liveness.doubt })
    : Fault.Abandoned()
})

/** Who writes it has it locked, and says no more of himself. */
const draftFault = (path: string) =>
  Effect.match(Effect.scoped(ArchivePlace.lock(path)), {
    onSuccess: (locked) =>
      locked === "busy" ? Fault.Building({ holders: [] }) : locked === "absent" ? undefined : Fault.Abandoned(),
    onFailure: ({ message }) => Fault.DraftInDoubt({ reason: message })
  })

const checkDraft = Effect.fnUntraced(function*({ kind, path }: Named, id: RunId.RunId, options: Options) {
  if (kind !== "file") return [misplaced(path, "file", kind)]
  const fault = yield* draftFault(path)
  // Put in its place while we looked.
  if (fault === undefined) return []
  if (fault._tag !== "Abandoned" || !options.repair) return [finding(fault, path, { id })]
  const { root } = yield* RunStore
  const outcome = yield* Effect.match(ArchivePlace.clearDraft(root, id), {
    onSuccess: (gone) => gone ? Outcome.Mended() : Outcome.Failed({ reason: "somebody is writing it" }),
    onFailure: ({ message }) => Outcome.Failed({ reason: message })
  })
  return [finding(fault, path, { id, outcome })]
})

const checkStaged = Effect.fnUntraced(function*(named: Named, options: Options) {
  const files = yield* Files
  const { kind, name, path } = named
  const archived = ArchivePlace.idOf(name)
  if (archived !== undefined) return yield* checkDraft(named, archived, options)
  if (!RunId.isRunId(name)) return [finding(Fault.Strange(), path)]
  if (kind !== "directory") return [misplaced(path, "directory", kind)]
  const fault = yield* stagedFault(path, name)
  const there = yield* Effect.result(files.lstat(path))
  // Published while we looked.
  if (Result.isFailure(there)) return []
  if (fault._tag !== "Abandoned" || !options.repair) return [finding(fault, path, { id: name })]
  const { root } = yield* RunStore
  const outcome = yield* asOutcome(RunRemoval.removeStaged(root, yield* Lease, { id: name, dir: path }))
  return [finding(fault, path, { id: name, outcome })]
})

/** @internal */
export const staging = (options: Options): Stream.Stream<Finding, never, RunStore | Lease> =>
  Stream.unwrap(
    Effect.map(RunStore, ({ root }) =>
      inside(`${root}/staging`, ArchivePlace.isStaged, (entries) =>
        Stream.fromIterable(entries).pipe(
          Stream.mapEffect((named) =>
            checkStaged(named, options)
          ),
          Stream.flattenIterable
        )))
  )

// == trash

/** What would not go, and how much there is beside it. */
const listTrash = Effect.fnUntraced(function*(path: string) {
  let stuck = 0
  let waiting = 0
  const { entries, findings } = yield* gather(path, (name) => {
    if (isStuck(name)) return ++stuck <= most
    waiting++
    return false
  })
  return { entries, findings, waiting, more: Math.max(0, stuck - most) }
})

const trashOutcomes = Effect.fnUntraced(function*(root: string) {
  const { failed, left } = yield* TrashSweep.sweepAll(root)
  const reasonFor = (path: string) => failed.find((each) => each.path.startsWith(path))?.reason ?? "it is still there"
  const outcomeOf = Effect.fnUntraced(function*({ path }: Named) {
    return (yield* isThere(path)) ? Outcome.Failed({ reason: reasonFor(path) }) : Outcome.Mended()
  })
  const [first] = failed
  const ofRest = left === 0 ? Outcome.Mended() : Outcome.Failed({
    reason: `${left} of the trash would not go: ${first === undefined ? "try again" : first.reason}`
  })
  return { outcomeOf, ofRest }
})

const untouched = { outcomeOf: () => Effect.succeed<Outcome>(Outcome.Left()), ofRest: Outcome.Left() }

/** Comes after everything that may put something into the trash. */
export const trash = (options: Options): Stream.Stream<Finding, never, RunStore> =>
  Stream.fromIterableEffect(Effect.gen(function*() {
    const { root } = yield* RunStore
    const path = `${root}/trash`
    const { entries, findings, more, waiting } = yield* listTrash(path)
    if (entries.length + waiting === 0) return findings
    const { ofRest, outcomeOf } = options.repair || options.removeUnreadable ? yield* trashOutcomes(root) : untouched
    const stuck = yield* Effect.forEach(
      entries,
      (entry) => Effect.map(outcomeOf(entry), (outcome) => finding(Fault.Stuck(), entry.path, { outcome }))
    )
    return [
      ...findings,
      ...waiting === 0 ? [] : [finding(Fault.Waiting({ entries: waiting }), path, { outcome: ofRest })],
      ...stuck,
      ...more === 0 ? [] : [finding(Fault.StuckCrowd({ entries: more }), path, { outcome: ofRest })]
    ]
  }))
