/** How a command that failed says so: on standard error, as text or as one JSON object, with the promised exit code. */
import * as Cause from "effect/Cause"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as ExitCode from "./ExitCode.ts"
import { harmless } from "./Output.ts"

/** The parser may be what failed, so this is asked of the words themselves. */
const wantsJson = () => {
  const words = process.argv.slice(2)
  const end = words.indexOf("--")
  return words.slice(0, end === -1 ? words.length : end).some((word) => /^--json(=true)?$/.test(word))
}

const nameOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return "Error"
  const tag = "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : error instanceof Error
    ? error.name
    : "Error"
  const reason = "reason" in error ? error.reason : undefined
  return typeof reason === "object" && reason !== null && "_tag" in reason ? `${tag}.${String(reason._tag)}` : tag
}

const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

const say = Effect.fnUntraced(function*(error: string, text: string) {
  const message = text.replaceAll(/\s*\n\s*/g, " ")
  yield* Console.error(wantsJson() ? JSON.stringify({ error, message }) : `leasehold: ${harmless(message)}`)
})

/** A wrong command line is said in a line by {@link errors}, and not in a page of help on standard output. */
export const presenter: CliOutput.Presenter = {
  present: (event) => event._tag === "InvalidInvocation" ? Effect.void : CliOutput.defaultPresenter.present(event)
}

/** Help that was asked for is an answer; help that was not is a usage error. */
const usageMessage = (error: CliError.CliError): string | undefined => {
  if (error._tag !== "ShowHelp") return error.message
  if (error.errors.length === 0) return undefined
  const path = error.commandPath.join(" ")
  return `${error.errors.map((each) => each.message).join("; ")} (see '${path} --help')`
}

/** Says what went wrong, unless it has been said, and turns it into an exit code. */
export const errors = <A, R>(command: Effect.Effect<A, unknown, R>): Effect.Effect<void, ExitCode.ExitWith, R> =>
  command.pipe(
    Effect.asVoid,
    Effect.catchCause((cause) =>
      Effect.gen(function*() {
        if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
        const error = Cause.squash(cause)
        if (CliError.isCliError(error)) {
          const message = usageMessage(error)
          if (message === undefined) return
          yield* say("UsageError", message)
        } else if (!(error instanceof ExitCode.ExitWith)) {
          yield* say(nameOf(error), messageOf(error))
        }
        return yield* Effect.fail(new ExitCode.ExitWith(ExitCode.of(error)))
      })
    )
  )

/** `leasehold ls | head` is a use, not a fault. */
export const quietOnClosedPipe = (): void => {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0)
    throw error
  })
}
