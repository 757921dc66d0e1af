import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { replacement } from "../Redaction.ts"
import * as Run from "../Run.ts"
import type { RunRecord } from "../RunRecord.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import { orSystem, StoreError, StoreReason } from "../StoreError.ts"
import { findRun, runName, Store } from "./Context.ts"
import { UsageError } from "./ExitCode.ts"
import { checkJob, commandAfterDashes, job, jobFlags, noTelemetry, retentionFlag, retentionOf } from "./Job.ts"
import { mark } from "./Mark.ts"
import { harmless, warn } from "./Output.ts"

/** The recorded command, where it can be run again as it was: what was redacted is not known any more. */
const recordedCommand = Effect.fnUntraced(function*({ command, id }: RunRecord) {
  if (command === undefined) return yield* Effect.fail(new UsageError(`${id} has no command; give one after --`))
  if (command.argv.some((word) => word.includes(replacement))) {
    return yield* Effect.fail(new UsageError(`the command of ${id} had secrets in it; give it again after --`))
  }
  return command
})

/** A line in what is kept, so that one attempt can be told from another. */
const markAttempt = Effect.flatMap(
  DateTime.now,
  (now) => orSystem(mark(["stdout.log", "stderr.log"], `resumed ${DateTime.formatIso(now)}`))
)

const rebuilds = Flag.Boolean("rebuilds").pipe(
  Flag.withDescription("The command makes again what was trimmed; a trimmed run is refused without this"),
  Flag.withDefault(false)
)

const fork = Flag.Boolean("fork").pipe(
  Flag.withDescription("Start a new run from its artifacts, and leave it as it is; it may be at work"),
  Flag.withDefault(false)
)

const flags = { run: runName, fork, rebuilds, ...jobFlags, retention: retentionFlag, command: commandAfterDashes(0) }

/** What a live run writes while it is copied may be in the copy or not. */
const sayIfLive = Effect.fnUntraced(function*(entry: Entry) {
  const store = yield* RunStore
  const liveness = yield* store.liveness(entry)
  if (liveness._tag === "Live") {
    yield* warn(harmless(`${entry.id} is still at work; its artifacts are copied as they are at this moment`))
  }
})

export const resume = Command.make("resume", flags).pipe(
  Command.withDescription(
    "Go on with a run that nobody works in, with its own command or another, and exit as it does; with --fork in a new run"
  ),
  Command.withHandler(Effect.fn(function*(given) {
    const entry = yield* findRun(given.run)
    const { id, record } = entry
    if (Result.isFailure(record)) {
      return yield* new StoreError({ reason: StoreReason.UnusableRecord({ id, error: record.failure }) })
    }
    const isOther = given.command.length > 0
    const recorded = isOther ? undefined : yield* recordedCommand(record.success)
    const argv = yield* checkJob(given, recorded?.argv ?? given.command)
    const cwd = recorded?.cwd ?? process.cwd()
    const shared = { retention: retentionOf(given.retention), telemetry: noTelemetry }
    if (given.fork) {
      yield* sayIfLive(entry)
      const command = { argv, cwd, ...(given.tty ? { tty: true } : {}) }
      return yield* job(given, argv, cwd).pipe(Run.scoped({ name: record.success.name, from: id, command, ...shared }))
    }
    yield* Effect.andThen(markAttempt, job(given, argv, cwd)).pipe(
      Run.resume(id, { rebuilds: given.rebuilds, ...shared })
    )
  })),
  Command.provide(Store)
)
