import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { describe } from "../Holder.ts"
import { commandLine } from "../internal/ShellWords.ts"
import * as Signals from "../internal/Signals.ts"
import * as Retention from "../Retention.ts"
import { defaultBudget } from "../RetentionBudget.ts"
import { reasonText, whyText } from "../RetentionReason.ts"
import type { PassEvent, Report } from "../RetentionReport.ts"
import { untilPaid } from "../RetentionRounds.ts"
import * as SqliteIndex from "../SqliteIndex.ts"
import { BytesFromText, DurationFromText, formatBytes, formatDuration } from "../Units.ts"
import { AllowTemp, Json, Root, Store } from "./Context.ts"
import { ExitWith } from "./ExitCode.ts"
import { harmless, paint, printJson } from "./Output.ts"
import { policyFlags, policyOf } from "./PolicyFlags.ts"
import * as Progress from "./Progress.ts"
import { sheet } from "./Table.ts"

const bound = (name: string, description: string, fallback: number) =>
  Flag.Int(name).pipe(
    Flag.withSchema(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
    Flag.withDescription(`${description} (default ${fallback})`),
    Flag.withDefault(fallback)
  )

const flags = {
  ...policyFlags,
  dryRun: Flag.Boolean("dry-run").pipe(
    Flag.withAlias("n"),
    Flag.withDescription("Say what would go, and write nothing"),
    Flag.withDefault(false)
  ),
  allTheWay: Flag.Boolean("all-the-way").pipe(
    Flag.withDescription("Go on until no debt is left"),
    Flag.withDefault(false)
  ),
  maxLooked: bound("max-looked", "Runs to look at in one pass", defaultBudget.maxLooked),
  maxRemoved: bound("max-removed", "Runs to remove in one pass", defaultBudget.maxRemoved),
  maxUnlinked: bound("max-unlinked", "Files to delete in one pass", defaultBudget.maxUnlinked),
  maxPacked: Flag.String("max-packed").pipe(
    Flag.withMetavar("SIZE"),
    Flag.withSchema(BytesFromText),
    Flag.withDescription(`The size of what one pass may archive (default ${formatBytes(defaultBudget.maxPacked)})`),
    Flag.withDefault(defaultBudget.maxPacked)
  ),
  maxTime: Flag.String("max-time").pipe(
    Flag.withMetavar("AGE"),
    Flag.withSchema(DurationFromText),
    Flag.withDescription(`The time for one pass (default ${String(defaultBudget.maxTime)})`),
    Flag.optional
  )
}

/** What a person is told of one bundle. */
const line = (event: PassEvent, dryRun: boolean): string | undefined => {
  switch (event._tag) {
    case "Removed": {
      const bytes = event.bytes === undefined ? "" : ` (${formatBytes(event.bytes)})`
      return `${dryRun ? "would remove" : "removed"} ${event.id}: ${reasonText(event.reason)}${bytes}`
    }
    case "Recovered":
      return `${dryRun ? "would recover" : "recovered"} ${event.id}: it had crashed`
    case "Trimmed":
    case "Archived": {
      const verb = event._tag === "Trimmed" ? ["trim", "trimmed"] : ["archive", "archived"]
      const bytes = event.bytes === undefined ? "" : ` (${formatBytes(event.bytes)})`
      return harmless(`${dryRun ? `would ${verb[0]}` : verb[1]} ${event.id}: ${reasonText(event.reason)}${bytes}`)
    }
    case "Expired":
      return `${dryRun ? "would remove" : "removed"} the archive of ${event.id}: ${event.reason} (${
        formatBytes(event.bytes)
      })`
    case "Kept": {
      const holders = event.holders.length === 0 ? "" : `, held by ${event.holders.map(describe).join(", ")}`
      return harmless(
        `kept ${event.id}: ${whyText(event.reason)}${holders}${event.clockAhead ? ", clock ahead" : ""}`
      )
    }
    case "Failed":
      return paint("red", harmless(`failed ${event.id}: ${event.reason}`))
    case "Swept":
      return undefined
  }
}

const inWords = (reason: string) => reason.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

const counts = (reasons: Readonly<Record<string, number>>) =>
  Object.entries(reasons).map(([reason, count]) => `${count} ${inWords(reason)}`).join(", ")

const some = (list: ReadonlyArray<unknown>) => list.length === 0 ? "" : String(list.length)

const summary = (report: Report): Effect.Effect<string> => {
  const { debt, dryRun, failed, kept, recovered, removed } = report
  return sheet([
    ["policy", report.policy],
    dryRun
      ? ["would remove", String(removed.length)]
      : ["removed", `${removed.length}, ${formatBytes(report.freedBytes)} given back`],
    ["kept", counts(kept)],
    ["recovered", some(recovered)],
    [dryRun ? "would trim" : "trimmed", some(report.trimmed)],
    [dryRun ? "would archive" : "archived", some(report.archived)],
    [dryRun ? "would remove archives" : "removed archives", some(report.expired)],
    ["failed", some(failed)],
    ["debt", debt === null ? "" : counts(debt.reasons)],
    ["to pay it", debt === null ? "" : debt.pay],
    ["took", formatDuration(report.elapsedMs)]
  ])
}

/** The command that pays the debt, for the store that was named here. */
const inThisStore = Effect.fnUntraced(function*(report: Report) {
  const root = Option.match(yield* Root, { onNone: () => [], onSome: (path) => ["--root", path] })
  const words = [...root, ...((yield* AllowTemp) ? ["--allow-temp"] : [])]
  const { debt } = report
  return debt === null || words.length === 0
    ? report
    : { ...report, debt: { ...debt, pay: `${debt.pay} ${commandLine(words)}` } }
})

/** A signal ends the pass at a safe point, and what it did so far is said. */
const stoppedBySignal = Effect.gen(function*() {
  const stop = yield* Deferred.make<void>()
  yield* Signals.listen((signal) => {
    if (Deferred.isDoneUnsafe(stop)) process.exit(Signals.exitCode(signal))
    Deferred.doneUnsafe(stop, Effect.void)
  })
  return stop
})

export const prune = Command.make("prune", flags).pipe(
  Command.withDescription("Remove what the policy no longer wants and nobody holds"),
  Command.withHandler(Effect.fn(function*(given) {
    const policy = yield* policyOf(given)
    const isJson = yield* Json
    const { dryRun } = given
    const pass = yield* Effect.scoped(Effect.gen(function*() {
      const stop = Deferred.await(yield* stoppedBySignal)
      const progress = yield* Progress.make
      const onEvent = Effect.fnUntraced(function*(event: PassEvent) {
        const text = isJson ? undefined : line(event, dryRun)
        if (text !== undefined) yield* progress.above(Console.log(text))
        yield* progress.take(event)
      })
      const { maxLooked, maxPacked, maxRemoved, maxUnlinked } = given
      const maxTime = Option.getOrElse(given.maxTime, () => defaultBudget.maxTime)
      const budget = { maxLooked, maxRemoved, maxUnlinked, maxPacked, maxTime }
      const options: Retention.Options = { policy, budget, dryRun, stop, onEvent }
      return yield* (given.allTheWay ? untilPaid(options) : Retention.run(options))
    }))
    const report = yield* inThisStore(pass)
    if (isJson) yield* printJson({ version: 1, ...report })
    else if (report.otherPass) yield* Console.error("another pass is at work in this store")
    else yield* Console.error(yield* summary(report))
    const signal = Signals.received()
    if (report.stopped && signal !== undefined) return yield* Effect.fail(new ExitWith(Signals.exitCode(signal)))
    if (report.debt !== null && !dryRun && !report.otherPass) return yield* Effect.fail(new ExitWith(3))
  })),
  Command.provide(Layer.provideMerge(SqliteIndex.layer, Store))
)
