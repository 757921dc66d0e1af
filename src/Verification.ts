/**
 * A look at everything in a store: its directories, every bundle, every archive, what is in staging and in the trash, and
 * the index.
 *
 * **Guarantees.** Nothing at all is written unless it is asked for. One bad bundle stops nothing, and nothing that lies
 * there is followed or waited for. What is mended is mended under a claim, so that whoever works in a bundle is never in
 * the way of it, and never harmed.
 *
 * **Limits.** Others go on working meanwhile, so what is found may have gone a moment later. What is in a bundle besides
 * its record, lease and holders is the program's and not looked at. While the index is read, which takes moments, a
 * pass that comes by does nothing.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Lease } from "./Lease.ts"
import type { RunId } from "./RunId.ts"
import type { RunIndex } from "./RunIndex.ts"
import type { RunStore } from "./RunStore.ts"
import { archives } from "./verification/Archives.ts"
import { index } from "./verification/Index.ts"
import * as Places from "./verification/Places.ts"
import type { Finding } from "./VerificationFinding.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /**
   * Mend what is safe to mend: crashed runs are recovered, what the dead have left behind and what was never finished
   * is taken away, an archive that lies beside its readable bundle too, the trash is swept, and an index that does not
   * say what is there is set aside.
   */
  readonly repair?: boolean | undefined
  /** Remove bundles whose record nobody can read, if nobody works in them, and sweep the trash. */
  readonly removeUnreadable?: boolean | undefined
  /** Read every archive whole, and hold it against its manifest; else only the beginning of each, with its record. */
  readonly archives?: boolean | undefined
  /** Told of each bundle that is looked at. */
  readonly onBundle?: ((id: RunId) => Effect.Effect<void>) | undefined
  /** Told of each archive that is looked at. */
  readonly onArchive?: ((id: RunId) => Effect.Effect<void>) | undefined
}

/**
 * Goes through the store and tells what it finds as it finds it, oldest runs first, with what came of mending it.
 *
 * **Example** (What is wrong with a store)
 *
 * ```ts
 * import * as Console from "effect/Console"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as Stream from "effect/Stream"
 * import * as RunStore from "leasehold/RunStore"
 * import * as SqliteIndex from "leasehold/SqliteIndex"
 * import * as Verification from "leasehold/Verification"
 * import * as VerificationFinding from "leasehold/VerificationFinding"
 *
 * const StoreLayer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer()))
 *
 * Verification.check().pipe(
 *   Stream.filter(VerificationFinding.isOpenProblem),
 *   Stream.runForEach(({ fault, where }) => Console.log(where, VerificationFinding.describe(fault))),
 *   Effect.provide(StoreLayer)
 * )
 * ```
 *
 * @category verifying
 * @since 0.1.0
 */
export const check = (options: Options = {}): Stream.Stream<Finding, never, RunStore | Lease | RunIndex> => {
  const chosen = {
    repair: options.repair ?? false,
    removeUnreadable: options.removeUnreadable ?? false,
    archives: options.archives ?? false
  }
  const unheard = () => Effect.void
  // The trash comes after everything that may put something into it, and the index after everything that moves a day.
  return Places.root.pipe(
    Stream.concat(Places.runs(chosen, options.onBundle ?? unheard)),
    Stream.concat(Places.staging(chosen)),
    Stream.concat(archives(chosen, options.onArchive ?? unheard)),
    Stream.concat(Places.trash(chosen)),
    Stream.concat(index(chosen))
  )
}
