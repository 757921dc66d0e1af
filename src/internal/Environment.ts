/**
 * What the environment of this process says.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

/**
 * A variable, where it is set to something.
 *
 * @internal
 */
export const variable = (name: string): Effect.Effect<string | undefined> =>
  Config.String(name).pipe(
    Config.option,
    Effect.orElseSucceed(() => Option.none<string>()),
    Effect.map((value) => Option.getOrUndefined(Option.filter(value, (text) => text !== "")))
  )
