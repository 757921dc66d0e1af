/** From an error to the exit code that the README's table promises. The one place that knows it. */
import * as Runtime from "effect/Runtime"
import { ArchiveError, type ArchiveReason } from "../ArchiveError.ts"
import { ChildError } from "../Child.ts"
import { LeaseError, type LeaseReason } from "../Lease.ts"
import { PolicyError } from "../RetentionPolicy.ts"
import { StoreError, type StoreReason } from "../StoreError.ts"
import { TrimPathError } from "../TrimError.ts"

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

/** What was asked for makes no sense, whatever it was asked of. */
const isWrongUsage = (error: unknown) =>
  error instanceof UsageError || error instanceof PolicyError || error instanceof TrimPathError

const ofArchive = (reason: ArchiveReason): number => reason._tag === "Busy" ? 4 : 1

export const of = (error: unknown): number => {
  if (error instanceof ExitWith) return error[Runtime.errorExitCode]
  if (error instanceof LeaseError) return ofLease[error.reason._tag]
  if (error instanceof StoreError) return ofStore[error.reason._tag]
  if (error instanceof ArchiveError) return ofArchive(error.reason)
  if (error instanceof ChildError) return error.exitCode
  return isWrongUsage(error) ? usage : 1
}
