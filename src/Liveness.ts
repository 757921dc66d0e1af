/**
 * Whether anybody works in a bundle: the one decision that every selector, verb and pass goes through.
 *
 * Three answers, never two. Only `Dead` permits change, and it is only given to somebody who at that moment has the
 * exclusive lock, or for a bundle of an older layout that never had a lease. What cannot be told is `Unknown`, and kept.
 * Pids, host names, times and sizes take no part in finding somebody dead: a pid may only ever speak for keeping.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Result from "effect/Result"
import { describe, describeAll, type Holder, type HolderTrace } from "./Holder.ts"
import type { RecordError, RunRecord } from "./RunRecord.ts"
import { isTerminal } from "./RunRecord.ts"

/**
 * Why it cannot be told whether a bundle is in use.
 *
 * @category models
 * @since 0.1.0
 */
export type Doubt = Data.TaggedEnum<{
  /** No `lease` file, and the record or a holder file says that there should be one. */
  LeaseMissing: {}
  /** Something else lies where the lease should be. */
  LeaseNotAFile: { readonly kind: string }
  /** The lease file belongs to another user. */
  LeaseNotOurs: {}
  /** The lease at the path is another file than the one that was locked, or than the one a holder locked. */
  LeaseReplaced: {}
  /** The system would not open or lock it. */
  LeaseUnusable: { readonly code: string }
  /** A holder file of another kernel whose process cannot be proved dead. */
  ForeignHolder: { readonly holder: Holder }
  /** A holder file that cannot be read. */
  IllegibleHolder: { readonly why: string }
  /** The record cannot be read. */
  RecordUnusable: { readonly error: RecordError }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const Doubt = Data.taggedEnum<Doubt>()

/**
 * The answer.
 *
 * @category models
 * @since 0.1.0
 */
export type Liveness = Data.TaggedEnum<{
  /** Somebody holds the lease. `holders` names those that said who they are; it may be empty. */
  Live: { readonly holders: ReadonlyArray<Holder> }
  /** Nobody holds it, and the record says the rest. */
  Dead: { readonly proof: "lease free" | "no lease in this layout"; readonly record: RunRecord }
  /** It cannot be told. */
  Unknown: { readonly doubt: Doubt }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const Liveness = Data.taggedEnum<Liveness>()

/**
 * What became of the attempt to take the exclusive lock.
 *
 * @category models
 * @since 0.1.0
 */
export type LockEvidence = Data.TaggedEnum<{
  /** We have it; `inode` is the locked file, which is still the one at the path. */
  Taken: { readonly inode: bigint }
  /** By somebody's lease; or by another exclusive lock, which says that nobody holds a lease at this moment. */
  Refused: { readonly by: "holder" | "claimant" }
  Absent: {}
  NotAFile: { readonly kind: string }
  NotOurs: {}
  Replaced: {}
  Unusable: { readonly code: string }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const LockEvidence = Data.taggedEnum<LockEvidence>()

/**
 * Everything the answer is drawn from.
 *
 * @category models
 * @since 0.1.0
 */
export interface Evidence {
  readonly lock: LockEvidence
  readonly holders: ReadonlyArray<HolderTrace>
  readonly record: Result.Result<RunRecord, RecordError>
  /** The kernel that looks, and whether the store lies on a file system that only this kernel can have mounted. */
  readonly boot: string
  readonly machine: string
  readonly localFileSystem: boolean
}

const named = (holders: ReadonlyArray<HolderTrace>) =>
  holders.flatMap((trace) => trace._tag === "Named" ? [trace.holder] : [])

const known = (identity: string) => identity !== "unknown" && identity !== ""

/**
 * A lock of this kernel would have stood in our way; one of another kernel is ended only by that kernel's end. What lies
 * on a file system that one machine alone has mounted was locked by this boot of it or by an earlier one.
 */
const isProvedDead = (holder: Holder, { boot, localFileSystem, machine }: Evidence): boolean =>
  (known(boot) && holder.boot === boot) || (localFileSystem && known(machine) && holder.machine === machine)

const doubtOfHolders = (evidence: Evidence, inode: bigint): Doubt | undefined => {
  for (const trace of evidence.holders) {
    if (trace._tag === "Illegible") return Doubt.IllegibleHolder({ why: trace.why })
    if (trace.holder.inode !== String(inode)) return Doubt.LeaseReplaced()
    if (!isProvedDead(trace.holder, evidence)) return Doubt.ForeignHolder({ holder: trace.holder })
  }
  return undefined
}

/**
 * What a lease file that could not be locked says by itself. A refusal is no doubt: somebody has it.
 *
 * @category decisions
 * @since 0.1.0
 */
export const doubtOfLock = (lock: Exclude<LockEvidence, { readonly _tag: "Taken" | "Refused" }>): Doubt => {
  switch (lock._tag) {
    case "Absent":
      return Doubt.LeaseMissing()
    case "NotAFile":
      return Doubt.LeaseNotAFile({ kind: lock.kind })
    case "NotOurs":
      return Doubt.LeaseNotOurs()
    case "Replaced":
      return Doubt.LeaseReplaced()
    case "Unusable":
      return Doubt.LeaseUnusable({ code: lock.code })
  }
}

/**
 * Draws the answer from the evidence. Pure and total; the order of its branches is the liveness table.
 *
 * @category decisions
 * @since 0.1.0
 */
export const decide = (evidence: Evidence): Liveness => {
  const unknown = (doubt: Doubt) => Liveness.Unknown({ doubt })
  const { lock, record } = evidence
  if (lock._tag === "Refused") return Liveness.Live({ holders: named(evidence.holders) })
  if (lock._tag === "Absent") {
    if (Result.isFailure(record)) return unknown(Doubt.RecordUnusable({ error: record.failure }))
    return isTerminal(record.success) && evidence.holders.length === 0
      ? Liveness.Dead({ proof: "no lease in this layout", record: record.success })
      : unknown(doubtOfLock(lock))
  }
  if (lock._tag !== "Taken") return unknown(doubtOfLock(lock))
  const doubt = doubtOfHolders(evidence, lock.inode)
  if (doubt !== undefined) return unknown(doubt)
  if (Result.isFailure(record)) return unknown(Doubt.RecordUnusable({ error: record.failure }))
  return Liveness.Dead({ proof: "lease free", record: record.success })
}

/**
 * A doubt in words.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describeDoubt = Doubt.$match({
  LeaseMissing: () => "its lease file is missing",
  LeaseNotAFile: ({ kind }) => `its lease is a ${kind}, not a regular file`,
  LeaseNotOurs: () => "its lease belongs to another user",
  LeaseReplaced: () => "its lease file was replaced",
  LeaseUnusable: ({ code }) => `its lease cannot be locked (${code})`,
  ForeignHolder: ({ holder }) => `${describe(holder)} may hold it from another kernel`,
  IllegibleHolder: ({ why }) => `a holder file cannot be read: ${why}`,
  RecordUnusable: ({ error }) => error.message
})

/**
 * An answer in words.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describeLiveness = Liveness.$match({
  Live: ({ holders }) => `held by ${describeAll(holders)}`,
  Dead: ({ proof }) => proof,
  Unknown: ({ doubt }) => describeDoubt(doubt)
})
