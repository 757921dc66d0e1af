import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as Documents from "../Documents.ts"
import { describeAll } from "../Holder.ts"
import { LeaseError, LeaseReason } from "../Lease.ts"
import * as Recovery from "../Recovery.ts"
import type { StoreError } from "../StoreError.ts"
import { Json, Store } from "./Context.ts"
import { ExitWith } from "./ExitCode.ts"
import { harmless, paint, printJson, warn } from "./Output.ts"
import { exitBy, findAll, runNames } from "./Several.ts"

type Outcome = Recovery.Recovered

/** What a person is told; of runs that have ended only who asked for them by name. */
const say = (outcome: Outcome, isNamed: boolean): Effect.Effect<void> => {
  switch (outcome._tag) {
    case "Recovered":
      return Console.log(`recovered ${outcome.id}: it had crashed`)
    case "Live":
      return Console.log(harmless(`live ${outcome.id}: in use by ${describeAll(outcome.holders)}`))
    case "Unknown":
      return Console.log(paint("red", harmless(`unknown ${outcome.id}: ${outcome.reason}`)))
    case "Ended":
      return isNamed ? Console.log(`ended ${outcome.id}: ${outcome.status}, nothing to recover`) : Effect.void
    case "Gone":
      return isNamed ? warn(`${outcome.id} has been removed`) : Effect.void
    case "Failed":
      return warn(outcome.error.message)
  }
}

const only = <const Tag extends Outcome["_tag"]>(outcomes: ReadonlyArray<Outcome>, tag: Tag) =>
  outcomes.filter((outcome): outcome is Extract<Outcome, { readonly _tag: Tag }> => outcome._tag === tag)

interface Missing {
  readonly name: string
  readonly error: StoreError
}

const documentOf = (
  outcomes: ReadonlyArray<Outcome>,
  missing: ReadonlyArray<Missing>
): typeof Documents.Recover.Type => ({
  version: 1,
  recovered: only(outcomes, "Recovered").map(({ id }) => ({ id })),
  live: only(outcomes, "Live").map(({ holders, id }) => ({ id, holders })),
  unknown: only(outcomes, "Unknown").map(({ id, reason }) => ({ id, reason })),
  failed: [
    ...missing.map(({ error, name }) => ({ id: name, reason: error.message })),
    ...only(outcomes, "Failed").map(({ error, id }) => ({ id, reason: error.message }))
  ]
})

/** Whoever names a run wants it recovered; of all of them those that are at work are no failure. */
const errorOf = (outcome: Outcome, isNamed: boolean): ReadonlyArray<unknown> => {
  if (outcome._tag === "Failed") return [outcome.error]
  if (!isNamed) return []
  if (outcome._tag === "Unknown") return [new ExitWith(1)]
  const { id } = outcome
  if (outcome._tag === "Live") {
    return [new LeaseError({ id, reason: LeaseReason.Held({ holders: outcome.holders }) })]
  }
  return outcome._tag === "Gone" ? [new LeaseError({ id, reason: LeaseReason.RunGone() })] : []
}

const counts = (outcomes: ReadonlyArray<Outcome>) =>
  (["Recovered", "Live", "Unknown", "Failed"] as const).map((tag) =>
    `${only(outcomes, tag).length} ${tag.toLowerCase()}`
  )
    .join(", ")

export const recover = Command.make("recover", { runs: runNames({ min: 0 }) }).pipe(
  Command.withDescription("Bring the records of crashed runs to their end; of all runs, or of those named"),
  Command.withHandler(Effect.fn(function*({ runs }) {
    const isJson = yield* Json
    const isNamed = runs.length > 0
    const { entries, missing } = yield* findAll(runs)
    if (!isJson) yield* Effect.forEach(missing, ({ error }) => warn(error.message))
    const recovering = isNamed
      ? Stream.mapEffect(Stream.fromIterable(entries), Recovery.recoverEntry)
      : Recovery.recoverAll
    const outcomes = yield* recovering.pipe(
      Stream.tap((outcome) => isJson ? Effect.void : say(outcome, isNamed)),
      Stream.filter((outcome) => isNamed || outcome._tag !== "Ended"),
      Stream.runCollect
    )
    yield* isJson ? printJson(documentOf(outcomes, missing)) : Console.error(counts(outcomes))
    yield* exitBy([
      ...missing.map(({ error }) => error),
      ...outcomes.flatMap((outcome) => errorOf(outcome, isNamed))
    ])
  })),
  Command.provide(Store)
)
