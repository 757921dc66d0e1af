/** What commands that take several runs have in common: what fails for one is said, and done for the others. */
import * as Argument from "effect/cli/Argument"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { RunId } from "../RunId.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import { runName } from "./Context.ts"
import * as ExitCode from "./ExitCode.ts"

/** Runs as people name them; where none has to be named, none stands for all. */
export const runNames = (options: { readonly min: 0 | 1 }) => runName.pipe(Argument.variadic({ min: options.min }))

/** Our errors, each of which has a reason of its own. */
export interface Failed {
  readonly _tag: string
  readonly reason: { readonly _tag: string }
  readonly message: string
}

/** The name that an error also has on standard error under `--json`. */
export const errorName = ({ _tag, reason }: Failed): string => `${_tag}.${reason._tag}`

export interface Found {
  /** Each run once, however often it was named. */
  readonly entries: ReadonlyArray<Entry>
  /** Those of the entries, and of what was found in the archive. */
  readonly ids: ReadonlyArray<RunId>
  readonly missing: ReadonlyArray<{ readonly name: string; readonly error: StoreError }>
}

/**
 * Finds all runs before anything is done to one: what is `latest` must not depend on what happened to the last. With
 * `archived`, those that have been archived are found as well.
 */
export const findAll = Effect.fnUntraced(function*(
  names: ReadonlyArray<string>,
  options?: { readonly archived?: boolean }
) {
  const store = yield* RunStore
  const entries = new Map<RunId, Entry>()
  const ids = new Set<RunId>()
  const missing: Array<Found["missing"][number]> = []
  for (const name of names) {
    const found = yield* Effect.result(store.find(name))
    if (Result.isSuccess(found)) {
      entries.set(found.success.id, found.success)
      ids.add(found.success.id)
      continue
    }
    const { reason } = found.failure
    if (options?.archived === true && reason._tag === "Archived") ids.add(reason.id)
    else missing.push({ name, error: found.failure })
  }
  return { entries: [...entries.values()], ids: [...ids], missing } satisfies Found
})

/**
 * Being held comes before not being there, since trying again helps with it. Names that make no sense are wrong usage
 * only where nothing else went wrong.
 */
const exitCodeOf = (errors: ReadonlyArray<unknown>): number => {
  const codes = new Set(errors.map(ExitCode.of))
  if (codes.size === 0) return 0
  const [only = 1] = codes
  return codes.size === 1 ? only : [4, 5].find((code) => codes.has(code)) ?? 1
}

/** Ends the command with what its failures amount to; each has been said. */
export const exitBy = (errors: ReadonlyArray<unknown>): Effect.Effect<void, ExitCode.ExitWith> => {
  const code = exitCodeOf(errors)
  return code === 0 ? Effect.void : Effect.fail(new ExitCode.ExitWith(code))
}
