import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
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

const report = Effect.fnUntraced(function*({ id, pin }: RunRecord, state: string) {
  if (yield* Json) return yield* printJson({ version: 1, id, pin: pin ?? null })
  yield* Console.log(`${id} is ${state}`)
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
    yield* report(yield* pinned, "pinned")
  })),
  Command.provide(Store)
)

export const unpin = Command.make("unpin", { run: runName }).pipe(
  Command.withDescription("Let the policy decide on a run again"),
  Command.withHandler(Effect.fn(function*({ run }) {
    const store = yield* RunStore
    const { id, record } = yield* findRun(run)
    const hadPin = Result.isSuccess(record) && record.success.pin !== undefined
    yield* report(yield* store.unpin(id), hadPin ? "not pinned any more" : "not pinned")
  })),
  Command.provide(Store)
)
