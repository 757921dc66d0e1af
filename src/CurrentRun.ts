/**
 * The run that a program is a part of, as the program sees it.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as ArtifactName from "./ArtifactName.ts"
import type { LeaseError, Shared as SharedLease } from "./Lease.ts"
import type * as Outcome from "./Outcome.ts"
import type { RunId } from "./RunId.ts"
import type { Tags } from "./RunRecord.ts"
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
