/** Doors to the disk and to the locks of which some calls fail. */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { Errno } from "../../src/internal/Errno.ts"
import { allBy, type Step } from "./Doors.ts"

export interface Fault {
  /** The call that fails, counted from 1 among those that can. */
  readonly nth: number
  readonly code: string
  /** Every one after it fails as well. */
  readonly forGood?: boolean
  /** What can fail; everything, if nothing is said. A descriptor is closed in any case. */
  readonly calls?: ReadonlyArray<string>
}

/** Says whether it came to the call that was to fail. */
export const withFault = ({ calls, code, forGood, nth }: Fault) =>
<A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<{ readonly exit: Exit.Exit<A, E>; readonly hit: boolean }, never, R> => {
  let count = 0
  const step: Step = (call, [about], perform) => {
    if (call === "close" || calls?.includes(call) === false) return perform
    count++
    const fails = count === nth || (forGood === true && count > nth)
    return fails ? Effect.fail(new Errno({ code, call, path: String(about), cause: undefined })) : perform
  }
  return effect.pipe(
    allBy(step),
    Effect.exit,
    Effect.map((exit) => ({ exit, hit: count >= nth }))
  )
}
