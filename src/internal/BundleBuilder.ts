/**
 * How a bundle comes to be: leased before anything else is in it, built where nobody looks, published by one rename.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Bundle, Draft } from "../Bundle.ts"
import type { Held, Lease, LeaseError } from "../Lease.ts"
import * as RunId from "../RunId.ts"
import { type RunRecord, timestamp, version } from "../RunRecord.ts"
import { StoreError, StoreReason } from "../StoreError.ts"
import type { Errno } from "./Errno.ts"
import { Files } from "./Files.ts"
import { requireDirectory } from "./io.ts"
import * as RecordFile from "./RecordFile.ts"
import { tentatively } from "./Tentative.ts"
import * as Trash from "./Trash.ts"
import * as TreeCopy from "./TreeCopy.ts"

interface Place {
  readonly root: string
  readonly dir: (id: RunId.RunId) => string
  readonly lease: Lease["Service"]
}

const parts = ["logs", "telemetry", "temp", "artifacts"]

/** @internal */
export const attempts = 5

const ifCode = (code: string) => (errno: Errno) => errno.code === code

/** Behind a link a bundle would leave the store. */
const checkWay = (path: string) => Effect.catchIf(requireDirectory(path), ifCode("ENOENT"), () => Effect.void)

/**
 * Makes a directory in one that may have to be made first, since passes take empty ones away.
 *
 * @internal
 */
export const makeDirectoryIn = Effect.fnUntraced(function*(parent: string, path: string) {
  const files = yield* Files
  yield* checkWay(parent)
  yield* files.mkdir(path).pipe(
    Effect.catchIf(ifCode("ENOENT"), () => Effect.andThen(files.mkdir(parent, { recursive: true }), files.mkdir(path)))
  )
})

/**
 * Renames into a day, which is made anew as often as others take it away while it is empty.
 *
 * @internal
 */
export const renameInto = Effect.fnUntraced(function*(day: string, from: string, to: string) {
  const files = yield* Files
  yield* Effect.catchIf(
    files.rename(from, to),
    ifCode("ENOENT"),
    () =>
      Effect.andThen(files.mkdir(day, { recursive: true }), files.rename(from, to)).pipe(
        Effect.retry({ times: attempts, while: ifCode("ENOENT") })
      )
  )
})

/**
 * Puts a bundle that is whole in its place.
 *
 * @internal
 */
export const publish = Effect.fnUntraced(function*(from: string, to: string) {
  const day = to.slice(0, to.lastIndexOf("/"))
  yield* checkWay(day.slice(0, day.lastIndexOf("/")))
  yield* checkWay(day)
  yield* renameInto(day, from, to)
})

const recordOf = (id: RunId.RunId, draft: Draft, lease: Held): RunRecord => {
  const startedAt = timestamp(RunId.startedAt(id))
  return {
    version,
    id,
    name: draft.name,
    status: "running",
    startedAt,
    ...(draft.command === undefined ? {} : { command: draft.command }),
    ...(draft.parent === undefined ? {} : { parent: draft.parent }),
    ...(draft.forkedFrom === undefined ? {} : { forkedFrom: draft.forkedFrom }),
    attempts: [{ startedAt, status: "running" }],
    tags: draft.tags,
    ...(lease.protected ? {} : { lease: "unprotected" as const })
  }
}

/** Without locks nobody removes anything, and nobody can hold it either. */
const isUnlockable = (error: LeaseError) => error.reason._tag === "NoLocks"

/** Under a lease of its own, so that nobody removes what is being copied. The old run learns nothing of it. */
const copyArtifacts = Effect.fnUntraced(
  function*({ dir, lease }: Place, from: RunId.RunId, staged: string, draft: Draft) {
    yield* Effect.catchIf(
      lease.hold({ id: from, dir: dir(from) }, { role: "joined" }),
      (error) => draft.unprotected === true && isUnlockable(error),
      () => Effect.void
    )
    yield* TreeCopy.copy(`${dir(from)}/artifacts`, `${staged}/artifacts`).pipe(
      Effect.mapError(({ path, problem }) =>
        new StoreError({ reason: StoreReason.NotCopied({ id: from, path, problem }) })
      )
    )
  },
  Effect.scoped
)

/** Everything between the making of the directory and the moment at which others see the bundle. */
const fill = Effect.fnUntraced(function*(place: Place, draft: Draft, id: RunId.RunId, staged: string) {
  const files = yield* Files
  const lease = yield* place.lease.create({ id, dir: staged }, { role: "owner", unprotected: draft.unprotected })
  for (const part of parts) yield* files.mkdir(`${staged}/${part}`)
  if (draft.forkedFrom !== undefined) yield* copyArtifacts(place, draft.forkedFrom, staged, draft)
  const record = recordOf(id, draft, lease)
  yield* RecordFile.create(staged, record)
  const dir = place.dir(id)
  yield* publish(staged, dir)
  yield* lease.moved(dir)
  return { id, dir, record, lease } satisfies Bundle
})

const build = Effect.fnUntraced(function*(place: Place, draft: Draft) {
  const files = yield* Files
  const id = yield* RunId.generate
  const staging = `${place.root}/staging`
  const staged = `${staging}/${id}`
  yield* makeDirectoryIn(staging, staged)
  // Copied directories may be read-only, which a sweep of the trash knows how to deal with.
  const takeAway = Effect.catch(files.removeOwnTree(staged), () => Trash.put(place.root, staged, id))
  return yield* fill(place, draft, id, staged).pipe(Effect.onError(() => Effect.ignore(takeAway)))
})

/**
 * A pass may take a staging directory for an abandoned one in the moment before it is leased, or an empty day away in the
 * moment before it is published to, and an id may be taken.
 *
 * @internal
 */
export const mayPass = (draft?: Draft) => (error: Errno | LeaseError | StoreError): boolean => {
  if (error._tag === "Errno") return error.code === "EEXIST" || error.code === "ENOENT"
  // What is said of the run that is copied from is said of no staging directory.
  if (error._tag === "StoreError" || error.id === draft?.forkedFrom) return false
  return error.reason._tag === "Claimed" || error.reason._tag === "RunGone" || error.reason._tag === "Undecided"
}

/** @internal */
export const make = (place: Place) =>
  Effect.fn("RunStore.create")(function*(draft: Draft): Effect.fn.Return<
    Bundle,
    StoreError | LeaseError,
    Scope.Scope
  > {
    // A try that failed lets go of everything before the next begins.
    return yield* Effect.uninterruptible(tentatively(build(place, draft))).pipe(
      Effect.retry({ times: attempts, while: mayPass(draft) }),
      Effect.mapError((error) =>
        error._tag === "Errno" ? new StoreError({ reason: StoreReason.System({ errno: error }) }) : error
      )
    )
  })
