import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { RunRecord } from "../RunRecord.ts"
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

export const pin = Command.make("pin", { run: runName, reason }).pipe(
  Command.withDescription("Keep a run, whatever the policy says"),
  Command.withHandler(Effect.fn(function*({ reason, run }) {
    const store = yield* RunStore
    const { id } = yield* findRun(run)
    yield* report(yield* store.pin(id, Option.getOrUndefined(reason)), "pinned")
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
