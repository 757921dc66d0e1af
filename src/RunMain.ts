/**
 * A program as a Node process that signals end in an orderly way.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Runtime from "effect/Runtime"
import * as Signals from "./internal/Signals.ts"

/**
 * The exit code of a program that has ended: 0, what its error asks for (else 1), or 128 + n for the signal that ended
 * it.
 *
 * @internal
 */
export const exitCodeOf = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (!Cause.hasInterruptsOnly(exit.cause)) return Runtime.getErrorExitCode(Cause.squash(exit.cause))
  return Signals.exitCode(Signals.received() ?? "SIGINT")
}

/**
 * Ends the program by interruption at the first signal, so that its finalizers run, and the process at the second.
 *
 * @internal
 */
export const interruptible = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    let told = false
    const listening = Signals.listen((signal) => {
      if (told) process.exit(Signals.exitCode(signal))
      told = true
      fiber.interruptUnsafe(fiber.id)
    })
    return Effect.scoped(Effect.andThen(listening, program)) as Effect.Effect<A, E, R>
  })

/** @internal */
export const run: <A, E>(program: Effect.Effect<A, E>) => void = Runtime.makeRunMain(({ fiber, teardown }) => {
  fiber.addObserver((exit) =>
    teardown(exit, (code) => {
      // Left to itself a process with an open handle would stay, and one without any would end with 0.
      if (code !== 0) process.exit(code)
    })
  )
})({ disableErrorReporting: true, teardown: (exit, onExit) => onExit(exitCodeOf(exit)) })

/**
 * Runs a program as the process. SIGINT, SIGTERM, SIGHUP and SIGQUIT end it by interruption: finalizers run, the record
 * says how it ended, and the process exits with 130, 143, 129 or 131. A second signal leaves at once, finalizers or
 * not; the lease is then dropped by the kernel. While a child of `Child.run` is there, signals go to it instead. A failure is written to standard error, and so is what is logged:
 * standard output is the program's own.
 *
 * **Example** (A program that may be stopped at any time)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Run from "leasehold/Run"
 *
 * const RunLayer = Run.layer({ name: "nightly" })
 *
 * Effect.log("working").pipe(Effect.provide(RunLayer), Run.main)
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const main = <A, E>(program: Effect.Effect<A, E>): void =>
  run(
    interruptible(program).pipe(
      Effect.tapCause((cause) =>
        Cause.hasInterruptsOnly(cause) || !Runtime.getErrorReported(Cause.squash(cause))
          ? Effect.void
          : Console.error(Cause.pretty(cause))
      ),
      Effect.provideService(Logger.LogToStderr, true)
    )
  )
