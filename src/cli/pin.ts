import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { RunId } from "../RunId.ts"
import { type RunRecord, timestamp } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { findRun, Json, runName, Store } from "./Context.ts"
import { printJson } from "./Output.ts"

const reason = Flag.String("reason").pipe(
  Flag.withAlias("r"),
  Flag.withDescription("Why, for whoever wonders later; without this, one that was given before stays"),
  Flag.optional,
  // As a script has it whose variable is not set; its run is to be kept all the same.
  Flag.map(Option.filter((text) => text !== ""))
)

const report = Effect.fnUntraced(function*(record: RunRecord) {
  if (yield* Json) return yield* printJson({ version: 1, id: record.id, pin: record.pin ?? null })
  yield* Console.log(`${record.id} ${record.pin === undefined ? "is not pinned" : "is pinned"}`)
})

/** A reason that somebody gave is not lost to who gives none. */
const pinWithoutReason = Effect.fnUntraced(function*(id: RunId) {
  const store = yield* RunStore
  const pin = { reason: "pinned by hand", at: timestamp(yield* DateTime.now) }
  const change = (record: RunRecord) => record.pin === undefined ? { ...record, pin } : record
  return yield* store.update(id, change, { fsync: true })
})

export const pin = Command.make("pin", { run: runName, reason }).pipe(
  Command.withDescription("Keep a run, whatever the policy says"),
  Command.withHandler(Effect.fn(function*({ reason, run }) {
    const store = yield* RunStore
    const { id } = yield* findRun(run)
    const pinned = Option.match(reason, {
      onNone: () => pinWithoutReason(id),
      onSome: (text) => store.pin(id, text)
    })
    yield* Effect.flatMap(pinned, report)
  })),
  Command.provide(Store)
)

export const unpin = Command.make("unpin", { run: runName }).pipe(
  Command.withDescription("Let the policy decide on a run again"),
  Command.withHandler(Effect.fn(function*({ run }) {
    const store = yield* RunStore
    const { id } = yield* findRun(run)
    yield* Effect.flatMap(store.unpin(id), report)
  })),
  Command.provide(Store)
)
