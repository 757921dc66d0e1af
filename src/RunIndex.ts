/**
 * The index: a cache that tells retention where to look, so that a pass costs the same in a store of twenty bundles and
 * of a million.
 *
 * Guarantees. It is safe to delete at any time. It never decides: whatever it says of a bundle is read again under the
 * claim before anything is done. It is believed only while it is, to the byte, what the last pass left; an index that is
 * missing, damaged, locked, of a newer format, or changed by anybody else is set aside and filled anew, some of it with
 * each pass. Where none can be written, on a full disk or a read-only one, a pass works with one in memory.
 *
 * What is known in part leads to fewer removals than what is known in full, never to others: days are listed oldest
 * first, so that the oldest bundles are among those known.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { RunId } from "./RunId.ts"
import type { Status, Tags } from "./RunRecord.ts"

/**
 * What is known of a bundle. `listed` ones have been seen by name only; their end is taken to be their start.
 *
 * @category models
 * @since 0.1.0
 */
export interface Row {
  readonly id: RunId
  readonly state: "listed" | "running" | "finished" | "unknown"
  readonly name: string
  readonly status: Status | "unknown"
  readonly tags: Tags
  readonly pin: string | undefined
  /** Milliseconds since 1970: the end by the record, or the best evidence of it; the start where nothing is known. */
  readonly endedAt: number
  /** When a pass first saw that it had ended. */
  readonly firstSeenEnded: number | undefined
  readonly bytes: number | undefined
  /** What is wrong with it, if it is `unknown`. */
  readonly problem: string | undefined
  /** What the file of its record looked like, if that is what is wrong: while it looks so it need not be read again. */
  readonly stamp: string | undefined
  /** How often an attempt to remove it has failed. */
  readonly failures: number
  /** Whether it has been trimmed, by the globs that were asked for last; of those that are not the record is asked. */
  readonly trimmed: boolean
  /** When a pass last read it; 0 for never. */
  readonly lookedAt: number
}

/**
 * A day directory as it was when it was last listed. `settled` is false for one whose mtime may not tell of a change,
 * having moved within the clock's grain of the listing.
 *
 * @category models
 * @since 0.1.0
 */
export interface Day {
  readonly day: string
  readonly mtimeNanos: bigint
  readonly settled: boolean
}

/**
 * A day directory of the archive, and what its archives sum up to.
 *
 * @category models
 * @since 0.1.0
 */
export interface ArchiveDay extends Day {
  readonly archives: number
  readonly bytes: number
}

/**
 * A place in the order of ends.
 *
 * @category models
 * @since 0.1.0
 */
export interface Position {
  readonly endedAt: number
  readonly id: string
}

/**
 * Where a row stands in the order of ends: one that claims to end in the future stands where a pass first saw it ended.
 *
 * @category getters
 * @since 0.1.0
 */
export const position = ({ endedAt, firstSeenEnded, id }: Row): Position => ({
  endedAt: Math.min(endedAt, firstSeenEnded ?? endedAt),
  id
})

/**
 * @category models
 * @since 0.1.0
 */
export interface Totals {
  readonly bundles: number
  /** Bundles that claim to end after `now`, which take nobody's place in a count. */
  readonly ahead: number
  readonly bytes: number
  /** Finished bundles whose size nobody has measured. */
  readonly unmeasured: number
}

/**
 * The index could not be used any further; what was written in this session is void.
 *
 * @category errors
 * @since 0.1.0
 */
export class IndexBroken extends Data.TaggedError("IndexBroken")<{ readonly cause: unknown }> {
  override get message() {
    return `the index cannot be used: ${this.cause instanceof Error ? this.cause.message : String(this.cause)}`
  }
}

type Answer<A> = Effect.Effect<A, IndexBroken>

/**
 * One pass's use of the index, as a single transaction: nothing is there for others until `commit`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Session {
  /** `file` is the index of the store; `memory` one that ends with the session, and why. */
  readonly kind: { readonly _tag: "file" } | { readonly _tag: "memory"; readonly reason: string }
  readonly days: Answer<ReadonlyArray<Day>>
  /** Takes what a listing of a day directory found: new ids become `listed` rows, those that have gone go. */
  readonly putDay: (day: Day, ids: ReadonlySet<RunId>) => Answer<void>
  /** The directory has gone, and everything in it. */
  readonly dropDay: (day: string) => Answer<void>
  readonly totals: (now: number) => Answer<Totals>
  readonly get: (id: RunId) => Answer<Row | undefined>
  /** Rows that are not `finished`, those never looked at first, then the longest unseen; newest first among equals. */
  readonly unsettled: (limit: number) => Answer<ReadonlyArray<Row>>
  /** Rows of every state in the order of ends, from behind a position on. */
  readonly oldest: (after: Position | undefined, limit: number) => Answer<ReadonlyArray<Row>>
  /** Finished rows that ended before an instant (exclusive), newest first. */
  readonly newestFinished: (before: number, limit: number) => Answer<ReadonlyArray<Row>>
  /** Finished rows that nobody has measured, newest first. */
  readonly unmeasured: (limit: number) => Answer<ReadonlyArray<Row>>
  /**
   * Finished rows that are not known to have been trimmed by these globs, in the order of ends, from behind a position
   * on. `key` stands for the globs: with another one all of them count as untrimmed.
   */
  readonly untrimmed: (key: string, after: Position | undefined, limit: number) => Answer<ReadonlyArray<Row>>
  readonly archiveDays: Answer<ReadonlyArray<ArchiveDay>>
  readonly putArchiveDay: (day: ArchiveDay) => Answer<void>
  readonly dropArchiveDay: (day: string) => Answer<void>
  /** Every row, for rules that compare each with each. */
  readonly all: Answer<ReadonlyArray<Row>>
  readonly put: (row: Row) => Answer<void>
  readonly remove: (id: RunId) => Answer<void>
  /** How many bundles are `unknown`. */
  readonly unknowns: Answer<number>
  /** How many are not known to have finished, and how many of those nobody has read. */
  readonly unfinished: Answer<{ readonly all: number; readonly unread: number }>
  readonly count: (where: { readonly endedBefore: number }, atMost: number) => Answer<number>
  /** Makes the session's work the index, and remembers what it looks like. */
  readonly commit: Answer<void>
}

/**
 * @category services
 * @since 0.1.0
 */
export class RunIndex extends Context.Service<RunIndex, {
  /**
   * Opens the index for one pass, whose lock the caller holds. With `dryRun` nothing at all is written, whatever the
   * session is told. Never fails: where the file cannot be used the session is in memory.
   */
  readonly open: (options: { readonly dryRun: boolean }) => Effect.Effect<Session, never, Scope.Scope>
  /** Puts the index out of the way, so that the next pass begins a new one. Never fails. */
  readonly setAside: Effect.Effect<void>
}>()("leasehold/RunIndex") {}
