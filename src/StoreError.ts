/**
 * What can go wrong with a store, with what to do about it.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { Errno } from "./internal/Errno.ts"
import type { RunId } from "./RunId.ts"
import type { RecordError } from "./RunRecord.ts"

/**
 * @category errors
 * @since 0.1.0
 */
export type StoreReason = Data.TaggedEnum<{
  /** There is no store at the root, and none was to be made. */
  NoStore: { readonly root: string }
  /** Nobody said where the store is, and there is no home directory to have it in. */
  NoHome: {}
  /** The root cannot be trusted; nothing was touched. */
  UnsafeRoot: { readonly root: string; readonly problem: string; readonly mend: string }
  /** A newer Leasehold made the store; nothing was touched. */
  NewerFormat: { readonly root: string; readonly version: number; readonly known: number }
  /** `store.json` is there and cannot be read. */
  IllegibleFormat: { readonly path: string; readonly detail: string }
  /** A text that names no run in any way there is. */
  MalformedName: { readonly name: string }
  /** Nothing in the store has that name. */
  NoSuchRun: { readonly name: string }
  /** The run has been archived, so there is no bundle of it until it is restored. */
  Archived: { readonly id: RunId }
  /** The environment names no run of this store. */
  NotInRun: { readonly problem: string }
  /** More than one run's id begins so. */
  Ambiguous: { readonly prefix: string; readonly candidates: ReadonlyArray<RunId> }
  /** The record of a run that was to be changed cannot be read. */
  UnusableRecord: { readonly id: RunId; readonly error: RecordError }
  /** Parts of a run that was to be gone on with were trimmed, and nobody said that they can be made again. */
  Trimmed: { readonly id: RunId; readonly paths: ReadonlyArray<string> }
  /** The artifacts of a run could not be copied into a new one, which is gone again. */
  NotCopied: { readonly id: RunId; readonly path: string; readonly problem: string }
  /** The system refused something. */
  System: { readonly errno: Errno }
}>

/**
 * @category errors
 * @since 0.1.0
 */
export const StoreReason = Data.taggedEnum<StoreReason>()

const shown = (name: string) => JSON.stringify(name.length > 60 ? `${name.slice(0, 57)}...` : name)

const explain = StoreReason.$match({
  NoStore: ({ root }) => `there is no store at ${root}; the first \`leasehold run\` makes one`,
  NoHome: () =>
    "there is no home directory to have the store in: say where it is (--root, LEASEHOLD_ROOT), or set HOME",
  UnsafeRoot: ({ mend, problem, root }) => `the store ${root} is not safe to use: ${problem}; ${mend}`,
  NewerFormat: ({ known, root, version }) =>
    `the store ${root} has format version ${version}, this program knows up to ${known}; use a newer leasehold`,
  IllegibleFormat: ({ detail, path }) =>
    `${path} cannot be read (${detail}); put it back from a copy, or remove it to have it made anew`,
  MalformedName: ({ name }) =>
    `${shown(name)} names no run: give an id, the beginning of one, "latest" or "latest:STATUS"`,
  NoSuchRun: ({ name }) => name === "latest" ? "there is no run in this store" : `no run ${shown(name)} in this store`,
  Archived: ({ id }) => `${id} has been archived; restore it first: leasehold restore ${id}`,
  NotInRun: ({ problem }) => `this process is in no run: ${problem}`,
  Ambiguous: ({ candidates, prefix }) =>
    `${shown(prefix)} is the beginning of several ids: ${candidates.join(", ")}; give more of one`,
  UnusableRecord: ({ error, id }) => `${id}: ${error.message}`,
  Trimmed: ({ id, paths }) =>
    `${id}: ${paths.join(", ")} was trimmed; if its program can make that again, say so: --rebuilds (rebuilds: true)`,
  NotCopied: ({ id, path, problem }) => `the artifacts of ${id} could not be copied: ${path}: ${problem}`,
  System: ({ errno }) => errno.message
})

/**
 * @category errors
 * @since 0.1.0
 */
export class StoreError extends Data.TaggedError("StoreError")<{ readonly reason: StoreReason }> {
  override get message() {
    return explain(this.reason)
  }
}

/**
 * What the system refused, as an error of the store.
 *
 * @internal
 */
export const orSystem = Effect.mapError((errno: Errno) => new StoreError({ reason: StoreReason.System({ errno }) }))

/** @internal */
export const unusable = (id: RunId, error: RecordError): StoreError =>
  new StoreError({ reason: StoreReason.UnusableRecord({ id, error }) })
