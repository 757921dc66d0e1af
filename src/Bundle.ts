/**
 * Bundles as values: one that was found, one that is to be made, one that this process has.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { Held } from "./Lease.ts"
import type { RunId } from "./RunId.ts"
import type { RecordError, RunCommand, RunRecord, Tags } from "./RunRecord.ts"
import { type StoreError, unusable } from "./StoreError.ts"

/**
 * A bundle as it was found: its record, or what is wrong with it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Entry {
  readonly id: RunId
  readonly dir: string
  readonly record: Result.Result<RunRecord, RecordError>
}

/**
 * Whether the run is in this bundle for certain. Else an archive that lies beside it may be all that is left of the run.
 *
 * @internal
 */
export const standsForRun = ({ id, record }: Entry): boolean => Result.isSuccess(record) && record.success.id === id

/**
 * What is wrong where something that is no bundle lies in the place of one. Its lease, and all else, would be looked for
 * behind a link, outside the store.
 *
 * @internal
 */
export const obstacle = ({ record }: Pick<Entry, "record">): RecordError | undefined =>
  Result.isFailure(record) && record.failure.reason._tag === "NotABundle" ? record.failure : undefined

/**
 * The record, or an error that says what is wrong with it.
 *
 * @internal
 */
export const usable = ({ id, record }: Pick<Entry, "id" | "record">): Result.Result<RunRecord, StoreError> =>
  Result.mapError(record, (error) => unusable(id, error))

/**
 * What is known of a run before it starts.
 *
 * @category models
 * @since 0.1.0
 */
export interface Draft {
  readonly name: string
  readonly tags: Tags
  readonly command?: RunCommand | undefined
  readonly parent?: RunId | undefined
  /** A run of the same store whose artifacts are copied into the new bundle before anybody sees it. */
  readonly forkedFrom?: RunId | undefined
  /** Go on where the file system has no locks; the record then says so. */
  readonly unprotected?: boolean | undefined
}

/**
 * A new run: published, with its lease held by this process.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bundle {
  readonly id: RunId
  readonly dir: string
  readonly record: RunRecord
  readonly lease: Held
}

/**
 * How a record is to be changed.
 *
 * @category models
 * @since 0.1.0
 */
export interface UpdateOptions {
  /** Have it on the disk before going on. */
  readonly fsync?: boolean | undefined
  /** What the record should hold, for whoever has written it; it stands in for one that something has broken. */
  readonly known?: RunRecord | undefined
  /** Wait for others who change it half a second and not ten. */
  readonly brief?: boolean | undefined
}
