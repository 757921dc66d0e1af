import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import type { RunRecord } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { findRun, Json, runName, Store } from "./Context.ts"
import { printJson } from "./Output.ts"

const noReason = "pinned by hand"

const reason = Flag.String("reason").pipe(
  Flag.withAlias("r"),
  Flag.withDescription("Why, for whoever wonders later"),
  Flag.withDefault(noReason),
  // As a script has it whose variable is not set; its run is to be kept all the same.
  Flag.map((text) => text === "" ? noReason : text)
)

const report = Effect.fnUntraced(function*(record: RunRecord) {
  if (yield* Json) return yield* printJson({ version: 1, id: record.id, pin: record.pin ?? null })
  yield* Console.log(`${record.id} ${record.pin === undefined ? "is not pinned" : "is pinned"}`)
})

export const pin = Command.make("pin", { run: runName, reason }).pipe(
  Command.withDescription("Keep a run, whatever the policy says"),
  Command.withHandler(Effect.fn(function*({ reason, run }) {
    const store = yield* RunStore
    const { id } = yield* findRun(run)
    yield* Effect.flatMap(store.pin(id, reason), report)
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
