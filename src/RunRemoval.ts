/**
 * The removal of a run that a person or a program has named, without any policy.
 *
 * **Guarantees.** A run is only removed under its claim, after its record has been read again under it and under the lock
 * that every change of a record takes: one that anybody works in stays, and so does one that was pinned a moment before.
 * What it has registered to be undone outside of its bundle is undone first, and where that fails it stays. It leaves the
 * store by one rename into the trash, whole, whatever happens to this process. Nothing else outside the store is touched,
 * whatever lies in the place of a bundle, of its day or of the trash.
 *
 * **Limits.** What was removed takes up its space until the trash is swept, by the next pass or by `TrashSweep`.
 * The index is not told: a pass learns it from the day directory.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Errno } from "./internal/Errno.ts"
import { Files, Flags } from "./internal/Files.ts"
import { explainAstray, explainPin } from "./internal/Refusal.ts"
import * as Trash from "./internal/Trash.ts"
import { where } from "./internal/Whereabouts.ts"
import * as Withdrawal from "./internal/Withdrawal.ts"
import { type BareClaim, type Claim, Lease, type LeaseError, type Target } from "./Lease.ts"
import { describeFailures, type NotUndone } from "./OnRemove.ts"
import * as RunId from "./RunId.ts"
import { type RecordError, type RunRecord, version as knownVersion } from "./RunRecord.ts"
import { RunStore } from "./RunStore.ts"
import { StoreError, StoreReason } from "./StoreError.ts"

/**
 * Why a run was not removed, though it may be that nobody works in it.
 *
 * @category errors
 * @since 0.1.0
 */
export type RemovalReason = Data.TaggedEnum<{
  /** Somebody ordered it to be kept. */
  Pinned: { readonly reason: string }
  /** Its record is broken, and what can be made out of it says that somebody ordered it to be kept. */
  PerhapsPinned: {}
  /** Something that it has registered could not be undone, and so it is all still there. */
  NotUndone: { readonly failures: ReadonlyArray<NotUndone> }
  /** Its record belongs to a newer Leasehold. */
  NewerVersion: { readonly version: number }
  /** Its record cannot be read, and it was not said that it is to go all the same. */
  Unreadable: { readonly error: RecordError }
  /** It was to go because its record cannot be read, and the record can be read. */
  Readable: {}
  /** Its record could not be read at this moment, which does not say that nobody can. */
  NotNow: { readonly code: string }
  /** It was never published, is not empty and has no lease that could be claimed. */
  Unleased: { readonly dir: string }
  /** On the way to the bundle, or to the trash, lies something that leads out of the store. */
  Astray: { readonly path: string; readonly kind: string }
  /** The system refused something. */
  System: { readonly errno: Errno }
}>

/**
 * @category errors
 * @since 0.1.0
 */
export const RemovalReason = Data.taggedEnum<RemovalReason>()

const explain = (id: RunId.RunId) =>
  RemovalReason.$match({
    Pinned: ({ reason }) => explainPin(id, reason),
    PerhapsPinned: () =>
      "its record is broken and seems to say that the run is pinned; mend run.json, or take the pin out of it, by hand",
    NotUndone: ({ failures }) =>
      `${describeFailures(failures)}; see to that, and remove the run again: leasehold rm ${id}`,
    NewerVersion: ({ version }) =>
      `its record has format version ${version}, this program knows up to ${knownVersion}; use a newer leasehold`,
    Unreadable: ({ error }) =>
      `${error.message}; ${
        error.reason._tag === "Unreadable" ? "make it readable" : "put a copy of it back"
      }, or have every such run removed: leasehold verify --remove-unreadable`,
    Readable: () => `its record can be read; remove it as any other: leasehold rm ${id}`,
    NotNow: ({ code }) => `run.json could not be read at this moment (${code}); try again`,
    Unleased: ({ dir }) => `${dir} is not empty, and has no lease; look what it is for, and remove it`,
    Astray: ({ kind, path }) => explainAstray(path, kind),
    System: ({ errno }) => errno.message
  })

/**
 * @category errors
 * @since 0.1.0
 */
export class RemovalError extends Data.TaggedError("RemovalError")<{
  readonly id: RunId.RunId
  readonly reason: RemovalReason
}> {
  override get message() {
    return `${this.id}: ${explain(this.id)(this.reason)}`
  }
}

const refuse = (id: RunId.RunId, reason: RemovalReason) => Effect.fail(new RemovalError({ id, reason }))

/** What is not there any more has been removed by somebody else. */
const orGone = (id: RunId.RunId) =>
  Effect.mapError((errno: Errno) =>
    errno.code === "ENOENT"
      ? new StoreError({ reason: StoreReason.NoSuchRun({ name: id }) })
      : new RemovalError({ id, reason: RemovalReason.System({ errno }) })
  )

const checkWay = Effect.fnUntraced(function*(root: string, id: RunId.RunId, ways = ["runs", `runs/${RunId.day(id)}`]) {
  const astray = yield* Trash.astray(root, ways)
  if (astray !== undefined) return yield* refuse(id, RemovalReason.Astray(astray))
})

/** A day that has become empty goes too. */
const leave = (root: string, id: RunId.RunId, removal: Effect.Effect<void, Errno>) =>
  Effect.andThen(orGone(id)(removal), Effect.asVoid(Trash.leaveDay(root, RunId.day(id))))

/** The refusal of a claim for the record's sake alone is something that the person can do something about. */
const asRemoval = (error: LeaseError): LeaseError | RemovalError => {
  const { id, reason } = error
  if (reason._tag !== "Undecided" || reason.doubt._tag !== "RecordUnusable") return error
  const unusable = reason.doubt.error
  return new RemovalError({
    id,
    reason: unusable.reason._tag === "NewerVersion"
      ? RemovalReason.NewerVersion({ version: unusable.reason.version })
      : RemovalReason.Unreadable({ error: unusable })
  })
}

const staysPinned = ({ pin }: RunRecord) =>
  Effect.succeed(pin === undefined ? undefined : RemovalReason.Pinned({ reason: pin.reason }))

const removeClaimed = Effect.fnUntraced(function*(root: string, claim: Claim) {
  const { id } = claim.target
  const withdrawn = yield* Withdrawal.withdraw(root, claim, { stays: staysPinned }).pipe(
    Effect.catchTags({
      RecordError: (error) => refuse(id, RemovalReason.Unreadable({ error })),
      Errno: (errno) => orGone(id)(Effect.fail(errno))
    })
  )
  switch (withdrawn._tag) {
    case "Stays":
      return yield* refuse(id, withdrawn.why)
    case "NotUndone":
      return yield* refuse(id, RemovalReason.NotUndone({ failures: withdrawn.failures }))
  }
  yield* Trash.leaveDay(root, RunId.day(id))
})

/**
 * Removes a run that nobody works in and nobody has pinned.
 *
 * **Details**
 *
 * Fails with a `LeaseError` that names the holders where somebody works in it, and with a `StoreError` where there is no
 * such run. One that crashed, and whose record still says `running`, is removed as it is. It takes as long as it takes to
 * undo what the run has registered, and is not interrupted in the middle.
 *
 * **Example** (The newest run that failed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as RunRemoval from "leasehold/RunRemoval"
 * import * as RunStore from "leasehold/RunStore"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* RunStore.RunStore
 *   const { id } = yield* store.latest("error")
 *   yield* RunRemoval.remove(id)
 * }).pipe(Effect.provide(RunStore.layer()))
 * ```
 *
 * @category removing
 * @since 0.1.0
 */
export const remove = Effect.fn("RunRemoval.remove")(
  function*(id: RunId.RunId): Effect.fn.Return<void, RemovalError | LeaseError | StoreError, RunStore | Lease> {
    const { get, root } = yield* RunStore
    const lease = yield* Lease
    yield* checkWay(root, id)
    const unreadable = (error: RecordError) => new RemovalError({ id, reason: RemovalReason.Unreadable({ error }) })
    return yield* where(get(id), unreadable)((target) => {
      const claimed = Effect.flatMap(
        Effect.mapError(lease.claim(target), asRemoval),
        (claim) => removeClaimed(root, claim)
      )
      return Effect.uninterruptible(Effect.scoped(claimed))
    })
  }
)

// == what nobody can read

/** So much of a broken record is looked through for what it says all the same. */
const headBytes = 64 * 1024

const readHead = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const fd = yield* Effect.acquireRelease(files.open(path, Flags.read), files.close)
  if ((yield* files.fstat(fd, path)).kind !== "file") return ""
  const buffer = Buffer.alloc(headBytes)
  return buffer.toString("utf8", 0, yield* files.read(fd, buffer, path, 0))
}, Effect.scoped)

const versionIn = (head: string) => Number(/^\s*\{\s*"version"\s*:\s*(\d+)/.exec(head)?.[1])

const hasPin = (head: string) => /"pin"\s*:\s*\{\s*"(?:reason|at)"/.test(head)

/** These speak of the file. Any other may come from a state that the process, the disk or the network is in. */
const lasting: ReadonlySet<string> = new Set(["EACCES", "EPERM"])

/** Why a bundle with such a record stays all the same. */
const reasonToStay = Effect.fnUntraced(function*(dir: string, { reason }: RecordError) {
  if (reason._tag === "NewerVersion") return RemovalReason.NewerVersion({ version: reason.version })
  if (reason._tag === "Unreadable" && !lasting.has(reason.code)) return RemovalReason.NotNow({ code: reason.code })
  if (reason._tag !== "Malformed" && reason._tag !== "TooLarge") return undefined
  // Half a record of a newer Leasehold, or one that is larger than ours may be, is still one of a newer Leasehold.
  const head = yield* Effect.result(readHead(`${dir}/run.json`))
  if (Result.isFailure(head)) return RemovalReason.NotNow({ code: head.failure.code })
  const version = versionIn(head.success)
  if (version > knownVersion) return RemovalReason.NewerVersion({ version })
  return hasPin(head.success) ? RemovalReason.PerhapsPinned() : undefined
})

const removeBare = Effect.fnUntraced(function*(root: string, { record, target: { dir, id } }: BareClaim) {
  if (Result.isSuccess(record)) return yield* refuse(id, RemovalReason.Readable())
  const reason = yield* reasonToStay(dir, record.failure)
  if (reason !== undefined) return yield* refuse(id, reason)
  yield* leave(root, id, Trash.put(root, dir, id))
})

/**
 * Removes what lies in the place of a bundle and has no record that anybody could read: one that is missing, malformed,
 * too large, no regular file, or closed to us. A link, or whatever else lies there in place of a directory, is unlinked
 * itself, and never followed.
 *
 * **Details**
 *
 * What a newer Leasehold has written stays, and so does what is held, or may be. Of what can be made out of a broken
 * record two things count: a newer version, and a pin. What such a run has registered to be undone is not known, and so
 * it is left as it is.
 *
 * @category removing
 * @since 0.1.0
 */
export const removeUnreadable = Effect.fn("RunRemoval.removeUnreadable")(
  function*(id: RunId.RunId): Effect.fn.Return<void, RemovalError | LeaseError | StoreError, RunStore | Lease> {
    const files = yield* Files
    const store = yield* RunStore
    const lease = yield* Lease
    const dir = store.dir(id)
    yield* checkWay(store.root, id)
    const { kind } = yield* orGone(id)(files.lstat(dir))
    if (kind !== "directory") {
      return yield* Effect.uninterruptible(leave(store.root, id, files.unlink(dir)))
    }
    const claimed = Effect.flatMap(lease.claimBare({ id, dir }), (claim) => removeBare(store.root, claim))
    return yield* Effect.uninterruptible(Effect.scoped(claimed))
  }
)

/**
 * Takes away what was being built when its process died, which is known by its free lease. One without a lease was
 * abandoned in its first moment: it goes only while it is empty, and whoever was about to lease it begins another. In any
 * other somebody may be at work who has lost the lease to a third.
 *
 * @internal
 */
export const removeStaged = Effect.fnUntraced(function*(root: string, lease: Lease["Service"], target: Target) {
  const files = yield* Files
  const { dir, id } = target
  yield* checkWay(root, id, ["staging"])
  if (yield* Effect.isSuccess(files.rmdir(dir))) return
  if (Result.isFailure(yield* Effect.result(files.lstat(`${dir}/lease`)))) {
    return yield* refuse(id, RemovalReason.Unleased({ dir }))
  }
  const put = Effect.mapError(
    Trash.put(root, dir, id),
    (errno) => new RemovalError({ id, reason: RemovalReason.System({ errno }) })
  )
  yield* Effect.uninterruptible(Effect.scoped(Effect.andThen(lease.claimBare(target), put)))
})
