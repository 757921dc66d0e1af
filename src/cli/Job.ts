/** A command and its clean-up hooks inside a run, as `run`, `resume` and `attach` have it. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Child from "../Child.ts"
import { workingDirectory } from "../internal/WorkingDirectory.ts"
import * as OnRemove from "../OnRemove.ts"
import type { Outcome } from "../Outcome.ts"
import { standard } from "../Redaction.ts"
import * as Run from "../Run.ts"
import { inLastAttempt } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { ExitWith, UsageError } from "./ExitCode.ts"
import { mark } from "./Mark.ts"
import type { Given, Options } from "./Options.ts"
import { warn } from "./Output.ts"

export const jobOptions = {
  cleanup: {
    kind: "texts",
    metavar: "CMD",
    description: "A shell command to run at the end, under the lease; the last one given runs first"
  },
  onRemove: {
    kind: "texts",
    metavar: "CMD",
    description:
      "A shell command that has to succeed before the run can be removed, run here; the last one given runs first"
  },
  quiet: { kind: "switch", alias: "q", description: "Keep the output and do not pass it on" },
  tty: {
    kind: "switch",
    alias: "t",
    description: "Give the command the terminal itself; its output is then not kept"
  },
  noInheritLease: { kind: "switch", description: "Hand the command no lease of its own" }
} as const satisfies Options

export const retentionOption = {
  kind: "choice",
  choices: ["background", "before", "after", "off"],
  fallback: "background",
  description: "When to run a bounded pass of retention in this store (default background)"
} as const

type JobOptions = Given<typeof jobOptions>

type Argv = readonly [string, ...ReadonlyArray<string>]

/** A wrapped command tells what there is to tell by its output. */
export const noTelemetry = { events: false, spans: false, otlp: false } as const

const shellOf = (script: string): Argv =>
  process.platform === "win32" ? ["cmd.exe", "/d", "/s", "/c", script] : ["/bin/sh", "-c", script]

const undoBy = (script: string): OnRemove.Undo => ({ type: "command", argv: shellOf(script) })

/** Everything that can be wrong with a job before anything is begun. */
export const checkJob = Effect.fnUntraced(function*(options: JobOptions, command: ReadonlyArray<string>) {
  const [first, ...rest] = command
  if (first === undefined || first === "") return yield* Effect.fail(new UsageError("give a command after --"))
  if (options.tty && !process.stdin.isTTY) {
    return yield* Effect.fail(new UsageError("--tty needs a terminal on standard input"))
  }
  for (const script of options.onRemove) {
    const settled = OnRemove.settle(undoBy(script), {}, standard, yield* workingDirectory)
    if (Result.isFailure(settled)) return yield* Effect.fail(new UsageError(`--on-remove ${settled.failure.message}`))
  }
  return [first, ...rest] satisfies Argv
})

/** As the library has it. */
export const retentionOf = (when: "off" | "background" | "before" | "after") => when === "off" ? when : { when }

const outcomeOf = (ended: Child.Ended): Outcome => {
  const exit = ended.signal === undefined ? { code: ended.exitCode } : { signal: ended.signal }
  const rest = { exit, outputIncomplete: ended.unkept }
  if (ended.exitCode === 0) return { status: "ok", ...rest }
  return { status: ended.interrupted && ended.exitCode > 128 ? "interrupted" : "error", ...rest }
}

const runChild = Effect.fnUntraced(function*(options: Child.Options) {
  const run = yield* Run.Run
  const ended = yield* Effect.result(Child.run(options))
  if (Result.isFailure(ended)) {
    const { failure } = ended
    if (failure._tag === "ChildError") {
      yield* run.conclude({ status: "error", exit: { code: failure.exitCode, message: failure.message } })
    }
    return yield* failure
  }
  // What could not be written now is tried again at the end, and said then; the command has ended as it has.
  yield* Effect.ignore(run.conclude(outcomeOf(ended.success)))
  const { exitCode, lost } = ended.success
  if (exitCode !== 0) return yield* Effect.fail(new ExitWith(exitCode))
  // The command had no chance to learn of it, and it has been said.
  if (lost) return yield* Effect.fail(new ExitWith(1))
})

/** Whoever looks later has only what is kept. The script is not a part of it, since it may have secrets in it. */
const fail = (problem: string, detail: string) =>
  Effect.andThen(
    warn(`clean-up ${problem}: ${detail}`),
    Effect.ignore(mark(["cleanup.log"], `clean-up ${problem}`))
  )

/** A hook that fails is said and changes nothing. */
const hook = (script: string, { noInheritLease, quiet }: JobOptions) =>
  Child.run({
    argv: shellOf(script),
    logs: { stdout: "cleanup.log", stderr: "cleanup.log" },
    inheritLease: !noInheritLease,
    output: quiet ? "keep" : "pass"
  }).pipe(
    Effect.flatMap((ended) => ended.exitCode === 0 ? Effect.void : fail(`ended with ${ended.exitCode}`, script)),
    Effect.catch((error) => fail("could not be started", error.message))
  )

/**
 * The program of a job: its command, with its hooks as finalizers and what is to be undone registered before it starts.
 * It ends as the command does.
 */
export const job = Effect.fnUntraced(function*(options: JobOptions, argv: Argv, cwd?: string) {
  for (const script of options.onRemove) yield* Run.onRemove(undoBy(script))
  for (const script of options.cleanup) yield* Effect.addFinalizer(() => hook(script, options))
  const output = options.tty ? "terminal" : options.quiet ? "keep" : "pass"
  yield* runChild({ argv, cwd, output, inheritLease: !options.noInheritLease })
})

/** With the terminal, nothing is kept of what this attempt writes, which is said where the attempt is. */
const sayTerminal = Effect.gen(function*() {
  const store = yield* RunStore
  const { id } = yield* Run.Run
  yield* store.update(id, (record) => inLastAttempt(record, { tty: true }))
})

/** The same for whoever owns the run. */
export const ownJob = (options: JobOptions, argv: Argv, cwd?: string) =>
  Effect.andThen(options.tty ? sayTerminal : Effect.void, job(options, argv, cwd))
