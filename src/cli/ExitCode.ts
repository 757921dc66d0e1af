/** From an error to the exit code that the README's table promises. The one place that knows it. */
import * as Runtime from "effect/Runtime"
import type { ArchiveError, ArchiveReason } from "../ArchiveError.ts"
import type { ChildError } from "../Child.ts"
import type { LeaseError, LeaseReason } from "../Lease.ts"
import type { BudgetError } from "../RetentionBudget.ts"
import type { PolicyError } from "../RetentionPolicy.ts"
import type { StoreError, StoreReason } from "../StoreError.ts"
import type { TrimPathError } from "../TrimError.ts"

export const usage = 2

const ofLease: Record<LeaseReason["_tag"], number> = {
  Held: 4,
  Claimed: 4,
  Undecided: 1,
  RunGone: 5,
  LeaseLost: 1,
  NoLocks: 1,
  System: 1
}

const ofStore: Record<StoreReason["_tag"], number> = {
  NoStore: 5,
  NoHome: usage,
  UnsafeRoot: 6,
  NewerFormat: 6,
  IllegibleFormat: 6,
  MalformedName: usage,
  NoSuchRun: 5,
  Archived: 5,
  NotInRun: usage,
  Ambiguous: usage,
  UnusableRecord: 1,
  Trimmed: 1,
  NotCopied: 1,
  System: 1
}

/** A command line that makes no sense. */
export class UsageError extends Error {
  override readonly name = "UsageError"
}

/** Ends the command with a code that is not its own: everything there was to say has been said. */
export class ExitWith extends Error {
  override readonly name = "ExitWith"
  override readonly [Runtime.errorExitCode]: number
  constructor(code: number) {
    super(`exit ${code}`)
    this[Runtime.errorExitCode] = code
  }
}

const ofArchive = (reason: ArchiveReason): number => reason._tag === "Busy" ? 4 : 1

type Known = LeaseError | StoreError | ArchiveError | ChildError | PolicyError | BudgetError | TrimPathError

/** By their tags: a command that can never fail with one of them would load its class only for this. */
const ofKnown: { readonly [E in Known as E["_tag"]]: (error: E) => number } = {
  LeaseError: ({ reason }) => ofLease[reason._tag],
  StoreError: ({ reason }) => ofStore[reason._tag],
  ArchiveError: ({ reason }) => ofArchive(reason),
  ChildError: ({ exitCode }) => exitCode,
  PolicyError: () => usage,
  BudgetError: () => usage,
  TrimPathError: () => usage
}

const isKnown = (error: unknown): error is Known =>
  error instanceof Error && "_tag" in error && typeof error._tag === "string" && Object.hasOwn(ofKnown, error._tag)

export const of = (error: unknown): number => {
  if (error instanceof ExitWith) return error[Runtime.errorExitCode]
  if (error instanceof UsageError) return usage
  return isKnown(error) ? (ofKnown[error._tag] as (error: Known) => number)(error) : 1
}
