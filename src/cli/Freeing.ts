/** What commands that take something away from runs have in common: one run after another, then their space back. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { RunId } from "../RunId.ts"
import { RunStore } from "../RunStore.ts"
import * as TrashSweep from "../TrashSweep.ts"
import { formatBytes } from "../Units.ts"
import { Json } from "./Context.ts"
import { printJson, warn } from "./Output.ts"
import { errorName, exitBy, type Failed, findAll } from "./Several.ts"

interface Failure<E> {
  readonly name: string
  readonly error: E
}

/** What was done, in the order in which it was asked for, and what was not. */
export interface Done<A, E> {
  readonly done: ReadonlyArray<A>
  readonly failures: ReadonlyArray<Failure<E>>
}

/** Takes from each run that is named, and says of each what came of it. */
export const takeFromAll = Effect.fnUntraced(function*<A, E extends Failed, R>(
  names: ReadonlyArray<string>,
  take: (id: RunId) => Effect.Effect<A, E, R>,
  describe: (taken: A) => string,
  options?: { readonly archived?: boolean }
) {
  const { ids, missing } = yield* findAll(names, options)
  const isJson = yield* Json
  const done: Array<A> = []
  const failures: Array<Failure<E | (typeof missing)[number]["error"]>> = []
  const fail = (failure: (typeof failures)[number]) => {
    failures.push(failure)
    return isJson ? Effect.void : warn(failure.error.message)
  }
  yield* Effect.forEach(missing, fail)
  for (const id of ids) {
    const outcome = yield* Effect.result(take(id))
    if (Result.isFailure(outcome)) {
      yield* fail({ name: id, error: outcome.failure })
      continue
    }
    done.push(outcome.success)
    if (!isJson) yield* Console.log(describe(outcome.success))
  }
  return { done, failures }
})

/** What every document of such a command has beside its version and what was done. */
interface Rest {
  readonly failed: ReadonlyArray<{ readonly id: string; readonly error: string; readonly message: string }>
  readonly undeleted: ReadonlyArray<TrashSweep.SweepFailure>
  readonly freedBytes: number
}

/** Gives back the space of what was taken, however long it takes: whoever names a run wants it. */
export const giveBack = Effect.fnUntraced(function*<A, E extends Failed>(
  { done, failures }: Done<A, E>,
  options: {
    readonly tookAny: boolean
    /** What has been given back already. */
    readonly freedBytes?: number
    readonly document: (done: ReadonlyArray<A>, rest: Rest) => object
  }
) {
  const { root } = yield* RunStore
  const swept = options.tookAny ? yield* TrashSweep.sweepAll(root) : undefined
  const freedBytes = (options.freedBytes ?? 0) + (swept?.freedBytes ?? 0)
  const undeleted = swept?.failed ?? []
  if (yield* Json) {
    const failed = failures.map(({ error, name }) => ({ id: name, error: errorName(error), message: error.message }))
    yield* printJson(options.document(done, { failed, undeleted, freedBytes }))
  } else {
    for (const { path, reason } of undeleted) yield* warn(`${path} could not be deleted: ${reason}`)
    if (options.tookAny) yield* Console.error(`${formatBytes(freedBytes)} given back`)
  }
  yield* exitBy(failures.map(({ error }) => error))
})
