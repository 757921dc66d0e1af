/**
 * The run that a program is a part of, as the program sees it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as ArtifactName from "./ArtifactName.ts"
import type { LeaseError, Shared as SharedLease } from "./Lease.ts"
import type * as OnRemove from "./OnRemove.ts"
import type * as Outcome from "./Outcome.ts"
import type { RunId } from "./RunId.ts"
import type { Registered, Tags } from "./RunRecord.ts"
import type { StoreError } from "./StoreError.ts"

/**
 * The paths in a bundle.
 *
 * @category models
 * @since 0.1.0
 */
export interface Paths {
  readonly record: string
  readonly logs: string
  readonly telemetry: string
  readonly temp: string
  readonly artifacts: string
}

/**
 * The current run.
 *
 * @category services
 * @since 0.1.0
 */
export class Run extends Context.Service<Run, {
  readonly id: RunId
  readonly name: string
  readonly dir: string
  readonly paths: Paths
  readonly parent: RunId | undefined
  /** The path of an artifact, `report.html` or `coverage/index.html`, with the directories above it made. */
  readonly artifact: (name: string) => Effect.Effect<string, ArtifactName.BadArtifactName | StoreError | LeaseError>
  /** Adds tags to the record. */
  readonly annotate: (tags: Tags) => Effect.Effect<void, StoreError | LeaseError>
  /** Orders the bundle to be kept, whatever the policy says. */
  readonly pin: (reason: string) => Effect.Effect<void, StoreError | LeaseError>
  /**
   * Registers what must be undone before the bundle goes, last registered first, and gives the id of that. It is on the
   * disk when this returns, so register first and make it afterwards: undoing what was never made must do no harm.
   */
  readonly onRemove: (
    undo: OnRemove.Undo,
    options?: OnRemove.Options
  ) => Effect.Effect<string, OnRemove.OnRemoveError | StoreError | LeaseError>
  /** Takes that back, when the program has undone it itself. An id that is not there is no error. */
  readonly withdraw: (id: string) => Effect.Effect<void, StoreError | LeaseError>
  /**
   * What is registered, and what has become of it. A run that is gone on with may find that its removal had begun: what
   * has a `doneAt` is not there any more, and has to be registered and made again.
   */
  readonly registered: Effect.Effect<ReadonlyArray<Registered>, StoreError>
  /**
   * Says how the run ended, for programs that know it better than their exit does. Written at once; the first word
   * stands.
   */
  readonly conclude: (outcome: Outcome.Outcome) => Effect.Effect<void, StoreError>
  /** What a child must find in its environment to know that it works in this run. */
  readonly environment: Readonly<Record<string, string>>
  /** Fails with `LeaseLost` when something other than Leasehold has taken the lease file away. */
  readonly check: Effect.Effect<void, LeaseError>
  /** A lease for a child, to be handed on as a file descriptor. */
  readonly share: Effect.Effect<SharedLease, LeaseError, Scope.Scope>
}>()("leasehold/Run") {}

/**
 * Registers what must be undone before the bundle of the current run goes.
 *
 * **Example** (A worktree that goes with its run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Run from "leasehold/Run"
 *
 * const register = Effect.gen(function*() {
 *   const run = yield* Run.Run
 *   const path = `${run.dir}/worktree`
 *   yield* Run.onRemove({ type: "git-worktree", repository: "/src/project", path })
 *   // Only now: git worktree add
 * })
 * ```
 *
 * @see {@link OnRemove} for what is guaranteed and what not.
 * @category registering
 * @since 0.1.0
 */
export const onRemove = (
  undo: OnRemove.Undo,
  options?: OnRemove.Options
): Effect.Effect<string, OnRemove.OnRemoveError | StoreError | LeaseError, Run> =>
  Effect.flatMap(Run, (run) => run.onRemove(undo, options))
