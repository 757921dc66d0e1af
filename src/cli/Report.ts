/** How a command that failed says so: on standard error, as text or as one JSON object, with the promised exit code. */
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { fromUnknown } from "../internal/Errno.ts"
import * as ExitCode from "./ExitCode.ts"
import { harmless, toJson } from "./Output.ts"

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

const inOneLine = (text: string) => text.replaceAll(/\s*\n\s*/g, " ")

const lineOf = (error: unknown): string => {
  const message = inOneLine(messageOf(error))
  return wantsJson() ? toJson({ error: nameOf(error), message }) : `leasehold: ${harmless(message)}`
}

/** Says what went wrong, unless it has been said, and turns it into an exit code. */
export const errors = <A, R>(command: Effect.Effect<A, unknown, R>): Effect.Effect<void, ExitCode.ExitWith, R> =>
  command.pipe(
    Effect.asVoid,
    Effect.catchCause((cause) =>
      Effect.gen(function*() {
        if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
        const error = Cause.squash(cause)
        if (!(error instanceof ExitCode.ExitWith)) yield* Console.error(lineOf(error))
        return yield* Effect.fail(new ExitCode.ExitWith(ExitCode.of(error)))
      })
    )
  )

/** What goes wrong on the way and is logged by the library, in the words of everything else. */
export const logger: Logger.Logger<unknown, void> = Logger.make(({ cause, fiber, message }) => {
  const words = [message].flat().map(String)
  if (cause.reasons.length > 0) words.push(messageOf(Cause.squash(cause)))
  fiber.getRef(Console.Console).error(`leasehold: ${harmless(inOneLine(words.join(": ")))}`)
})

class OutputError extends Error {
  override readonly name = "OutputError"
}

/**
 * Whoever writes to standard output is not told what became of it. Without a reader, as in `leasehold ls | head`, the
 * rest is not wanted; anything else is a failure.
 */
export const endWithOutput = (): void => {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0)
    Effect.runSync(Console.error(lineOf(new OutputError(fromUnknown("write", "standard output", error).message))))
    process.exit(1)
  })
}
