/**
 * Retention as a part of a run: one bounded pass in the store that the run is in.
 *
 * It starts when the run's own lease is held, never considers that run, and changes neither what the program does nor
 * how it ends. `background` works beside the program; when the program has ended and everything is let go, it may use
 * what is left of its budget and no more. A signal that ends the run ends the pass as well.
 *
 * @since 0.1.0
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { policyPrefix } from "./internal/Environment.ts"
import * as Signals from "./internal/Signals.ts"
import type { Lease } from "./Lease.ts"
import * as RetentionBudget from "./RetentionBudget.ts"
import type * as RetentionPolicy from "./RetentionPolicy.ts"
import type { RunId } from "./RunId.ts"
import type { RunStore } from "./RunStore.ts"

/**
 * When the pass runs, and how. The policy is the one given, else that of the environment (`LEASEHOLD_RETENTION_…`),
 * else {@link RetentionPolicy.standard}.
 *
 * @category options
 * @since 0.1.0
 */
export type Options = "off" | {
  readonly policy?: RetentionPolicy.RetentionPolicy | RetentionPolicy.PolicyInput | undefined
  readonly budget?: RetentionBudget.BudgetInput | undefined
  readonly when?: "background" | "before" | "after" | undefined
}

/** @internal */
export interface InRun {
  /** For when the run's lease is held. */
  readonly begin: (own: RunId) => Effect.Effect<void, never, RunStore | Lease>
}

/** Loaded only when a pass begins, so that a run without one does not pay for it. */
const pass = (options: Exclude<Options, "off">, own: RunId, stop: Effect.Effect<void>) =>
  Effect.gen(function*() {
    const [Retention, SqliteIndex] = yield* Effect.promise(() =>
      Promise.all([import("./Retention.ts"), import("./SqliteIndex.ts")])
    )
    yield* Effect.provide(
      Retention.run({ policy: options.policy, budget: options.budget, own, stop }),
      SqliteIndex.layer
    )
  }).pipe(Effect.catchCause((cause) => Effect.logWarning("retention did not come to its end", cause)))

/** The standard policy needs no check, so what knows of policies is loaded only where another one is stated. */
const resolve = (options: Exclude<Options, "off">) =>
  Effect.gen(function*() {
    const isStated = Object.keys(process.env).some((name) => name.startsWith(policyPrefix))
    if (options.policy === undefined && !isStated) return undefined
    const [{ fromEnv }, { decode }] = yield* Effect.promise(() =>
      Promise.all([import("./RetentionSources.ts"), import("./RetentionPolicy.ts")])
    )
    return yield* Effect.fromResult(options.policy === undefined ? fromEnv(process.env) : decode(options.policy))
  })

/**
 * Checks the policy and the budget before anything is touched. To be called before the lease is taken: what is registered here runs
 * after it has gone.
 *
 * @internal
 */
export const prepare = Effect.fnUntraced(
  function*(options: Options = {}): Effect.fn.Return<
    InRun,
    RetentionPolicy.PolicyError | RetentionBudget.BudgetError,
    RunStore | Lease | Scope.Scope
  > {
    if (options === "off") return { begin: () => Effect.void }
    const policy = yield* resolve(options)
    const budget = yield* Effect.fromResult(RetentionBudget.decode(options.budget))
    const settled = { ...options, policy, budget }
    const stop = yield* Deferred.make<void>()
    const work = (own: RunId) => pass(settled, own, Deferred.await(stop))
    let afterwards: Effect.Effect<void, never, RunStore | Lease> = Effect.void
    let isTold = false
    yield* Signals.watch(() => void (isTold = true))
    yield* Effect.addFinalizer(() =>
      !isTold
        ? afterwards
        : Effect.andThen(Deferred.succeed(stop, undefined), options.when === "after" ? Effect.void : afterwards)
    )
    return {
      begin: Effect.fnUntraced(function*(own) {
        switch (options.when ?? "background") {
          case "before":
            return yield* work(own)
          case "after":
            return void (afterwards = work(own))
          case "background": {
            const fiber = yield* Effect.forkDetach(work(own))
            return void (afterwards = Effect.asVoid(Fiber.await(fiber)))
          }
        }
      })
    }
  }
)
