/** What is left over from before: bundles that were never published, and the trash. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Files } from "../internal/Files.ts"
import * as Trash from "../internal/Trash.ts"
import { PassEvent } from "../RetentionReport.ts"
import { isRunId } from "../RunId.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { type Frame, type Pass, tellFailure } from "./Pass.ts"

/**
 * A bundle that was being built when its process died is known by its free lease. One without a lease was abandoned in
 * its first moment: only an empty directory is taken away then, and whoever was about to lease it begins another.
 *
 * @internal
 */
export const clearStaging = Effect.fnUntraced(function*(pass: Pass) {
  const files = yield* Files
  const staging = `${pass.store.root}/staging`
  const entries = yield* Effect.orElseSucceed(files.readdir(staging), () => [])
  for (const { kind, name } of entries.slice(0, pass.budget.maxLooked)) {
    if (!isRunId(name) || kind !== "directory" || pass.dryRun) continue
    const dir = `${staging}/${name}`
    const isEmpty = yield* Effect.isSuccess(files.rmdir(dir))
    if (isEmpty) continue
    const cleared = Effect.scoped(Effect.gen(function*() {
      if (Result.isFailure(yield* Effect.result(files.lstat(`${dir}/lease`)))) return
      const claim = yield* Effect.result(pass.lease.claimBare({ id: name, dir }))
      if (Result.isSuccess(claim)) yield* Trash.put(pass.store.root, dir, name)
    }))
    yield* Effect.catch(
      Effect.uninterruptible(cleared),
      (errno) => errno.code === "ENOENT" ? Effect.void : tellFailure(pass, name, errno.message)
    )
  }
})

/** What a sweep says of an entry of the trash, by the run it was. */
const runOf = (path: string) => path.split("/trash/").at(-1) ?? path

/**
 * Deletes in the trash what is left of the budget.
 *
 * @internal
 */
export const sweep = Effect.fnUntraced(function*(frame: Frame): Effect.fn.Return<TrashSweep.SweepReport["failed"]> {
  if (frame.dryRun) return []
  const { ledger } = frame
  let before = { emptied: 0, freedBytes: 0, unlinked: 0 }
  const take = ({ emptied, freedBytes, left, unlinked }: TrashSweep.SweepReport) =>
    Effect.suspend(() => {
      ledger.emptied += emptied.length - before.emptied
      ledger.freedBytes += freedBytes - before.freedBytes
      ledger.unlinked += unlinked - before.unlinked
      before = { emptied: emptied.length, freedBytes, unlinked }
      ledger.left.inTrash = left
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
  for (const { path, reason } of yield* sweep(frame)) yield* tellFailure(frame, runOf(path), reason)
  const { emptied, trashFull } = frame.ledger
  if (trashFull !== undefined && emptied === 0) yield* tellFailure(frame, "trash", trashFull)
})
