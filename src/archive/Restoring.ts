/**
 * From an archive back to a bundle: unpacked in staging, under a lease that is held from before the first file until
 * after the bundle is in its place, so that there is no moment at which anybody could take it for abandoned.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { ArchiveError, ArchiveReason } from "../ArchiveError.ts"
import * as Place from "../internal/ArchivePlace.ts"
import { attempts, makeDirectoryIn, mayPass, publish } from "../internal/BundleBuilder.ts"
import { Files } from "../internal/Files.ts"
import { isThere, syncDirectory } from "../internal/io.ts"
import * as RecordFile from "../internal/RecordFile.ts"
import { tentatively } from "../internal/Tentative.ts"
import * as Trash from "../internal/Trash.ts"
import type { Held, Lease, LeaseError } from "../Lease.ts"
import type { RunId } from "../RunId.ts"
import { type RunRecord, timestamp } from "../RunRecord.ts"
import { removeStaged } from "../RunRemoval.ts"
import { StoreError, StoreReason } from "../StoreError.ts"
import { asError, checkRecord, readRecord } from "./Reading.ts"
import { unpack } from "./Unpacking.ts"

/** @internal */
export interface Store {
  readonly root: string
  readonly dir: (id: RunId) => string
  readonly lease: Lease["Service"]
}

/** @internal */
export interface Restored {
  readonly record: RunRecord
  readonly held: Held
}

const refuse = (id: RunId, reason: ArchiveReason) => Effect.fail(new ArchiveError({ id, reason }))

/** The lock of the archive: two who restore, and one who removes, do not come in each other's way. */
const take = Effect.fnUntraced(function*(
  store: Pick<Store, "dir" | "root">,
  id: RunId
): Effect.fn.Return<Place.Locked, ArchiveError | StoreError, Scope.Scope> {
  const { dir, root } = store
  const astray = yield* Place.astray(root, id)
  if (astray !== undefined) return yield* refuse(id, ArchiveReason.Astray(astray))
  const path = Place.pathOf(root, id)
  const locked = yield* Place.lock(path).pipe(asError(id, path))
  if (locked === "busy") return yield* refuse(id, ArchiveReason.Busy())
  if (yield* isThere(dir(id))) return yield* refuse(id, ArchiveReason.Present())
  if (locked !== "absent") return locked
  // It may have been archived since the first look.
  if (yield* isThere(path)) return yield* take(store, id)
  return yield* new StoreError({ reason: StoreReason.NoSuchRun({ name: id }) })
})

/** What another restoring has left, by its free lease. */
const clear = Effect.fnUntraced(function*({ lease, root }: Store, id: RunId, staged: string) {
  if (!(yield* isThere(staged))) return
  yield* removeStaged(root, lease, { id, dir: staged }).pipe(
    Effect.mapError((error) =>
      error._tag === "LeaseError"
        ? error
        : new ArchiveError({
          id,
          reason: error.reason._tag === "System"
            ? ArchiveReason.System({ errno: error.reason.errno })
            : ArchiveReason.Astray({ path: staged, kind: "directory of another's" })
        })
    )
  )
})

/** A directory of its own, with a lease on it before anything else is in there. */
const lay = Effect.fnUntraced(function*({ lease, root }: Store, id: RunId, staged: string) {
  yield* makeDirectoryIn(`${root}/staging`, staged)
  return yield* lease.create({ id, dir: staged }, { role: "owner" })
})

/** From the making of the directory on, whatever fails leaves nothing there. */
const build = Effect.fnUntraced(function*(
  store: Store,
  id: RunId,
  { fd, path }: Place.Locked,
  linksOut: boolean,
  interruptibly: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
) {
  const files = yield* Files
  const { dir, root } = store
  const staged = `${root}/staging/${id}`
  return yield* Effect.gen(function*() {
    const held = yield* tentatively(lay(store, id, staged)).pipe(
      Effect.retry({ times: attempts, while: mayPass() }),
      Effect.catchTag("Errno", (errno) => refuse(id, ArchiveReason.System({ errno })))
    )
    const mode = yield* interruptibly(unpack({ id, fd, path, linksOut }, staged)).pipe(asError(id, path))
    const record = yield* Effect.fromResult(checkRecord({ id, path }, yield* RecordFile.read(staged)))
    // Before anybody can see the bundle, so that no pass takes it for as old as its run.
    const at = timestamp(yield* DateTime.now)
    yield* Effect.andThen(Place.writeMark(root, id, at), publish(staged, dir(id))).pipe(
      Effect.onError(() => Place.unmark(root, id)),
      asError(id, path)
    )
    yield* held.moved(dir(id))
    if ((mode & 0o700) !== 0o700) yield* Effect.ignore(files.chmodAt(Buffer.from(dir(id)), mode))
    return { record, held } satisfies Restored
    // Its own directories may be such that nothing can be deleted in them at once.
  }).pipe(Effect.onError(() => Effect.ignore(Trash.put(root, staged, id))))
})

/** From here on the bundle counts, and an archive beside it is as good as not there: it stays where one may be lost. */
const dropArchive = Effect.fnUntraced(function*({ dir, root }: Store, id: RunId) {
  const place = dir(id)
  const flush = syncDirectory(place.slice(0, place.lastIndexOf("/")))
  yield* Effect.ignore(Effect.andThen(flush, Place.remove(root, id)))
})

/** @internal */
export interface Options {
  readonly linksOut: boolean
  /** Asked of the record in the archive that is restored, before anything is unpacked. */
  readonly check?: ((record: RunRecord) => Effect.Effect<void, StoreError>) | undefined
}

/**
 * Restores an archived run, and gives it with its lease held.
 *
 * @internal
 */
export const restore = (
  store: Store,
  id: RunId,
  { check, linksOut }: Options
): Effect.Effect<Restored, ArchiveError | StoreError | LeaseError, Scope.Scope> =>
  Effect.uninterruptibleMask((interruptibly) =>
    tentatively(Effect.gen(function*() {
      const scope = yield* Effect.scope
      return yield* Effect.scoped(Effect.gen(function*() {
        const locked = yield* take(store, id)
        if (check !== undefined) yield* check(yield* readRecord({ ...locked, id, linksOut }))
        yield* clear(store, id, `${store.root}/staging/${id}`)
        const restored = yield* Scope.provide(build(store, id, locked, linksOut, interruptibly), scope)
        yield* dropArchive(store, id)
        return restored
      }))
    }))
  )

/**
 * Removes an archive for good, and says how many bytes it had.
 *
 * @internal
 */
export const remove = Effect.fnUntraced(function*(
  root: string,
  dir: string,
  id: RunId
): Effect.fn.Return<number, ArchiveError | StoreError, Scope.Scope> {
  const path = Place.pathOf(root, id)
  const { info } = yield* take({ root, dir: () => dir }, id)
  yield* Place.remove(root, id).pipe(asError(id, path))
  return info.size
})
