/**
 * How parts of a bundle leave it: by renames into a directory of the trash, under the bundle's claim.
 *
 * The record comes first. It says that a trim is pending before the first name is moved, and that it is done after
 * the last. So whoever is killed between the two leaves a bundle of which everybody knows that parts may be missing,
 * and the next trim by the same globs moves the rest.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as DiskUsage from "../DiskUsage.ts"
import type { Claim } from "../Lease.ts"
import type { RunId } from "../RunId.ts"
import { type RunRecord, timestamp } from "../RunRecord.ts"
import { type Left, TrimError, TrimReason } from "../TrimError.ts"
import * as TrimHistory from "../TrimHistory.ts"
import type { TrimPaths } from "../TrimPaths.ts"
import type { Errno } from "./Errno.ts"
import { type Group, move } from "./Moving.ts"
import * as RecordFile from "./RecordFile.ts"
import * as RecordLock from "./RecordLock.ts"
import { explain } from "./Removal.ts"

/**
 * What a trim would move out, and what could not be looked through for it.
 *
 * @internal
 */
export interface Found {
  readonly groups: ReadonlyArray<Group>
  readonly entries: number
  readonly bytes: number
  readonly left: ReadonlyArray<Left>
}

/**
 * Finds and measures what is matched in a bundle, and changes nothing. Without its claim it may be otherwise a moment
 * later.
 *
 * @internal
 */
export const find = Effect.fnUntraced(function*(
  dir: string,
  { isMatch, mayHold }: TrimPaths
): Effect.fn.Return<Found, Errno> {
  const groups = new Map<string, { readonly way: ReadonlyArray<Buffer>; readonly names: Array<Buffer> }>()
  const left: Array<Left> = []
  let entries = 0
  const usage = yield* DiskUsage.measureChosen(dir, {
    isChosen: isMatch,
    mayHold,
    chosen: (walk, name) => {
      const way = walk.way()
      const key = Buffer.concat(way.flatMap((each) => [each, Buffer.from("/")])).toString("latin1")
      const group = groups.get(key) ?? { way, names: [] }
      group.names.push(name)
      groups.set(key, group)
      entries++
    },
    missed: (path, cause) => void left.push({ path, reason: explain(cause) })
  })
  return { groups: [...groups.values()], entries, bytes: usage.bytes, left }
})

const refuse = (id: RunId, reason: TrimReason) => Effect.fail(new TrimError({ id, reason }))

const orSystem = (id: RunId) =>
  Effect.mapError((errno: Errno) => new TrimError({ id, reason: TrimReason.System({ errno }) }))

interface Patience {
  /** Wait for others who change the record half a second and not ten. */
  readonly brief?: boolean | undefined
}

/** The record as it is while nobody else can change it, unless somebody has pinned it. */
const lockRecord = Effect.fnUntraced(function*({ target: { dir, id } }: Claim, patience: Patience | undefined) {
  yield* orSystem(id)(RecordLock.take(dir, patience))
  const record = yield* RecordFile.read(dir)
  if (Result.isFailure(record)) return yield* refuse(id, TrimReason.Unreadable({ error: record.failure }))
  return record.success
})

const refusePinned = ({ target: { id } }: Claim, { pin }: RunRecord) =>
  pin === undefined ? Effect.void : refuse(id, TrimReason.Pinned({ reason: pin.reason }))

const write = ({ target: { dir, id } }: Claim, record: RunRecord) =>
  orSystem(id)(RecordFile.write(dir, record, { fsync: true }))

/** Says in the record what is about to be moved, and keeps everybody from changing the record until that is done. */
const announce = Effect.fnUntraced(function*(
  claim: Claim,
  before: RunRecord,
  plan: Parameters<typeof TrimHistory.begin>[1],
  patience: Patience | undefined
) {
  yield* write(claim, TrimHistory.begin(before, plan))
  // The lock went with the file that was replaced, and somebody may have come in between.
  const begun = yield* lockRecord(claim, patience)
  yield* Effect.onError(refusePinned(claim, begun), () => Effect.ignore(write(claim, TrimHistory.undo(begun, before))))
  return begun
})

const moveOut = Effect.fnUntraced(
  function*(root: string, claim: Claim, paths: TrimPaths, found: Found, patience: Patience | undefined) {
    const { id } = claim.target
    const { bytes, entries, groups, left } = found
    const before = yield* lockRecord(claim, patience)
    yield* refusePinned(claim, before)
    const isNothing = entries === 0
    const plan = { at: timestamp(yield* DateTime.now), paths: paths.globs, entries, bytes }
    if (isNothing && left.length > 0) return yield* refuse(id, TrimReason.Partial({ moved: 0, left }))
    if (isNothing) {
      if (TrimHistory.isNews(before, paths.globs)) {
        yield* write(claim, TrimHistory.end(TrimHistory.begin(before, plan)))
      }
      return { id, paths: paths.globs, entries, bytes } satisfies TrimHistory.Trimmed
    }
    const begun = yield* announce(claim, before, plan, patience)
    const done = yield* move(root, claim.target, groups)
    const stayed = [...done.left, ...left]
    if (stayed.length > 0) {
      // With this the lock is given away as well.
      if (done.moved === 0) yield* write(claim, TrimHistory.undo(begun, before))
      return yield* refuse(id, TrimReason.Partial({ moved: done.moved, left: stayed }))
    }
    yield* write(claim, TrimHistory.end(begun))
    return { id, paths: paths.globs, entries, bytes } satisfies TrimHistory.Trimmed
  },
  Effect.scoped
)

/**
 * Trims a bundle whose claim the caller has, and keeps until this ends, and whose record has an end. Looking for what
 * matches can be interrupted; once something is moved all of it is.
 *
 * @internal
 */
export const trimClaimed = Effect.fnUntraced(
  function*(
    root: string,
    claim: Claim,
    paths: TrimPaths,
    patience?: Patience
  ): Effect.fn.Return<TrimHistory.Trimmed, TrimError> {
    const { dir, id } = claim.target
    const found = yield* orSystem(id)(find(dir, paths))
    return yield* Effect.uninterruptible(moveOut(root, claim, paths, found, patience))
  }
)
