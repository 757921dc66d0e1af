import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Documents from "../Documents.ts"
import type { RunId } from "../RunId.ts"
import * as RunRemoval from "../RunRemoval.ts"
import { RunStore } from "../RunStore.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { formatBytes } from "../Units.ts"
import { Json, Store } from "./Context.ts"
import { harmless, printJson, warn } from "./Output.ts"
import { errorName, exitBy, type Failed, findAll, runNames } from "./Several.ts"

interface Failure {
  readonly name: string
  readonly error: Failed
}

const removeAll = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  const { entries, missing } = yield* findAll(names)
  const isJson = yield* Json
  const removed: Array<{ readonly id: RunId }> = []
  const failures: Array<Failure> = []
  const fail = (failure: Failure) => {
    failures.push(failure)
    return isJson ? Effect.void : warn(harmless(failure.error.message))
  }
  yield* Effect.forEach(missing, fail)
  for (const { id } of entries) {
    const outcome = yield* Effect.result(RunRemoval.remove(id))
    if (Result.isFailure(outcome)) {
      yield* fail({ name: id, error: outcome.failure })
      continue
    }
    removed.push({ id })
    if (!isJson) yield* Console.log(`removed ${id}`)
  }
  return { removed, failures }
})

export const rm = Command.make("rm", { runs: runNames({ min: 1 }) }).pipe(
  Command.withDescription("Remove runs that nobody works in and nobody has pinned, and give their space back"),
  Command.withHandler(Effect.fn(function*({ runs }) {
    const { root } = yield* RunStore
    const { failures, removed } = yield* removeAll(runs)
    // However long it takes: whoever names a run wants its space back.
    const swept = removed.length === 0 ? undefined : yield* TrashSweep.sweepAll(root)
    const freedBytes = swept?.freedBytes ?? 0
    const undeleted = swept?.failed ?? []
    if (yield* Json) {
      const failed = failures.map(({ error, name }) => ({ id: name, error: errorName(error), message: error.message }))
      yield* printJson({ version: 1, removed, failed, undeleted, freedBytes } satisfies typeof Documents.Rm.Type)
    } else {
      for (const { path, reason } of undeleted) yield* warn(harmless(`${path} could not be deleted: ${reason}`))
      if (removed.length > 0) yield* Console.error(`${formatBytes(freedBytes)} given back`)
    }
    yield* exitBy(failures.map(({ error }) => error))
  })),
  Command.provide(Store)
)
