import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Run from "../Run.ts"
import { commandAfterDashes, runName, Store } from "./Context.ts"
import { flagsOf } from "./Flags.ts"
import { checkJob, job, jobOptions, noTelemetry } from "./Job.ts"

const { noInheritLease, onRemove, quiet, tty } = flagsOf(jobOptions)

export const attach = Command.make("attach", {
  run: runName,
  onRemove,
  noInheritLease,
  quiet,
  tty,
  command: commandAfterDashes(1)
})
  .pipe(
    Command.withDescription("Run a command in a run that another process owns, and keep the run until it has ended"),
    Command.withHandler(Effect.fn(function*({ command, run, ...flags }) {
      const given = { ...flags, cleanup: [] }
      const argv = yield* checkJob(given, command)
      const attached = Run.attach({ run, telemetry: noTelemetry })
      yield* attached(job(given, argv))
    })),
    Command.provide(Store)
  )
