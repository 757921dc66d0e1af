/**
 * From a bundle that the caller has claimed to an archive that has been read back: only then the bundle may go.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { ArchiveError, ArchiveReason } from "../ArchiveError.ts"
import * as Place from "../internal/ArchivePlace.ts"
import { renameInto } from "../internal/BundleBuilder.ts"
import type { Errno } from "../internal/Errno.ts"
import { Files, Flags } from "../internal/Files.ts"
import { sameFile, syncDirectory } from "../internal/io.ts"
import { Locks } from "../internal/Locks.ts"
import { tentatively } from "../internal/Tentative.ts"
import * as Trash from "../internal/Trash.ts"
import * as Withdrawal from "../internal/Withdrawal.ts"
import type { Claim, Target } from "../Lease.ts"
import * as RunId from "../RunId.ts"
import { encode, type RecordError, type RunRecord, toMillis } from "../RunRecord.ts"
import { pack, type Packed, type RecordChanged, type Unpackable } from "./Packing.ts"
import * as Reading from "./Reading.ts"
import * as Tar from "./Tar.ts"

/** @internal */
export interface Written {
  readonly path: string
  /** The length of the archive. */
  readonly bytes: number
  /** The lengths of what is in it. */
  readonly packedBytes: number
  readonly entries: number
  readonly omitted: number
  /** The record as it was packed. */
  readonly record: Result.Result<RunRecord, RecordError>
}

type Failure = Reading.Failure | Unpackable | RecordChanged

const asError = ({ id }: Target, path: string) =>
  Effect.mapError((error: Failure): ArchiveError => {
    switch (error._tag) {
      case "Unpackable":
        return new ArchiveError({ id, reason: ArchiveReason.NotPackable({ path: error.path, why: error.why }) })
      case "RecordChanged":
        return new ArchiveError({ id, reason: ArchiveReason.Changed() })
      default:
        return Reading.errorOf(id, path, error)
    }
  })

const asBusy = (id: RunId.RunId) => new ArchiveError({ id, reason: ArchiveReason.Busy() })

/** Whoever takes away what the dead have left has its lock for a moment. */
const patiently = <A, E extends { readonly _tag: string }, R>(attempt: Effect.Effect<A, E | ArchiveError, R>) =>
  Effect.retry(attempt, {
    times: 10,
    while: (error) => error instanceof ArchiveError && error.reason._tag === "Busy",
    schedule: Schedule.spaced("10 millis")
  })

const makeStaging = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  yield* Effect.catchIf(files.mkdir(`${root}/staging`), (errno) => errno.code === "EEXIST", () => Effect.void)
})

/**
 * A draft that is there already was left by a process that had the claim before us, and has none any more. A pass may
 * take ours for such a one in the moment before it is locked.
 */
const openDraft = Effect.fnUntraced(function*(root: string, target: Target) {
  const files = yield* Files
  const locks = yield* Locks
  const path = Place.draftOf(root, target.id)
  const there = yield* Effect.result(files.lstat(path))
  if (Result.isSuccess(there) && there.success.kind !== "file") yield* files.unlink(path)
  else if (!(yield* Place.clearDraft(root, target.id))) return yield* asBusy(target.id)
  const fd = yield* Effect.acquireRelease(files.open(path, Flags.create), files.close)
  yield* Effect.addFinalizer(() => Effect.ignore(files.unlink(path)))
  if (!(yield* locks.tryExclusive(fd, path))) return yield* asBusy(target.id)
  const ours = yield* Effect.result(files.lstat(path))
  const isOurs = Result.isSuccess(ours) && sameFile(ours.success, yield* files.fstat(fd, path))
  return isOurs ? { fd, path } : yield* asBusy(target.id)
})

/**
 * What a crash has left in the place of the archive is replaced under its lock: whoever has that lock may be about to
 * take away what lies there.
 */
const lockLeftover = Effect.fnUntraced(function*(root: string, id: RunId.RunId, path: string) {
  if ((yield* Place.look(root, id)) === undefined) return
  if ((yield* Place.lock(path)) === "busy") return yield* asBusy(id)
})

const checkWay = Effect.fnUntraced(function*(root: string, { id }: Target) {
  const astray = yield* Place.astray(root, id)
  if (astray !== undefined) return yield* new ArchiveError({ id, reason: ArchiveReason.Astray(astray) })
})

const publish = Effect.fnUntraced(function*(root: string, target: Target, draft: string) {
  yield* checkWay(root, target)
  const path = Place.pathOf(root, target.id)
  yield* patiently(lockLeftover(root, target.id, path)).pipe(asError(target, path))
  yield* renameInto(Place.dayOf(root, target.id), draft, path).pipe(asError(target, path))
  return path
})

/**
 * Writes the archive beside, has it on the disk, puts it in its place and reads it back. The time of the file is that of
 * the run's end. What does not end well, or is interrupted, leaves no archive; what was written under the claim stays
 * locked until the scope ends, so that nobody restores or removes it before the bundle has gone. Called where nothing
 * interrupts it.
 *
 * @internal
 */
export const write = Effect.fnUntraced(function*(
  root: string,
  target: Target,
  record: RunRecord,
  interruptibly: Interruptibly
): Effect.fn.Return<Written, ArchiveError, Scope.Scope> {
  const files = yield* Files
  const { dir, id } = target
  yield* checkWay(root, target)
  yield* makeStaging(root).pipe(asError(target, dir))
  const { fd, path: draft } = yield* patiently(tentatively(openDraft(root, target))).pipe(asError(target, dir))
  let packed: Packed | undefined
  yield* interruptibly(
    Tar.write(fd, draft, (packer) => Effect.map(pack(dir, id, packer), (sums) => void (packed = sums))).pipe(
      asError(target, draft)
    )
  )
  const endedAt = BigInt(toMillis(record.endedAt ?? record.startedAt)) * 1_000_000n
  yield* Effect.andThen(files.futimes(fd, endedAt, draft), files.fsync(fd, draft)).pipe(asError(target, draft))
  const path = yield* publish(root, target, draft)
  return yield* syncDirectory(Place.dayOf(root, id)).pipe(
    asError(target, path),
    Effect.andThen(interruptibly(readBack(target, fd, path, packed))),
    Effect.onError(() => Effect.ignore(Place.remove(root, id)))
  )
})

const readBack = Effect.fnUntraced(function*(target: Target, fd: number, path: string, packed: Packed | undefined) {
  const files = yield* Files
  const { id } = target
  const source: Reading.Source = { id, fd, path, linksOut: true }
  return yield* Effect.gen(function*() {
    const { digest, record } = yield* Reading.readWhole(source)
    if (digest !== packed?.digest) return yield* new Reading.Corrupt({ detail: "it is not what was packed" })
    const { size } = yield* files.fstat(fd, path)
    const { bytes, entries, omitted } = packed
    return { path, bytes: size, packedBytes: bytes, entries, omitted, record } satisfies Written
  }).pipe(asError(target, path))
})

/** The record of a run that is ready to be packed, or whose bundle has gone. */
const orRefuse = (
  { target: { dir, id } }: Claim,
  leaving: Effect.Effect<Withdrawal.Ended<ArchiveReason>, RecordError | Errno>
) => {
  const refuse = (reason: ArchiveReason) => Effect.fail(new ArchiveError({ id, reason }))
  return leaving.pipe(
    Effect.catchTags({
      RecordError: (error) => refuse(ArchiveReason.Corrupt({ path: `${dir}/run.json`, detail: error.message })),
      Errno: (errno) => refuse(ArchiveReason.System({ errno }))
    }),
    Effect.flatMap((ended) => {
      switch (ended._tag) {
        case "Done":
          return Effect.succeed(ended.record)
        case "Stays":
          return refuse(ended.why)
        case "NotUndone":
          return refuse(ArchiveReason.NotUndone({ failures: ended.failures }))
        case "Late":
          return refuse(ArchiveReason.Late())
      }
    })
  )
}

const pinned = ({ pin }: RunRecord) => pin === undefined ? undefined : ArchiveReason.Pinned({ reason: pin.reason })

/** Nobody could restore it. */
const foreign = ({ id }: Target, record: RunRecord) =>
  record.id === id
    ? undefined
    : ArchiveReason.NotPackable({ path: "run.json", why: `it is the record of ${record.id}` })

type Interruptibly = <A, R>(part: Effect.Effect<A, ArchiveError, R>) => Effect.Effect<A, ArchiveError, R>

/** @internal */
export interface Options {
  /** When all of it has to be over, in milliseconds since 1970. A bundle that is about to go then goes all the same. */
  readonly until?: number | undefined
  /** Of the whole only the packing and the reading back can be interrupted, and nothing has become of it then. */
  readonly interruptibly: Interruptibly
}

const inTime = Effect.fnUntraced(function*<A, R>(
  { id }: Target,
  part: Effect.Effect<A, ArchiveError, R>,
  until: number | undefined
) {
  if (until === undefined) return yield* part
  const millis = until - (yield* Clock.currentTimeMillis)
  const done = yield* Effect.timeoutOption(part, Math.max(1, millis))
  return Option.isSome(done) ? done.value : yield* new ArchiveError({ id, reason: ArchiveReason.Late() })
})

/**
 * Archives a run that the caller has claimed and that has an end, and takes its bundle out of the store. What the run has
 * made outside is undone first, while the bundle is still where it was, so that the archive says so. Called where nothing
 * interrupts it.
 *
 * @internal
 */
export const archive = Effect.fnUntraced(function*(
  root: string,
  claim: Claim,
  { interruptibly, until }: Options
): Effect.fn.Return<Written, ArchiveError, Scope.Scope> {
  const { target } = claim
  const stays = (found: RunRecord) => Effect.succeed(foreign(target, found) ?? pinned(found))
  const record = yield* orRefuse(claim, Withdrawal.undoAll(root, claim, { until, stays }))
  const written = yield* write(root, target, record, (part) => interruptibly(inTime(target, part, until)))
  const packed = written.record
  const isPacked = (found: RunRecord) => Result.isSuccess(packed) && encode(packed.success) === encode(found)
  // Nothing may have come between the packing and the going, a pin for one.
  const leaving = Withdrawal.withdraw(root, claim, {
    until,
    archived: true,
    stays: (found) => Effect.succeed(pinned(found) ?? (isPacked(found) ? undefined : ArchiveReason.Changed()))
  })
  yield* Effect.onError(orRefuse(claim, leaving), () => Effect.ignore(Place.remove(root, target.id)))
  yield* Trash.leaveDay(root, RunId.day(target.id))
  return written
})
