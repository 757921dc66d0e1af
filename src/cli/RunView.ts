/** A run as it is shown: what its record says, seen together with whether anybody works in it. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Liveness } from "../Liveness.ts"
import { describeLiveness } from "../Liveness.ts"
import type { RunRecord } from "../RunRecord.ts"
import * as RunStatus from "../RunStatus.ts"
import { type Entry, RunStore } from "../RunStore.ts"

export interface RunView {
  readonly entry: Entry
  readonly liveness: Liveness
}

export const statusOf = ({ entry, liveness }: RunView): RunStatus.ShownStatus => RunStatus.shown(entry.record, liveness)

export const look = (entry: Entry): Effect.Effect<RunView, never, RunStore> =>
  Effect.flatMap(RunStore, (store) => Effect.map(store.liveness(entry), (liveness) => ({ entry, liveness })))

/** True, false, or null where it cannot be told. */
const isLive = (liveness: Liveness): boolean | null => liveness._tag === "Unknown" ? null : liveness._tag === "Live"

/** What is wrong with a bundle, if anything is. */
export const problemOf = ({ entry, liveness }: RunView): string | undefined =>
  Result.isFailure(entry.record)
    ? entry.record.failure.message
    : liveness._tag === "Unknown"
    ? describeLiveness(liveness)
    : undefined

const orNull = <A>(value: A | undefined): A | null => value ?? null

/** One row of `ls --json`. */
export const listed = (view: RunView) => {
  const { entry, liveness } = view
  const record: RunRecord | undefined = Result.getOrUndefined(entry.record)
  return {
    id: entry.id,
    name: orNull(record?.name),
    status: RunStatus.recorded(entry.record, liveness),
    live: isLive(liveness),
    parent: orNull(record?.parent),
    startedAt: orNull(record?.startedAt),
    endedAt: orNull(record?.endedAt),
    pinned: record?.pin !== undefined,
    bytes: orNull(record?.bytes?.value),
    dir: entry.dir,
    ...(problemOf(view) === undefined ? {} : { problem: problemOf(view) })
  }
}

const states = { Live: "live", Dead: "dead", Unknown: "unknown" } as const

/** The answer to `show --json` on who works there. */
export const livenessDocument = (liveness: Liveness) => ({
  state: states[liveness._tag],
  reason: describeLiveness(liveness),
  holders: liveness._tag === "Live" ? liveness.holders : []
})
