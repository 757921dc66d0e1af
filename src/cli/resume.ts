import * as Command from "effect/cli/Command"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { usable } from "../Bundle.ts"
import { workingDirectory } from "../internal/WorkingDirectory.ts"
import { replacement } from "../Redaction.ts"
import * as Run from "../Run.ts"
import * as RunArchive from "../RunArchive.ts"
import type { RunId } from "../RunId.ts"
import type { RunRecord } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { orSystem } from "../StoreError.ts"
import { commandAfterDashes, findRun, runName, Store } from "./Context.ts"
import { UsageError } from "./ExitCode.ts"
import { flagsOf } from "./Flags.ts"
import { checkJob, jobOptions, noTelemetry, ownJob, retentionOf, retentionOption } from "./Job.ts"
import { mark } from "./Mark.ts"
import { warn } from "./Output.ts"
import { look, statusOf } from "./RunView.ts"

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

const { fork, rebuilds, retention, ...jobFlags } = flagsOf({
  rebuilds: {
    kind: "switch",
    description: "The command makes again what was trimmed; a trimmed run is refused without this"
  },
  fork: { kind: "switch", description: "Start a new run from its artifacts, and leave it as it is; it may be at work" },
  ...jobOptions,
  retention: retentionOption
})

const flags = { run: runName, fork, rebuilds, ...jobFlags, retention, command: commandAfterDashes(0) }

const findRecord = (name: string) =>
  Effect.flatMap(
    findRun(name),
    (entry) => Effect.map(Effect.fromResult(usable(entry)), (record) => ({ id: entry.id, record }))
  )

/** Who goes on with a run need not know that it has been archived. */
const findResumable = Effect.fnUntraced(function*(name: string) {
  const found = yield* Effect.result(findRecord(name))
  if (Result.isSuccess(found)) return found.success
  const { reason } = found.failure
  if (reason._tag !== "Archived") return yield* found.failure
  return yield* Effect.flatMap(RunArchive.get(reason.id), RunArchive.readRecord).pipe(
    Effect.map((record) => ({ id: reason.id, record })),
    // Somebody may have restored it at just this moment.
    Effect.catch((error) => Effect.mapError(findRecord(reason.id), () => error))
  )
})

/** What a live run writes while it is copied may be in the copy or not. Who copies from a run holds it as well. */
const sayIfLive = Effect.fnUntraced(function*(id: RunId) {
  const store = yield* RunStore
  const view = yield* Effect.flatMap(store.get(id), look)
  if (view.liveness._tag === "Live" && statusOf(view) === "running") {
    yield* warn(`${id} is still at work; its artifacts are copied as they are at this moment`)
  }
})

export const resume = Command.make("resume", flags).pipe(
  Command.withDescription(
    "Go on with a run that nobody works in, with its own command or another, and exit as it does; with --fork in a new run"
  ),
  Command.withHandler(Effect.fn(function*(given) {
    const { id, record } = yield* given.fork ? findRecord(given.run) : findResumable(given.run)
    const isOther = given.command.length > 0
    const recorded = isOther ? undefined : yield* recordedCommand(record)
    const argv = yield* checkJob(given, recorded?.argv ?? given.command)
    const cwd = recorded?.cwd ?? (yield* workingDirectory)
    const shared = { retention: retentionOf(given.retention), telemetry: noTelemetry }
    if (given.fork) {
      yield* sayIfLive(id)
      const command = { argv, cwd }
      return yield* ownJob(given, argv, cwd).pipe(Run.scoped({ name: record.name, from: id, command, ...shared }))
    }
    yield* Effect.andThen(markAttempt, ownJob(given, argv, cwd)).pipe(
      Run.resume(id, { rebuilds: given.rebuilds, ...shared })
    )
  })),
  Command.provide(Store)
)
