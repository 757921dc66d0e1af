/**
 * Taking several things one after another, where failing half-way must leave none of them.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"

/**
 * Everything that an effect acquires goes at once when it does not succeed, and with the scope around it when it does.
 *
 * @internal
 */
export const tentatively = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Scope.Scope> | Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope, "sequential")
      return yield* Scope.provide(restore(effect), scope).pipe(
        Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
      )
    })
  )
