/**
 * The name of a run: when it started and eight random characters, as in `20261130T142233123Z-k3f9x2mq`.
 *
 * A run id sorts by start time, is a safe file name on every platform, and tells by itself which day directory its
 * bundle lies in, so that finding a run costs the same in a store of twenty and of a million. It does not promise
 * that two runs started within a millisecond sort in the order they started.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const grammar = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(\d{3})Z-([0-9a-z]{8})$/u

const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"

const instantOf = (id: string): number => {
  const match = grammar.exec(id)
  if (match === null) return Number.NaN
  const [, year, month, day, hour, minute, second, millis] = match
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${millis}Z`
  const instant = Date.parse(iso)
  // Every month has a day like this one, and there is nothing more to check.
  if (day! <= "28" && hour! <= "23") return instant
  // `2026-02-30` parses on some engines; only an instant that reads back the same is one of ours.
  return Number.isNaN(instant) || DateTime.formatIso(DateTime.makeUnsafe(instant)) !== iso ? Number.NaN : instant
}

/**
 * Whether a text follows the grammar of run ids exactly. Nothing else may come near a path.
 *
 * @category guards
 * @since 0.1.0
 */
export const isRunId = (text: string): text is RunId => !Number.isNaN(instantOf(text))

/**
 * A checked run id.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunId = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(grammar, { expected: "a run id such as 20261130T142233123Z-k3f9x2mq" }),
    Schema.makeFilter((text: string) => !Number.isNaN(instantOf(text)), { expected: "a run id with a real date" })
  ),
  Schema.brand("leasehold/RunId")
)

/**
 * @category models
 * @since 0.1.0
 */
export type RunId = typeof RunId.Type

/**
 * A text that was to name a run and does not follow the grammar.
 *
 * @category errors
 * @since 0.1.0
 */
export class MalformedRunId extends Schema.TaggedError<MalformedRunId>()("MalformedRunId", {
  text: Schema.String
}) {
  override get message() {
    const shown = this.text.length > 60 ? `${this.text.slice(0, 57)}...` : this.text
    return `${JSON.stringify(shown)} is not a run id; one looks like 20261130T142233123Z-k3f9x2mq`
  }
}

/**
 * Checks a text from outside.
 *
 * @category constructors
 * @since 0.1.0
 */
export const parse = (text: string): Result.Result<RunId, MalformedRunId> =>
  isRunId(text) ? Result.succeed(text) : Result.fail(new MalformedRunId({ text }))

/**
 * The id of a run that starts at an instant, from eight numbers between 0 and 35.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromParts = (startedAt: DateTime.Utc, entropy: ReadonlyArray<number>): RunId => {
  const stamp = DateTime.formatIso(startedAt).replaceAll(/[-:.]/g, "")
  const suffix = Array.from({ length: 8 }, (_, index) => alphabet[(entropy[index] ?? 0) % alphabet.length]).join("")
  return `${stamp}-${suffix}` as RunId
}

/**
 * A fresh id for a run that starts now.
 *
 * @category constructors
 * @since 0.1.0
 */
export const generate: Effect.Effect<RunId> = Effect.gen(function*() {
  const now = yield* DateTime.now
  const entropy: Array<number> = []
  for (let index = 0; index < 8; index++) {
    entropy.push(yield* Random.nextIntBetween(0, alphabet.length, { halfOpen: true }))
  }
  return fromParts(now, entropy)
})

/**
 * When the run of this id started, to the millisecond.
 *
 * @category getters
 * @since 0.1.0
 */
export const startedAt = (id: RunId): DateTime.Utc => DateTime.makeUnsafe(instantOf(id))

const dayGrammar = /^\d{4}-\d{2}-\d{2}$/u

/**
 * Whether a text is written as the names of day directories are.
 *
 * @category guards
 * @since 0.1.0
 */
export const isDay = (text: string): boolean => dayGrammar.test(text)

/**
 * The name of the day directory, `2026-11-30`, that the bundle of this id lies in.
 *
 * @category getters
 * @since 0.1.0
 */
export const day = (id: RunId): string => `${id.slice(0, 4)}-${id.slice(4, 6)}-${id.slice(6, 8)}`

/**
 * Whether a name in a day directory is that of a run which lies there.
 *
 * @internal
 */
export const isOfDay = (name: string, directory: string): name is RunId => isRunId(name) && day(name) === directory
