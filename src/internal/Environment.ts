/**
 * What the environment of this process says.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"

/**
 * A variable, where it is set to something. A `Config` would make an error with a trace for each that is not, and most
 * are not.
 *
 * @internal
 */
export const variable = Effect.fnUntraced(function*(name: string): Effect.fn.Return<string | undefined> {
  const provider = yield* ConfigProvider.ConfigProvider
  const node = yield* Effect.orElseSucceed(provider.load([name]), () => undefined)
  return node?.value === "" ? undefined : node?.value
})

/**
 * How the variables begin that state a policy.
 *
 * @internal
 */
export const policyPrefix = "LEASEHOLD_RETENTION_"
