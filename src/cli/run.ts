import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NodePath from "node:path"
import * as Child from "../Child.ts"
import type { Outcome } from "../Outcome.ts"
import * as Run from "../Run.ts"
import { Store } from "./Context.ts"
import { ExitWith, UsageError } from "./ExitCode.ts"
import { warn } from "./Output.ts"
import { parseTag, tagFlag } from "./Tags.ts"

const name = Flag.String("name").pipe(
  Flag.withDescription("What to call the run; else the name of its command"),
  Flag.optional
)
const cleanup = Flag.String("cleanup").pipe(
  Flag.withMetavar("CMD"),
  Flag.withDescription("A shell command to run at the end, under the lease; the last one given runs first"),
  Flag.between(0, 1000)
)
const quiet = Flag.Boolean("quiet").pipe(
  Flag.withAlias("q"),
  Flag.withDescription("Keep the output and do not pass it on"),
  Flag.withDefault(false)
)
const tty = Flag.Boolean("tty").pipe(
  Flag.withAlias("t"),
  Flag.withDescription("Give the command the terminal itself; its output is then not kept"),
  Flag.withDefault(false)
)
const noInheritLease = Flag.Boolean("no-inherit-lease").pipe(
  Flag.withDescription("Hand the command no lease of its own"),
  Flag.withDefault(false)
)
const unprotected = Flag.Boolean("unprotected").pipe(
  Flag.withDescription("Go on where the file system has no locks"),
  Flag.withDefault(false)
)
const command = Argument.String("CMD").pipe(
  Argument.withDescription("The command and its arguments, after --"),
  Argument.variadic({ min: 1 })
)

const outcomeOf = (ended: Child.Ended): Outcome => {
  const exit = ended.signal === undefined ? { code: ended.exitCode } : { signal: ended.signal }
  if (ended.exitCode === 0) return { status: "ok", exit }
  return { status: ended.interrupted && ended.exitCode > 128 ? "interrupted" : "error", exit }
}

const childOutcome = (options: Child.Options) =>
  Effect.gen(function*() {
    const run = yield* Run.Run
    const ended = yield* Effect.result(Child.run(options))
    if (Result.isFailure(ended)) {
      const { failure } = ended
      if (failure._tag === "ChildError") {
        yield* run.conclude({ status: "error", exit: { code: failure.exitCode, message: failure.message } })
      }
      return yield* failure
    }
    yield* run.conclude(outcomeOf(ended.success))
    return ended.success.exitCode
  })

/** A hook that fails is said and changes nothing. */
const hook = (script: string, inheritLease: boolean, output: "keep" | "pass") =>
  Child.run({
    argv: process.platform === "win32" ? ["cmd.exe", "/d", "/s", "/c", script] : ["/bin/sh", "-c", script],
    logs: { stdout: "cleanup.log", stderr: "cleanup.log" },
    inheritLease,
    output
  }).pipe(
    Effect.flatMap((ended) =>
      ended.exitCode === 0 ? Effect.void : warn(`clean-up ended with ${ended.exitCode}: ${script}`)
    ),
    Effect.catch((error) => warn(`clean-up could not be started: ${error.message}`))
  )

export const run = Command.make("run", {
  name,
  tag: tagFlag,
  cleanup,
  quiet,
  tty,
  noInheritLease,
  unprotected,
  command
})
  .pipe(
    Command.withDescription("Run a command in a bundle of its own, and exit as it does"),
    Command.withHandler(Effect.fn(function*(flags) {
      const tags = yield* Effect.forEach(flags.tag, (text) => Effect.fromResult(parseTag(text)))
      const [first, ...rest] = flags.command
      if (first === undefined || first === "") return yield* Effect.fail(new UsageError("give a command after --"))
      if (flags.tty && !process.stdin.isTTY) {
        return yield* Effect.fail(new UsageError("--tty needs a terminal on standard input"))
      }
      const inheritLease = !flags.noInheritLease
      const output = flags.tty ? "terminal" : flags.quiet ? "keep" : "pass"
      const program = Effect.gen(function*() {
        for (const script of flags.cleanup) {
          yield* Effect.addFinalizer(() => hook(script, inheritLease, flags.quiet ? "keep" : "pass"))
        }
        return yield* childOutcome({ argv: [first, ...rest], output, inheritLease })
      })
      const exitCode = yield* program.pipe(Run.scoped({
        name: flags.name._tag === "Some" ? flags.name.value : NodePath.basename(first),
        tags: Object.fromEntries(tags.map(([key, value]) => [key, value ?? ""])),
        command: { argv: [first, ...rest], cwd: process.cwd(), ...(flags.tty ? { tty: true } : {}) },
        unprotected: flags.unprotected,
        telemetry: { events: false, spans: false, otlp: false }
      }))
      if (exitCode !== 0) return yield* Effect.fail(new ExitWith(exitCode))
    })),
    Command.provide(Store)
  )
