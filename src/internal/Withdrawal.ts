/**
 * The one way on which a bundle that can be read leaves the store: what it has made outside is undone, and then it is
 * renamed into the trash, all of it under its claim.
 *
 * The record is read again before each step, since people pin a run without a lease: a pin stops what has not been
 * begun. The last look and the rename are one step, under the lock that every change of a record takes.
 */
import * as Effect from "effect/Effect"
import * as Holder from "../Holder.ts"
import type { Claim } from "../Lease.ts"
import { describe, type NotUndone, pending } from "../OnRemove.ts"
import type { Registered, RunRecord } from "../RunRecord.ts"
import * as ArchivePlace from "./ArchivePlace.ts"
import * as OutsideResources from "./OutsideResources.ts"
import * as RecordFile from "./RecordFile.ts"
import * as RecordLock from "./RecordLock.ts"
import * as Trash from "./Trash.ts"

/**
 * What came of it, with the record as it was then. `Late`: there was no time left for what had to be undone, and it was not
 * begun.
 *
 * @internal
 */
export type Ended<Stay> =
  | { readonly _tag: "Done"; readonly record: RunRecord }
  | { readonly _tag: "Stays"; readonly why: Stay }
  | { readonly _tag: "NotUndone"; readonly failures: ReadonlyArray<NotUndone> }
  | { readonly _tag: "Late" }

/** @internal */
export interface Options<Stay, E, R> {
  /** Asked of the record as it is, each time. What is pinned has to stay. */
  readonly stays: (record: RunRecord) => Effect.Effect<Stay | undefined, E, R>
  /** When all of it has to be over, in milliseconds since 1970. It is then also not waited long for others. */
  readonly until?: number | undefined
}

/**
 * What a record has that this program cannot undo. Nothing of such a bundle is undone, since it will not go.
 *
 * @internal
 */
export const notUndoable = (record: RunRecord): ReadonlyArray<NotUndone> =>
  pending(record).flatMap((registered) => OutsideResources.unknownKind(registered) ?? [])

const unwritten = (record: RunRecord): ReadonlyArray<NotUndone> =>
  pending(record).map((registered) => ({
    id: registered.id,
    what: describe(registered),
    message: "was undone, and that could not be written down"
  }))

/** Undoes one thing after another; the last step is made under the lock under which nothing was found to be left. */
const leave = <Stay, E, R, E2>(
  root: string,
  claim: Claim,
  { stays, until }: Options<Stay, E, R>,
  last: (record: RunRecord) => Effect.Effect<Ended<Stay>, E2>
) =>
  Effect.scoped(Effect.gen(function*() {
    const { dir } = claim.target
    const done = new Set<string>()

    const step = Effect.scoped(Effect.gen(function*() {
      yield* RecordLock.takeIfOpen(dir, { brief: until !== undefined })
      const record = yield* Effect.fromResult(yield* RecordFile.read(dir))
      const why = yield* stays(record)
      if (why !== undefined) return { _tag: "Stays", why } as const
      const failures = notUndoable(record)
      if (failures.length > 0) return { _tag: "NotUndone", failures } as const
      const next: Registered | undefined = pending(record).find((registered) => !done.has(registered.id))
      if (next !== undefined) return { _tag: "Undo", next } as const
      return yield* last(record)
    }))

    for (let nth = 0;; nth++) {
      const made = yield* step
      if (made._tag !== "Undo") return made satisfies Ended<Stay>
      // It takes long.
      if (nth === 0 && !claim.announced) yield* Effect.ignore(Holder.announceClaim(dir))
      const outcome = yield* OutsideResources.undo({ root, claim, until }, made.next)
      if (outcome === "late") return { _tag: "Late" } as const
      if (outcome !== undefined) return { _tag: "NotUndone", failures: [outcome] } as const
      done.add(made.next.id)
    }
  }))

/**
 * Undoes what a run has made outside of its bundle, and has all of it written down: an archive of it is all that is left to
 * say so.
 *
 * @internal
 */
export const undoAll = <Stay, E, R>(root: string, claim: Claim, options: Options<Stay, E, R>) =>
  leave(root, claim, options, (record) =>
    Effect.succeed<Ended<Stay>>(
      pending(record).length === 0 ? { _tag: "Done", record } : { _tag: "NotUndone", failures: unwritten(record) }
    ))

/**
 * Takes a bundle out of the store, or says why it stays. One that is `archived` leaves its archive there; else what a crash
 * has left of an archive beside it goes with it.
 *
 * @internal
 */
export const withdraw = <Stay, E, R>(
  root: string,
  claim: Claim,
  { archived, ...options }: Options<Stay, E, R> & { readonly archived?: boolean | undefined }
) =>
  leave(
    root,
    claim,
    options,
    Effect.fnUntraced(function*(record) {
      const { dir, id } = claim.target
      // First, so that whoever is killed in between has removed nothing. A bundle with the record of another run is none
      // of this one's, and an archive beside it may be all that is left.
      if (archived !== true && record.id === id) yield* ArchivePlace.discard(root, id)
      yield* Trash.put(root, dir, id)
      // Last, since a bundle that stays is as young as it was. Nobody restores the run yet: where it has an archive by
      // now, that is locked.
      if (record.id === id) yield* ArchivePlace.unmark(root, id)
      return { _tag: "Done", record } satisfies Ended<Stay>
    })
  )
