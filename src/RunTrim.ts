/**
 * Trimming: heavy parts of a finished bundle go earlier than the bundle, which stays listed, and says what has gone.
 *
 * **Guarantees.** A bundle is only trimmed under its claim, and not while it is pinned, after its record has been read
 * again under the lock that every change of a record takes. What is matched leaves by renames into the trash: links as
 * links, names as bytes, nothing opened, nothing mounted entered. The record says so before the first rename and after
 * the last, so that a trim that was killed is known as pending, and is completed by the next with the same globs.
 * Leasehold's own files (`run.json` and what begins so, `lease`, `holders`) are never touched, whatever a glob says. To
 * go on with a run that was trimmed takes the word of the caller that what is missing can be made again.
 *
 * **Limits.** What was moved out takes up its space until the trash is swept, by the next pass or by `TrashSweep`. A
 * read-only directory is made writable while names are moved out of it, and stays so where the process is killed then.
 * The record has to be written first, so a disk without any space left has to be given some by removing a run. The
 * index is not told: a size that a pass has measured before stands until the run is gone on with.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Trash from "./internal/Trash.ts"
import { trimClaimed } from "./internal/Trimming.ts"
import { where } from "./internal/Whereabouts.ts"
import { Lease, type LeaseError, type Target } from "./Lease.ts"
import * as Recovery from "./Recovery.ts"
import * as RunId from "./RunId.ts"
import type { RecordError } from "./RunRecord.ts"
import { RunStore } from "./RunStore.ts"
import type { StoreError } from "./StoreError.ts"
import { TrimError, TrimReason } from "./TrimError.ts"
import type { Trimmed } from "./TrimHistory.ts"
import { checkPaths, defaultPaths, type TrimPaths } from "./TrimPaths.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Globs within the bundle; `temp/**`. */
  readonly paths?: ReadonlyArray<string> | undefined
}

const refuse = (id: RunId.RunId, reason: TrimReason) => Effect.fail(new TrimError({ id, reason }))

const claimAndTrim = Effect.fnUntraced(function*(target: Target, paths: TrimPaths) {
  const lease = yield* Lease
  const { root } = yield* RunStore
  const claim = yield* lease.claim(target, { announce: true })
  yield* Effect.uninterruptible(Recovery.recover(claim))
  return yield* trimClaimed(root, claim, paths)
}, Effect.scoped)

/**
 * Trims a run that nobody works in and nobody has pinned.
 *
 * **Details**
 *
 * The answer says what this trim moved out; a bundle in which nothing is matched any more answers zero. A run that
 * crashed is brought to its end first. Fails with a `LeaseError` that names the holders where somebody works in it, and with a
 * `StoreError` where there is no such run. What could not be moved makes it fail with `Partial`, when all else was.
 *
 * **Example** (The newest run that failed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as RunStore from "leasehold/RunStore"
 * import * as RunTrim from "leasehold/RunTrim"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* RunStore.RunStore
 *   const { id } = yield* store.latest("error")
 *   const { bytes } = yield* RunTrim.trim(id, { paths: ["temp/**", "artifacts/*.img"] })
 *   console.log(bytes)
 * }).pipe(Effect.provide(RunStore.layer()))
 * ```
 *
 * @category trimming
 * @since 0.1.0
 */
export const trim = Effect.fn("RunTrim.trim")(
  function*(
    id: RunId.RunId,
    options?: Options
  ): Effect.fn.Return<Trimmed, TrimError | LeaseError | StoreError, RunStore | Lease> {
    const store = yield* RunStore
    const paths = checkPaths(options?.paths ?? defaultPaths)
    if (Result.isFailure(paths)) return yield* refuse(id, TrimReason.BadPath({ error: paths.failure }))
    const astray = yield* Trash.astray(store.root, ["runs", `runs/${RunId.day(id)}`])
    if (astray !== undefined) return yield* refuse(id, TrimReason.Astray(astray))
    const unreadable = (error: RecordError) => new TrimError({ id, reason: TrimReason.Unreadable({ error }) })
    return yield* where(store.get(id), unreadable)((target) => claimAndTrim(target, paths.success))
  }
)

export { TrimError, TrimPathError, TrimReason } from "./TrimError.ts"
export { covers, toRebuild, type Trimmed } from "./TrimHistory.ts"
export { checkPaths, defaultPaths, type TrimPaths } from "./TrimPaths.ts"
