/**
 * From a bundle that the caller has claimed to an archive that has been read back: only then the bundle may go.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ArchiveError, ArchiveReason } from "../ArchiveError.ts"
import type { Errno } from "../internal/Errno.ts"
import { Files, Flags } from "../internal/Files.ts"
import { readText, syncDirectory } from "../internal/io.ts"
import { Locks } from "../internal/Locks.ts"
import * as RecordLock from "../internal/RecordLock.ts"
import * as Trash from "../internal/Trash.ts"
import type { Claim, Target } from "../Lease.ts"
import * as Recovery from "../Recovery.ts"
import * as RunId from "../RunId.ts"
import { isTerminal, maxBytes as maxRecordBytes, type RunRecord, toMillis } from "../RunRecord.ts"
import type { RunStore } from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import { pack, type Packed, type Unpackable } from "./Packing.ts"
import * as Place from "./Place.ts"
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
  readonly record: string
}

const asError = ({ id }: Target, path: string) =>
  Effect.mapError((error: Errno | Unpackable | Reading.Corrupt | Reading.Unsafe | Tar.TarError): ArchiveError => {
    const because = (reason: ArchiveReason) => new ArchiveError({ id, reason })
    switch (error._tag) {
      case "Errno":
        return because(ArchiveReason.System({ errno: error }))
      case "Unpackable":
        return because(ArchiveReason.NotPackable({ path: error.path, why: error.why }))
      case "Unsafe":
        return because(ArchiveReason.Unsafe({ name: error.name, why: error.why }))
      case "Corrupt":
      case "TarError":
        return because(ArchiveReason.Corrupt({ path, detail: error.detail }))
    }
  })

/** A draft that is there already was left by a process that had the claim before us, and has none any more. */
const openDraft = Effect.fnUntraced(function*(root: string, target: Target) {
  const files = yield* Files
  const locks = yield* Locks
  const path = Place.draftOf(root, target.id)
  yield* Effect.catchIf(files.mkdir(`${root}/staging`), (errno) => errno.code === "EEXIST", () => Effect.void)
  yield* Effect.catchIf(files.unlink(path), (errno) => errno.code === "ENOENT", () => Effect.void)
  const fd = yield* Effect.acquireRelease(files.open(path, Flags.create), files.close)
  yield* Effect.addFinalizer(() => Effect.ignore(files.unlink(path)))
  yield* locks.tryExclusive(fd, path)
  return { fd, path }
})

const publish = Effect.fnUntraced(function*(root: string, target: Target, draft: string) {
  const files = yield* Files
  const astray = yield* Place.findAstray(root, target.id)
  if (astray !== undefined) return yield* new ArchiveError({ id: target.id, reason: ArchiveReason.Astray(astray) })
  const path = Place.pathOf(root, target.id)
  yield* Effect.catchIf(
    files.rename(draft, path),
    (errno) => errno.code === "ENOENT",
    () => Effect.andThen(files.mkdir(Place.dayOf(root, target.id), { recursive: true }), files.rename(draft, path))
  ).pipe(asError(target, path))
  yield* Effect.ignore(syncDirectory(Place.dayOf(root, target.id)))
  return path
})

/**
 * Writes the archive beside, has it on the disk, puts it in its place and reads it back. The time of the file is that of
 * the run's end. What does not end well, or is interrupted, leaves no archive; what was written under the claim stays
 * locked until the scope ends, so that nobody restores or removes it before the bundle has gone.
 *
 * @internal
 */
export const write = (
  root: string,
  target: Target,
  record: RunRecord
): Effect.Effect<Written, ArchiveError, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const files = yield* Files
      const { dir, id } = target
      const { fd, path: draft } = yield* openDraft(root, target).pipe(asError(target, dir))
      let packed: Packed | undefined
      yield* restore(
        Tar.write(fd, draft, (packer) => Effect.map(pack(dir, id, packer), (sums) => void (packed = sums)))
      ).pipe(asError(target, draft))
      const endedAt = BigInt(toMillis(record.endedAt ?? record.startedAt)) * 1_000_000n
      yield* Effect.andThen(files.futimes(fd, endedAt, draft), files.fsync(fd, draft)).pipe(asError(target, draft))
      const path = yield* publish(root, target, draft)
      return yield* restore(readBack(target, fd, path, packed)).pipe(
        Effect.onError(() => Effect.ignore(Place.remove(root, id)))
      )
    })
  )

const readBack = Effect.fnUntraced(function*(target: Target, fd: number, path: string, packed: Packed | undefined) {
  const files = yield* Files
  const { id } = target
  const source: Reading.Source = { id, fd, path, linksOut: true }
  return yield* Effect.gen(function*() {
    const read = yield* Reading.read(source, () => Effect.void)
    if (read.digest !== packed?.digest) return yield* new Reading.Corrupt({ detail: "it is not what was packed" })
    const { size } = yield* files.fstat(fd, path)
    const text = yield* Reading.readRecord(source, maxRecordBytes)
    const { bytes, entries, omitted } = packed
    return { path, bytes: size, packedBytes: bytes, entries, omitted, record: text } satisfies Written
  }).pipe(asError(target, path))
})

/** Nothing may have come between the packing and the going: a pin for one. From here on nobody can. */
const dismiss = Effect.fnUntraced(function*(root: string, target: Target, written: Written) {
  const { dir, id } = target
  yield* RecordLock.take(dir).pipe(asError(target, dir))
  const now = yield* readText(`${dir}/run.json`, maxRecordBytes).pipe(Effect.orElseSucceed(() => ""))
  if (now !== written.record) return yield* new ArchiveError({ id, reason: ArchiveReason.Changed() })
  yield* Trash.put(root, dir, id).pipe(asError(target, dir))
})

/**
 * Archives a run that the caller has claimed, and takes its bundle out of the store.
 *
 * @internal
 */
export const archive = Effect.fnUntraced(function*(
  root: string,
  claim: Claim
): Effect.fn.Return<Written, ArchiveError | StoreError, Scope.Scope | RunStore> {
  const files = yield* Files
  const { target } = claim
  const { id } = target
  const record = isTerminal(claim.record) ? claim.record : yield* Recovery.recover(claim)
  if (record.pin !== undefined) {
    return yield* new ArchiveError({ id, reason: ArchiveReason.Pinned({ reason: record.pin.reason }) })
  }
  const written = yield* write(root, target, record)
  yield* dismiss(root, target, written).pipe(Effect.onError(() => Effect.ignore(Place.remove(root, id))))
  yield* Effect.ignore(files.rmdir(`${root}/runs/${RunId.day(id)}`))
  return written
})
