/**
 * The lease of a run: a kernel lock on the `lease` file of its bundle, shared by every process that works there.
 *
 * Guarantees. While a lease is held, nobody gets a claim, and without a claim nothing of ours changes or removes a
 * bundle. The kernel drops a lease when its last process is gone, however it went; no time-out, heartbeat or pid is
 * involved. Holding survives a suspended process, a moved clock and a bundle in which every mtime is old.
 *
 * Limits. A lease keeps Leasehold away from a bundle, not `rm -rf`. It reaches as far as the locks of the file system:
 * on a network file system other machines are kept away by their holder files alone. The native call cannot be bounded
 * in time, so a file system that hangs in it hangs this process.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { describeAll, type Holder, type Role } from "./Holder.ts"
import type { Errno } from "./internal/Errno.ts"
import { describeDoubt, type Doubt, type Liveness } from "./Liveness.ts"
import type { RunId } from "./RunId.ts"
import type { RecordError, RunRecord } from "./RunRecord.ts"

/**
 * A bundle that is to be held, claimed or looked at.
 *
 * @category models
 * @since 0.1.0
 */
export interface Target {
  readonly id: RunId
  readonly dir: string
}

/**
 * Why a lease could not be had or has been lost.
 *
 * @category errors
 * @since 0.1.0
 */
export type LeaseReason = Data.TaggedEnum<{
  /** Somebody holds it, so there is no claim. */
  Held: { readonly holders: ReadonlyArray<Holder> }
  /** A claim is being worked and did not end in time, so there is no lease. */
  Claimed: { readonly holders: ReadonlyArray<Holder> }
  /** It cannot be told whether it is held, so there is no claim. */
  Undecided: { readonly doubt: Doubt }
  /** The bundle is not there any more. */
  RunGone: {}
  /** The lease file was taken away or replaced under its holder: others may think that nobody works here. */
  LeaseLost: {}
  /** The file system has no locks. */
  NoLocks: { readonly code: string }
  /** The system refused something else. */
  System: { readonly errno: Errno }
}>

/**
 * @category errors
 * @since 0.1.0
 */
export const LeaseReason = Data.taggedEnum<LeaseReason>()

const explain = LeaseReason.$match({
  Held: ({ holders }) => `in use by ${describeAll(holders)}`,
  Claimed: ({ holders }) => `being removed, archived or changed by ${describeAll(holders)}; try again`,
  Undecided: ({ doubt }) => `cannot tell whether it is in use: ${describeDoubt(doubt)}`,
  RunGone: () => "has been removed",
  LeaseLost: () =>
    "its lease file was removed or replaced by something other than Leasehold; what is written there from now on is " +
    "not protected",
  NoLocks: ({ code }) =>
    `the file system has no locks (${code}); keep the store on a local one, or choose to run unprotected`,
  System: ({ errno }) => errno.message
})

/**
 * @category errors
 * @since 0.1.0
 */
export class LeaseError extends Data.TaggedError("LeaseError")<{
  readonly id: RunId
  readonly reason: LeaseReason
}> {
  override get message() {
    return `${this.id}: ${explain(this.reason)}`
  }
}

/**
 * A lease that this process holds. It ends with the scope it was taken in.
 *
 * @category models
 * @since 0.1.0
 */
export interface Held {
  /** False only where the file system has no locks and the caller chose to go on. */
  readonly protected: boolean
  /** Fails with `LeaseLost` when the lease file is no longer the one that was locked. */
  readonly check: Effect.Effect<void, LeaseError>
  /** A second, independent lease for a child process, to be handed on as a descriptor and closed here by its scope. */
  readonly share: Effect.Effect<Shared, LeaseError, Scope.Scope>
  /** Tells the lease that the bundle has been published: from now on it lies elsewhere. */
  readonly moved: (dir: string) => Effect.Effect<void>
}

/**
 * A lease for a child. `name` writes the holder file that tells people which process it went to.
 *
 * @category models
 * @since 0.1.0
 */
export interface Shared {
  readonly fd: number
  readonly name: (pid: number) => Effect.Effect<void, LeaseError, Scope.Scope>
}

const ClaimTypeId: unique symbol = Symbol.for("leasehold/Claim")

/**
 * The exclusive lock on a bundle, and with it the proof that nobody holds its lease: what recovers, changes or removes a
 * bundle asks for a value of this type. (Records are changed under a lock of their own as well, by people who pin.) The
 * record was read under the lock. It ends with the scope it was taken in.
 *
 * @category models
 * @since 0.1.0
 */
export interface Claim {
  readonly [ClaimTypeId]: typeof ClaimTypeId
  readonly target: Target
  readonly record: RunRecord
  /** What has the lock, where that is a descriptor: a child that it is handed to keeps the claim until it ends. */
  readonly descriptor: number | undefined
  /** Whether a holder file tells for whom others wait. */
  readonly announced: boolean
}

/**
 * Makes a claim. Only for lease layers, which have the lock.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeClaim = (
  target: Target,
  record: RunRecord,
  options?: { readonly descriptor?: number | undefined; readonly announced?: boolean | undefined }
): Claim => ({
  [ClaimTypeId]: ClaimTypeId,
  target,
  record,
  descriptor: options?.descriptor,
  announced: options?.announced ?? false
})

/**
 * A lease that was a claim a moment before, and the record as it was read under the claim.
 *
 * @category models
 * @since 0.1.0
 */
export interface Resumed {
  readonly held: Held
  readonly record: RunRecord
}

/**
 * A claim on something whose record may be broken or was never finished. Only for explicit verbs, and for what has never
 * been published.
 *
 * @category models
 * @since 0.1.0
 */
export interface BareClaim {
  readonly target: Target
  readonly record: Result.Result<RunRecord, RecordError>
}

/**
 * How a lease is taken.
 *
 * @category options
 * @since 0.1.0
 */
export interface HoldOptions {
  readonly role: Role
  /** How long to wait for a claim that is being worked; 5 seconds. */
  readonly patience?: Duration.Input | undefined
}

/**
 * How a claim is taken.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClaimOptions {
  /** Leaves a holder file, so that whoever has to wait learns for whom. For verbs that take long. */
  readonly announce?: boolean | undefined
}

/**
 * @category services
 * @since 0.1.0
 */
export class Lease extends Context.Service<Lease, {
  /** Makes the lease of a bundle that is being built, and holds it, before anything else is in there. */
  readonly create: (
    target: Target,
    options: { readonly role: Role; readonly unprotected?: boolean | undefined }
  ) => Effect.Effect<Held, LeaseError, Scope.Scope>
  /** Holds the lease of a bundle. Waits, within its patience and interruptibly, while a claim is being worked. */
  readonly hold: (target: Target, options: HoldOptions) => Effect.Effect<Held, LeaseError, Scope.Scope>
  /** Claims a bundle, or says who holds it. Never waits for a holder. */
  readonly claim: (target: Target, options?: ClaimOptions) => Effect.Effect<Claim, LeaseError, Scope.Scope>
  /** The same, where nothing but the record stands in the way of an answer. */
  readonly claimBare: (target: Target) => Effect.Effect<BareClaim, LeaseError, Scope.Scope>
  /**
   * A claim turned into a lease: for whoever goes on with a run that nobody works in. Since a claim needs every lease
   * gone, there is never a second owner, nor one beside a child that an earlier owner left behind.
   */
  readonly resume: (target: Target) => Effect.Effect<Resumed, LeaseError, Scope.Scope>
  /** Looks, and lets go again. What it finds may be otherwise a moment later: act on a claim, not on this. */
  readonly probe: (target: Target) => Effect.Effect<Liveness>
}>()("leasehold/Lease") {}
