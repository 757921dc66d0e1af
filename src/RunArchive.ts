/**
 * Archives: finished runs as one compressed file each, out of the way and back again.
 *
 * **Guarantees.** A run is archived under its claim, so never while anybody works in it. Its bundle leaves the store only
 * when the archive is on the disk, in its place, and has been read back and found to hold what the bundle held: sizes,
 * hashes, modes, times, links and names, byte for byte. A restored run is published by one rename when all of it is there,
 * with its lease held, and only then the archive goes. Whatever happens to this process in between, the run is in the
 * store or in the archive, and is listed in one of them. Nothing is written outside the bundle, whatever an archive says.
 *
 * **Limits.** An archive is a tar file with zstd that other programs read as well. It keeps neither owners nor extended
 * attributes, and no sockets; sparse files come back filled. Times come back to a quarter of a microsecond, which is what
 * node can set. A bundle with a device, a mount point, or something that this user may not read cannot be archived. Leases
 * are made anew. Memory is needed for the names of the directories on the way and for files with several names, and not
 * for contents. Whoever has archived runs by the thousand finds one by its id or a beginning of it; nothing else of them
 * is indexed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Archiving from "./archive/Archiving.ts"
import * as Reading from "./archive/Reading.ts"
import * as Restoring from "./archive/Restoring.ts"
import type { ArchiveError } from "./ArchiveError.ts"
import type { Bundle } from "./Bundle.ts"
import * as Place from "./internal/ArchivePlace.ts"
import { Files, Flags, type Info } from "./internal/Files.ts"
import { isThere } from "./internal/io.ts"
import { checkWhole, reopen } from "./internal/Reopening.ts"
import { tentatively } from "./internal/Tentative.ts"
import { where } from "./internal/Whereabouts.ts"
import { Lease, type LeaseError } from "./Lease.ts"
import * as Recovery from "./Recovery.ts"
import type * as RunId from "./RunId.ts"
import type { RunRecord } from "./RunRecord.ts"
import { type ResumeOptions, RunStore } from "./RunStore.ts"
import { orSystem, StoreError, StoreReason, unusable } from "./StoreError.ts"

export { ArchiveError, ArchiveReason } from "./ArchiveError.ts"

/**
 * A run that has been archived. `bytes` is the length of the archive, `packedBytes` that of all files in it together;
 * `omitted` sockets are not in it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Archived {
  readonly id: RunId.RunId
  readonly path: string
  readonly bytes: number
  readonly packedBytes: number
  readonly entries: number
  readonly omitted: number
}

/**
 * An archive as it was found. Its time is that of the run's end, in milliseconds since 1970.
 *
 * @category models
 * @since 0.1.0
 */
export interface Entry {
  readonly id: RunId.RunId
  readonly path: string
  readonly bytes: number
  readonly endedAt: number
}

/**
 * Archives a run that nobody works in and nobody has pinned. One that crashed is brought to its end first.
 *
 * **Example** (The newest run that is done)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as RunArchive from "leasehold/RunArchive"
 * import * as RunStore from "leasehold/RunStore"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* RunStore.RunStore
 *   const { id } = yield* store.latest("ok")
 *   const { bytes } = yield* RunArchive.archive(id)
 *   yield* Effect.log(`${bytes} bytes`)
 *   yield* RunArchive.restore(id)
 * }).pipe(Effect.provide(RunStore.layer()))
 * ```
 *
 * @category archiving
 * @since 0.1.0
 */
export const archive = Effect.fn("RunArchive.archive")(
  function*(id: RunId.RunId): Effect.fn.Return<Archived, ArchiveError | LeaseError | StoreError, RunStore | Lease> {
    const { get, root } = yield* RunStore
    const lease = yield* Lease
    return yield* where(get(id), (error) => unusable(id, error))((target) =>
      Effect.uninterruptibleMask((interruptibly) =>
        Effect.scoped(Effect.gen(function*() {
          const claim = yield* lease.claim(target, { announce: true })
          // Of another run it is for the archiving to refuse.
          if (claim.record.id === id) yield* Recovery.recover(claim)
          const { bytes, entries, omitted, packedBytes, path } = yield* Archiving.archive(root, claim, {
            interruptibly
          })
          return { id, path, bytes, packedBytes, entries, omitted }
        }))
      )
    )
  }
)

/**
 * How a run is brought back.
 *
 * @category options
 * @since 0.1.0
 */
export interface RestoreOptions {
  /** Make links that lead out of the bundle, too. */
  readonly linksOut?: boolean | undefined
}

/**
 * Restores an archived run, as it was. With `linksOut` also one that has symbolic links to places outside its bundle,
 * which come back as they were; without, it is refused.
 *
 * @category archiving
 * @since 0.1.0
 */
export const restore: (
  id: RunId.RunId,
  options?: RestoreOptions
) => Effect.Effect<RunRecord, ArchiveError | LeaseError | StoreError, RunStore | Lease> = Effect.fn(
  "RunArchive.restore"
)(
  function*(id, options) {
    const { dir, root } = yield* RunStore
    const lease = yield* Lease
    return yield* Effect.scoped(
      Effect.map(
        Restoring.restore({ root, dir, lease }, id, { linksOut: options?.linksOut ?? false }),
        ({ record }) => record
      )
    )
  }
)

/**
 * Goes on with an archived run, as its owner: it is restored in staging under the lease that its owner keeps, so that
 * there is no moment at which nobody holds it. For `Run.resume`, which does this by itself.
 *
 * @category archiving
 * @since 0.1.0
 */
export const resume = Effect.fn("RunArchive.resume")(
  function*(
    id: RunId.RunId,
    options?: ResumeOptions
  ): Effect.fn.Return<Bundle, ArchiveError | LeaseError | StoreError, RunStore | Lease | Scope.Scope> {
    const { dir, root, update } = yield* RunStore
    const lease = yield* Lease
    const check = (record: RunRecord) => checkWhole(record, options)
    return yield* Effect.uninterruptibleMask((interruptibly) =>
      tentatively(Effect.gen(function*() {
        const restored = yield* interruptibly(Restoring.restore({ root, dir, lease }, id, { linksOut: false, check }))
        return yield* reopen({ id, dir: dir(id) }, restored, update)
      }))
    )
  }
)

/**
 * Removes the archive of a run for good.
 *
 * @category archiving
 * @since 0.1.0
 */
export const remove = Effect.fn("RunArchive.remove")(
  function*(id: RunId.RunId): Effect.fn.Return<number, ArchiveError | StoreError, RunStore> {
    const { dir, root } = yield* RunStore
    return yield* Effect.scoped(Restoring.remove(root, dir(id), id))
  }
)

// == looking

const entryOf = (root: string, id: RunId.RunId, info: Info): Entry => ({
  id,
  path: Place.pathOf(root, id),
  bytes: info.size,
  endedAt: Place.endOf(id, info)
})

const read = Effect.fnUntraced(function*(root: string, dir: (id: RunId.RunId) => string, id: RunId.RunId) {
  const info = yield* Place.look(root, id)
  // Beside a bundle it is what a crash has left.
  return info === undefined || (yield* isThere(dir(id))) ? undefined : entryOf(root, id, info)
})

/**
 * Every archived run, newest first.
 *
 * @category looking
 * @since 0.1.0
 */
export const list: Stream.Stream<Entry, never, RunStore> = Stream.unwrap(
  Effect.map(RunStore, ({ dir, root }) =>
    Place.all(root).pipe(
      // What cannot be looked at hides nothing else.
      Stream.mapEffect((id) => Effect.orElseSucceed(read(root, dir, id), () => undefined)),
      Stream.filter((entry) => entry !== undefined)
    ))
)

/**
 * The archive of a run.
 *
 * @category looking
 * @since 0.1.0
 */
export const get = Effect.fn("RunArchive.get")(
  function*(id: RunId.RunId): Effect.fn.Return<Entry, StoreError, RunStore> {
    const { dir, root } = yield* RunStore
    const entry = yield* orSystem(read(root, dir, id))
    return entry ?? (yield* new StoreError({ reason: StoreReason.NoSuchRun({ name: id }) }))
  }
)

const opened = <A>(
  { id, path }: Pick<Entry, "id" | "path">,
  use: (fd: number) => Effect.Effect<A, Reading.Failure>
) =>
  Effect.flatMap(Files, (files) => Effect.acquireUseRelease(files.open(path, Flags.read), use, files.close)).pipe(
    Reading.asError(id, path)
  )

/**
 * The record of an archived run, for which only the beginning of its archive is read.
 *
 * @category looking
 * @since 0.1.0
 */
export const readRecord = ({ id, path }: Pick<Entry, "id" | "path">): Effect.Effect<RunRecord, ArchiveError> =>
  opened({ id, path }, (fd) => Reading.readRecord({ id, fd, path, linksOut: false }))

/**
 * What an archive was found to hold.
 *
 * @category models
 * @since 0.1.0
 */
export interface Verified extends Pick<Archived, "id" | "path" | "packedBytes" | "entries"> {
  readonly record: RunRecord
}

/**
 * Reads the whole archive of a run and holds all that is in it against its manifest: one that passes can be restored,
 * with its links to places outside of the bundle if it has any. Nothing is written, and memory does not grow with it.
 *
 * **Example** (Archives that are damaged)
 *
 * ```ts
 * import * as Console from "effect/Console"
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import * as RunArchive from "leasehold/RunArchive"
 * import * as RunStore from "leasehold/RunStore"
 *
 * const program = RunArchive.list.pipe(
 *   Stream.runForEach((entry) =>
 *     Effect.catch(Effect.asVoid(RunArchive.verify(entry)), (error) => Console.log(error.message))
 *   ),
 *   Effect.provide(RunStore.layer())
 * )
 * ```
 *
 * @category looking
 * @since 0.1.0
 */
export const verify = Effect.fn("RunArchive.verify")(
  function*({ id, path }: Pick<Entry, "id" | "path">): Effect.fn.Return<Verified, ArchiveError> {
    const whole = yield* opened({ id, path }, (fd) => Reading.readWhole({ id, fd, path, linksOut: true }))
    const { bytes, entries, record: found } = whole
    const record = yield* Effect.fromResult(Reading.checkRecord({ id, path }, found))
    return { id, path, packedBytes: bytes, entries, record }
  }
)
