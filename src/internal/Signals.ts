/**
 * The signals that end a run, who is to hear of them, and which has come first.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeOs from "node:os"

/** @internal */
export const ending = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const

/** @internal */
export type EndingSignal = typeof ending[number]

type Hearer = (signal: EndingSignal) => void

// Signals are the process's and not a fiber's, and so is what is known of them.
let first: EndingSignal | undefined
const hearers: Array<Hearer> = []

/**
 * The first signal that told this process to end.
 *
 * @internal
 */
export const received = (): EndingSignal | undefined => first

/**
 * The exit code by which shells report a signal.
 *
 * @internal
 */
export const exitCode = (signal: NodeJS.Signals): number => 128 + NodeOs.constants.signals[signal]

const hear = (signal: EndingSignal) => {
  first ??= signal
  hearers.at(-1)?.(signal)
}

/**
 * Hears the ending signals in place of whoever heard them before, until the scope closes.
 *
 * @internal
 */
export const listen = (hearer: Hearer): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      if (hearers.length === 0) { for (const signal of ending) process.on(signal, hear) }
      hearers.push(hearer)
    }),
    () =>
      Effect.sync(() => {
        hearers.splice(hearers.indexOf(hearer), 1)
        if (hearers.length === 0) { for (const signal of ending) process.removeListener(signal, hear) }
      })
  )
