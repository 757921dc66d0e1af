/** What is left over from before: bundles and archives that were never published, and the trash. */
import * as Effect from "effect/Effect"
import * as ArchivePlace from "../internal/ArchivePlace.ts"
import { eachEntry } from "../internal/io.ts"
import { isStuck } from "../internal/TrashQueue.ts"
import type { LeaseError } from "../Lease.ts"
import { PassEvent } from "../RetentionReport.ts"
import { isRunId, type RunId } from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { listPlace } from "./Discovery.ts"
import { type Frame, isOver, type Pass, tellFailure } from "./Pass.ts"

/** What is being built, or may be, stays there and is nothing to speak of. */
const isAmiss = (error: RunRemoval.RemovalError | LeaseError): error is RunRemoval.RemovalError =>
  error._tag === "RemovalError" && error.reason._tag !== "Unleased" &&
  !(error.reason._tag === "System" && error.reason.errno.code === "ENOENT")

/** A draft of an archive that somebody is writing is locked. */
const clearDraft = (pass: Pass, id: RunId) =>
  Effect.catch(
    ArchivePlace.clearDraft(pass.store.root, id),
    ({ code, message }) => code === "ENOENT" ? Effect.void : tellFailure(pass, id, message)
  )

const clearBundle = ({ lease, store }: Pass, id: RunId) =>
  RunRemoval.removeStaged(store.root, lease, { id, dir: `${store.root}/staging/${id}` })

/**
 * Takes away what was never published: bundles and archives whose process died while it made them.
 *
 * @internal
 */
export const clearStaging = Effect.fnUntraced(function*(pass: Pass) {
  if (pass.dryRun) return
  // What is none of the store's, however much there is of it, stands in the way of nothing.
  for (const { kind, name } of yield* listPlace(pass, "staging", ArchivePlace.isStaged, pass.budget.maxLooked)) {
    if (yield* isOver(pass)) break
    const archived = ArchivePlace.idOf(name)
    if (archived !== undefined && kind === "file") yield* clearDraft(pass, archived)
    if (!isRunId(name) || kind !== "directory") continue
    yield* Effect.catch(
      clearBundle(pass, name),
      (error) => isAmiss(error) ? tellFailure(pass, name, error.message) : Effect.void
    )
  }
})

/** So many characters has a run id, with which the name of whatever was put into the trash begins. */
const idLength = 28

/** What a sweep says of something in the trash, by the run it was. */
const told = (root: string, { path, reason }: TrashSweep.SweepFailure) => {
  const name = path.startsWith(`${root}/trash/`) ? path.slice(`${root}/trash/`.length) : path
  const id = name.slice(0, idLength)
  return isRunId(id) ? { id, reason: `${name}: ${reason}` } : { id: name, reason }
}

/** What a sweep would find. */
const lookAtTrash = Effect.fnUntraced(function*({ ledger, store }: Frame) {
  let stuck = 0
  let waiting = 0
  const count = (name: string) => isStuck(name) ? stuck++ : waiting++
  yield* Effect.ignore(eachEntry(`${store.root}/trash`, ({ name }) => void count(name.toString())))
  ledger.left.stuck = stuck
  ledger.left.inTrash = ledger.leaving = waiting
})

/**
 * Deletes in the trash what is left of the budget.
 *
 * @internal
 */
export const sweep = Effect.fnUntraced(function*(frame: Frame): Effect.fn.Return<TrashSweep.SweepReport["failed"]> {
  if (frame.dryRun) return yield* Effect.as(lookAtTrash(frame), [])
  const { ledger } = frame
  let before = { emptied: 0, freedBytes: 0, unlinked: 0 }
  const take = ({ emptied, finished, freedBytes, left, stuck, unlinked }: TrashSweep.SweepReport) =>
    Effect.suspend(() => {
      ledger.emptied += emptied.length - before.emptied
      ledger.freedBytes += freedBytes - before.freedBytes
      ledger.unlinked += unlinked - before.unlinked
      before = { emptied: emptied.length, freedBytes, unlinked }
      ledger.leaving = left - stuck
      // Before it has gone through all, a sweep cannot say what is there for good.
      ledger.left.stuck = finished ? stuck : 0
      ledger.left.inTrash = left - ledger.left.stuck
      return ledger.tell(PassEvent.Swept({ unlinked, freedBytes, left }))
    })
  const report = yield* TrashSweep.sweep(frame.store.root, {
    maxUnlinked: frame.budget.maxUnlinked - ledger.unlinked,
    until: frame.until,
    onProgress: take
  })
  yield* take(report)
  return report.failed
})

/**
 * The last sweep of a pass tells of what would not go.
 *
 * @internal
 */
export const sweepAndTell = Effect.fnUntraced(function*(frame: Frame) {
  for (const failure of yield* sweep(frame)) {
    const { id, reason } = told(frame.store.root, failure)
    yield* tellFailure(frame, id, reason)
  }
  const { emptied, trashFull } = frame.ledger
  if (trashFull !== undefined && emptied === 0) yield* tellFailure(frame, "trash", trashFull)
})
