/** One line on standard error that says how far long work has come, and only on a terminal. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { countOf } from "../RetentionReason.ts"
import type { PassEvent } from "../RetentionReport.ts"
import { formatBytes } from "../Units.ts"

const intervalMillis = 100

const clear = "\r\u001b[K"

/**
 * The line goes with the scope. `above` prints something over it; `take` counts.
 */
export const make = Effect.gen(function*() {
  const isShown = process.stderr.isTTY === true
  let removed = 0
  let before = 0
  let swept = 0
  let left = 0
  let shownAt = 0
  const write = (text: string) => Effect.sync(() => void process.stderr.write(text))
  const show = Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (!isShown || now - shownAt < intervalMillis) return
    shownAt = now
    const waiting = left === 0 ? "" : `, ${left} in the trash`
    yield* write(`${clear}removed ${countOf(removed, "run")}, ${formatBytes(before + swept)} given back${waiting}`)
  })
  yield* Effect.addFinalizer(() => isShown ? write(clear) : Effect.void)
  return {
    above: (print: Effect.Effect<void>) => isShown ? Effect.andThen(write(clear), print) : print,
    take: (event: PassEvent) =>
      Effect.suspend(() => {
        if (event._tag === "Removed") removed++
        if (event._tag === "Swept") {
          // A pass may sweep more than once, and each sweep counts from nothing.
          if (event.freedBytes < swept) before += swept
          swept = event.freedBytes
          left = event.left
        }
        return show
      })
  }
})
