/**
 * How a run ended, from the exit of its program.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import * as NodeUtil from "node:util"
import { inLastAttempt, isTerminal, type RunExit, type RunRecord, type Timestamp } from "./RunRecord.ts"

/**
 * What the record will say. A run that was ended by a signal is `interrupted` and names it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Outcome {
  readonly status: "ok" | "error" | "interrupted"
  readonly exit: RunExit
  /** Whether some of the output of this attempt could not be kept. */
  readonly outputIncomplete?: boolean | undefined
}

/**
 * An error in words, whatever a program may have failed with. It never throws.
 *
 * @internal
 */
export const messageOf = (error: unknown): string => {
  if (typeof error === "string") return error
  if (error instanceof Error) return error.message === "" ? error.name : String(error.message)
  return NodeUtil.inspect(error, { breakLength: Number.POSITIVE_INFINITY, depth: 4, maxStringLength: 1000 })
}

/**
 * The outcome of a program whose exit is known. `signal` is what the process was told to end by, if it was.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromExit = (
  exit: Exit.Exit<unknown, unknown>,
  signal: string | undefined
): Outcome => {
  if (Exit.isSuccess(exit)) return { status: "ok", exit: { code: 0 } }
  if (Cause.hasInterruptsOnly(exit.cause)) {
    return { status: "interrupted", exit: signal === undefined ? {} : { signal } }
  }
  const error = Cause.squash(exit.cause)
  return {
    status: "error",
    exit: { code: Runtime.getErrorExitCode(error), message: messageOf(error) }
  }
}

/**
 * The record with its outcome, the last attempt's as well. An outcome that is there already stands.
 *
 * @category combinators
 * @since 0.1.0
 */
export const record = (before: RunRecord, outcome: Outcome, endedAt: Timestamp): RunRecord =>
  isTerminal(before) ? before : {
    ...inLastAttempt(before, {
      endedAt,
      status: outcome.status,
      ...(outcome.outputIncomplete === true ? { outputIncomplete: true } : {})
    }),
    status: outcome.status,
    endedAt,
    exit: outcome.exit
  }

/**
 * The record of a run that is gone on with: running again, with a new attempt. What the last one came to stays with it.
 *
 * @category combinators
 * @since 0.1.0
 */
export const again = (before: RunRecord, startedAt: Timestamp): RunRecord => {
  const { endedAt: _1, exit: _2, releasedAt: _3, ...rest } = before
  return {
    ...rest,
    status: "running",
    attempts: [...before.attempts, { startedAt, status: "running" }]
  } as RunRecord
}
