import * as Effect from "effect/Effect"
import type { RunId } from "../RunId.ts"
import { type Fault, type Finding, Outcome } from "../VerificationFinding.ts"

/** @internal */
export interface Options {
  readonly repair: boolean
  readonly removeUnreadable: boolean
  readonly archives: boolean
}

/** @internal */
export const finding = (
  fault: Fault,
  where: string,
  more?: { readonly id?: RunId; readonly outcome?: Outcome }
): Finding => ({ fault, where, id: more?.id, outcome: more?.outcome ?? Outcome.Left() })

/**
 * What came of mending something.
 *
 * @internal
 */
export const asOutcome = <R>(
  mending: Effect.Effect<void, { readonly message: string }, R>
): Effect.Effect<Outcome, never, R> =>
  Effect.match(mending, {
    onSuccess: () => Outcome.Mended(),
    onFailure: ({ message }) => Outcome.Failed({ reason: message })
  })
