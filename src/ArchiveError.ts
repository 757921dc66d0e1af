/**
 * Why a run was not archived, or an archive not restored. Whatever the reason, what was there before is there still.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type { Errno } from "./internal/Errno.ts"
import { explainAstray, explainPin } from "./internal/Refusal.ts"
import { describeFailures, type NotUndone } from "./OnRemove.ts"
import type { RunId } from "./RunId.ts"
import { version as knownVersion } from "./RunRecord.ts"

/**
 * @category errors
 * @since 0.1.0
 */
export type ArchiveReason = Data.TaggedEnum<{
  /** Somebody ordered the run to be kept. */
  Pinned: { readonly reason: string }
  /** What the run has made outside of its bundle could not be undone. */
  NotUndone: { readonly failures: ReadonlyArray<NotUndone> }
  /** There was no time left for what had to be undone, and it was not begun; or not enough to pack it. */
  Late: {}
  /** Something in the bundle could not be given back by any archive. */
  NotPackable: { readonly path: string; readonly why: string }
  /** The record was changed while the bundle was packed. */
  Changed: {}
  /** Another process archives, restores or removes just this one. */
  Busy: {}
  /** The bundle is in the store, so there is nothing to restore. */
  Present: {}
  /** Something in the archive must not be unpacked; nothing of it was. */
  Unsafe: { readonly name: string; readonly why: string }
  /** The archive is not what was written. */
  Corrupt: { readonly path: string; readonly detail: string }
  /** The record in the archive belongs to a newer Leasehold. */
  NewerVersion: { readonly version: number }
  /** On the way to the archive, or to the bundle, lies something that leads out of the store. */
  Astray: { readonly path: string; readonly kind: string }
  /** The system refused something. */
  System: { readonly errno: Errno }
}>

/**
 * @category errors
 * @since 0.1.0
 */
export const ArchiveReason = Data.taggedEnum<ArchiveReason>()

const shown = (name: string) => JSON.stringify(name.length > 100 ? `${name.slice(0, 97)}...` : name)

const explain = (id: RunId) =>
  ArchiveReason.$match({
    Pinned: ({ reason }) => explainPin(id, reason),
    NotUndone: ({ failures }) =>
      `${describeFailures(failures)}; see to that, and archive the run again: leasehold archive ${id}`,
    Late: () => "there is not enough time left to archive it",
    NotPackable: ({ path, why }) => `${shown(path)} cannot be archived: ${why}; the run stays as it is`,
    Changed: () => "its record was changed while it was archived; the run stays as it is",
    Busy: () => "another process is archiving, restoring or removing it; try again",
    Present: () => "is in the store and has not been archived",
    Unsafe: ({ name, why }) =>
      `its archive is not safe to unpack: ${shown(name)}: ${why}; nothing was unpacked` +
      (why.includes("a link that leads out") ? `; if that is meant: leasehold restore --links-out ${id}` : ""),
    Corrupt: ({ detail, path }) =>
      `${path} is damaged: ${detail}; put a copy of it back, or remove it: leasehold rm ${id}`,
    NewerVersion: ({ version }) =>
      `the record in its archive has format version ${version}, this program knows up to ${knownVersion}; use a newer leasehold`,
    Astray: ({ kind, path }) => explainAstray(path, kind),
    System: ({ errno }) => errno.message
  })

/**
 * @category errors
 * @since 0.1.0
 */
export class ArchiveError extends Data.TaggedError("ArchiveError")<{
  readonly id: RunId
  readonly reason: ArchiveReason
}> {
  override get message() {
    return `${this.id}: ${explain(this.id)(this.reason)}`
  }
}
