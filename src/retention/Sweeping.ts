/** What is left over from before: bundles that were never published, and the trash. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Files } from "../internal/Files.ts"
import { PassEvent } from "../RetentionReport.ts"
import { isRunId } from "../RunId.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { toTrash } from "./Acting.ts"
import { type Pass, tellFailure } from "./Pass.ts"

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
      if (Result.isSuccess(claim)) yield* toTrash(pass.store.root, dir, name)
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
 * Deletes in the trash what the budget allows.
 *
 * @internal
 */
export const sweep = Effect.fnUntraced(function*(pass: Pass) {
  if (pass.dryRun) return
  const { ledger } = pass
  let counted = 0
  const take = (report: TrashSweep.SweepReport) =>
    Effect.suspend(() => {
      ledger.freedBytes += report.freedBytes - counted
      counted = report.freedBytes
      ledger.left.inTrash = report.left
      const { freedBytes, left, unlinked } = report
      return ledger.tell(PassEvent.Swept({ unlinked, freedBytes, left }))
    })
  const report = yield* TrashSweep.sweep(pass.store.root, {
    maxUnlinked: pass.budget.maxUnlinked,
    until: pass.until,
    onProgress: take
  })
  yield* take(report)
  for (const { path, reason } of report.failed) yield* tellFailure(pass, runOf(path), reason)
})
