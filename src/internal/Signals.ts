/**
 * The signals that end a run, and who is to hear of them: children first, and where there are none the program. Others
 * are for children alone.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeOs from "node:os"

/** @internal */
export const ending = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const

/** @internal */
export type EndingSignal = typeof ending[number]

/** What people send to programs to tell them something. Without a listener some of these end the process. */
const others = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGCONT"] as const

type OtherSignal = typeof others[number]

/**
 * Whether a signal is one of those that end a run.
 *
 * @internal
 */
export const isEnding = (signal: NodeJS.Signals): signal is EndingSignal => ending.some((name) => name === signal)

type Hearer = (signal: EndingSignal) => void
type ChildHearer = (signal: EndingSignal | OtherSignal) => void

// Signals are the process's and not a fiber's, and so is what is known of them.
let first: EndingSignal | undefined
const programs: Array<Hearer> = []
const children = new Set<ChildHearer>()
const watchers = new Set<Hearer>()

/**
 * The first signal that told the program of this process to end. One that went to a child did not.
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
  for (const watcher of watchers) watcher(signal)
  if (children.size > 0) {
    for (const child of children) child(signal)
    return
  }
  first ??= signal
  programs.at(-1)?.(signal)
}

const passOn = (signal: OtherSignal) => {
  for (const child of children) child(signal)
}

let passesOn = false

/** For good: node would not go back to what it does at SIGUSR1, and the next one would end the process. */
const attendOthers = Effect.sync(() => {
  if (!passesOn) { for (const signal of others) process.on(signal, passOn) }
  passesOn = true
})

/** As long as somebody hears them, signals do not end the process by themselves. */
const attend = (change: () => void) =>
  Effect.sync(() => {
    const before = programs.length + children.size
    change()
    const after = programs.length + children.size
    if (before === 0 && after > 0) { for (const signal of ending) process.on(signal, hear) }
    if (before > 0 && after === 0) { for (const signal of ending) process.removeListener(signal, hear) }
  })

/**
 * Hears the ending signals as the program, in place of the one that did before, until the scope closes.
 *
 * @internal
 */
export const listen = (program: Hearer): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    attend(() => void programs.push(program)),
    () => attend(() => void programs.splice(programs.lastIndexOf(program), 1))
  )

/**
 * Hears them as a child, beside all other children and in place of the program, and what else is for children, until the
 * scope closes.
 *
 * @internal
 */
export const listenForChild = (child: ChildHearer): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.andThen(attendOthers, attend(() => void children.add(child))),
    () => attend(() => void children.delete(child))
  )

/**
 * Is told of every signal that somebody hears, until the scope closes.
 *
 * @internal
 */
export const watch = (watcher: Hearer): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => void watchers.add(watcher)),
    () => Effect.sync(() => void watchers.delete(watcher))
  )
