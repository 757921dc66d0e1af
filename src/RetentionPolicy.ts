/**
 * What retention is to keep and to remove, as one value: the same from a policy file, from the environment, from flags
 * and from code, with the same errors.
 *
 * *Limits* (`maxBundles`, `maxAge`, `maxBytes`, `minFree`, `all`) say when something must go; *keep rules* (`keepLast`,
 * `keepHourly` to `keepYearly`, `keepWithin`, `keepTag`, `keepStatus`) say what is spared. With limits, unspared
 * finished bundles go, oldest first, until the limits hold. With keep rules alone, every unspared finished bundle goes.
 * Without either nothing goes.
 *
 * *Tiers* (`trim`, `archive`) say what becomes of the bundles that stay, once they have been over for so long; and
 * archives have limits of their own (`archiveMaxAge`, `archiveMaxBytes`).
 *
 * Zero is no value of any field: to one reader a count of zero means everything and to another nothing. Who wants every
 * finished bundle gone writes `all: true`. Zero, negative and non-finite values, empty lists and fields that do not
 * exist are refused, so that a misspelt limit is never silently no limit.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { bad, fieldNames, isField, noObject, noPolicy, type PolicyError, unknownField } from "./RetentionPolicyError.ts"
import type { Period } from "./RetentionReason.ts"
import { defaultPaths, maxGlobs, problemOf, splitGlobs, splitTrim } from "./TrimGlobs.ts"
import { BytesFromText, DurationFromText, maxDuration } from "./Units.ts"

// == the fields

const PositiveInt = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

const Count = Schema.Union([
  PositiveInt,
  Schema.String.check(Schema.isPattern(/^\s*\d+\s*$/)).pipe(
    Schema.decodeTo(PositiveInt, SchemaTransformation.transform({ decode: Number, encode: String }))
  )
])

const isLength = Schema.makeFilter((length: Duration.Duration) =>
  Duration.isPositive(length) && Duration.isLessThanOrEqualTo(length, maxDuration)
)

const Length = Schema.Union([DurationFromText.check(isLength), Schema.Duration.check(isLength)])

const Size = Schema.Union([PositiveInt, BytesFromText.check(Schema.isGreaterThanOrEqualTo(1))])

const byCommas = (text: string): ReadonlyArray<string> => text.split(",")

/** A list, or its members in one text with commas between, as an environment variable has to give them. */
const listOf = <S extends Schema.Codec<string, string>>(member: S, split = byCommas) =>
  Schema.Union([
    Schema.NonEmptyArray(member),
    Schema.String.pipe(
      Schema.decodeTo(
        Schema.NonEmptyArray(member),
        SchemaTransformation.transform({
          decode: (text): readonly [string, ...Array<string>] => {
            const [first = "", ...rest] = split(text).map((part) => part.trim())
            return [first, ...rest]
          },
          encode: (members) => members.join(",")
        })
      )
    )
  ])

const GroupByValue = Schema.Union([Schema.Literal("name"), Schema.Struct({ tag: Schema.NonEmptyString })])

const GroupByText = Schema.String.check(Schema.isPattern(/^(name|tag:[^]+)$/)).pipe(
  Schema.decodeTo(
    GroupByValue,
    SchemaTransformation.transform({
      decode: (text) => text === "name" ? "name" as const : { tag: text.slice("tag:".length) },
      encode: (by) => by === "name" ? by : `tag:${by.tag}`
    })
  )
)

/**
 * What makes a group: the name of the run, or the value of one of its tags. As text `name` and `tag:KEY`.
 *
 * @category models
 * @since 0.1.0
 */
export type GroupBy = typeof GroupByValue.Type

const Globs = listOf(
  Schema.String.check(Schema.makeFilter((glob: string) => problemOf(glob) === undefined)),
  splitGlobs
).check(Schema.makeFilter((globs: ReadonlyArray<string>) => globs.length <= maxGlobs))

const Trim = Schema.Struct({
  after: Length,
  paths: Globs.pipe(Schema.withDecodingDefaultKey(Effect.succeed(defaultPaths)))
})

/** `7 days`, or `7 days: temp/**, artifacts/*.img`. */
const TrimText = Schema.String.pipe(
  Schema.decodeTo(
    Trim,
    SchemaTransformation.transform({
      decode: (text): typeof Trim.Encoded => splitTrim(text),
      encode: ({ after, paths }: typeof Trim.Encoded) =>
        `${String(after)}${paths === undefined ? "" : `:${String(paths)}`}`
    })
  )
)

const Archive = Schema.Struct({ after: Length })

const ArchiveText = Schema.String.pipe(
  Schema.decodeTo(
    Archive,
    SchemaTransformation.transform({
      decode: (after): typeof Archive.Encoded => ({ after }),
      encode: ({ after }) => String(after)
    })
  )
)

const Flag = Schema.Union([
  Schema.Boolean,
  Schema.Literals(["true", "false"]).pipe(
    Schema.decodeTo(
      Schema.Boolean,
      SchemaTransformation.transform({
        decode: (text) => text === "true",
        encode: (flag) => flag ? "true" as const : "false" as const
      })
    )
  )
])

/** The fields, each with the forms it may be written in. By itself a struct would drop what it does not know. */
const Fields = Schema.Struct({
  maxBundles: Schema.optionalKey(Count),
  maxAge: Schema.optionalKey(Length),
  maxBytes: Schema.optionalKey(Size),
  minFree: Schema.optionalKey(Size),
  all: Schema.optionalKey(Flag),
  keepLast: Schema.optionalKey(Count),
  keepHourly: Schema.optionalKey(Count),
  keepDaily: Schema.optionalKey(Count),
  keepWeekly: Schema.optionalKey(Count),
  keepMonthly: Schema.optionalKey(Count),
  keepYearly: Schema.optionalKey(Count),
  keepWithin: Schema.optionalKey(Length),
  keepTag: Schema.optionalKey(listOf(Schema.String.check(Schema.isPattern(/^[^=]/)))),
  keepStatus: Schema.optionalKey(listOf(Schema.Literals(["ok", "error", "interrupted", "crashed"]))),
  groupBy: Schema.optionalKey(Schema.Union([GroupByText, GroupByValue])),
  trim: Schema.optionalKey(Schema.Union([Trim, TrimText])),
  archive: Schema.optionalKey(Schema.Union([Archive, ArchiveText])),
  archiveMaxAge: Schema.optionalKey(Length),
  archiveMaxBytes: Schema.optionalKey(Size)
}).pipe(Schema.brand("leasehold/RetentionPolicy"))

/**
 * The name of a field.
 *
 * @category models
 * @since 0.1.0
 */
export type Field = keyof typeof Fields.Encoded

/**
 * A checked policy. Durations and sizes are values here, whatever text they came from.
 *
 * @category models
 * @since 0.1.0
 */
export type RetentionPolicy = typeof Fields.Type

/**
 * What a policy may be written as in code or JSON, all fields optional: counts as numbers, lengths of time as
 * `"14 days"` or a `Duration`, sizes as `"2 GiB"` or a number of bytes.
 *
 * @category models
 * @since 0.1.0
 */
export type PolicyInput = typeof Fields.Encoded

export { fieldNames, PolicyError } from "./RetentionPolicyError.ts"

// == reading and writing

const decodeFields = Schema.decodeUnknownResult(Fields)

/**
 * Reads a policy from a value of any origin: a parsed file, flags, or code. A field that is `undefined` is not there. A
 * policy that was read already is read as itself.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (input: unknown): Result.Result<RetentionPolicy, PolicyError> => {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    return Result.fail(noObject(input))
  }
  const given = new Map(Object.entries(input).filter(([, value]) => value !== undefined))
  for (const [name, value] of given) if (!isField(name)) return Result.fail(unknownField(name, value))
  return Result.mapError(decodeFields(Object.fromEntries(given)), (error) => {
    const field = fieldNames.find((name) =>
      given.has(name) && Result.isFailure(decodeFields({ [name]: given.get(name) }))
    )
    return field === undefined ? noPolicy(input, error.message) : bad(field, given.get(field))
  })
}

/**
 * A policy from code that knows what it writes. Throws a {@link PolicyError}.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeUnsafe = (input: PolicyInput): RetentionPolicy => Result.getOrThrow(decode(input))

/**
 * A policy as a schema, for a larger file that holds one or for flags. It refuses what {@link decode} refuses, in the
 * same words, and writes lengths of time as text.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RetentionPolicy = Schema.Unknown.pipe(
  Schema.decodeTo(
    Schema.toType(Fields),
    SchemaTransformation.transformEffect({
      decode: (input, options) =>
        Effect.mapError(
          Effect.fromResult(decode(input)),
          (error) => new SchemaIssue.InvalidValue({ message: error.message }, input, options)
        ),
      encode: (policy) => Effect.succeed(encode(policy))
    })
  )
)

/**
 * The policy as JSON, which {@link decode} reads back as the same value.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode: (policy: RetentionPolicy) => PolicyInput = Schema.encodeSync(Fields)

// == what a policy has

/**
 * The keep rules that count in spans of the calendar.
 *
 * @category constants
 * @since 0.1.0
 */
export const periodFields = [
  ["keepHourly", "hourly"],
  ["keepDaily", "daily"],
  ["keepWeekly", "weekly"],
  ["keepMonthly", "monthly"],
  ["keepYearly", "yearly"]
] as const satisfies ReadonlyArray<readonly [Field, Period]>

/**
 * @category guards
 * @since 0.1.0
 */
export const hasLimits = (policy: RetentionPolicy): boolean =>
  policy.maxBundles !== undefined || policy.maxAge !== undefined || policy.maxBytes !== undefined ||
  policy.minFree !== undefined || policy.all === true

/**
 * @category guards
 * @since 0.1.0
 */
export const hasKeepRules = (policy: RetentionPolicy): boolean =>
  policy.keepLast !== undefined || policy.keepWithin !== undefined || policy.keepTag !== undefined ||
  policy.keepStatus !== undefined || periodFields.some(([field]) => policy[field] !== undefined)

/**
 * Whether the policy removes no bundle, whatever is in the store. It may have tiers all the same.
 *
 * @category guards
 * @since 0.1.0
 */
export const isEmpty = (policy: RetentionPolicy): boolean => !hasLimits(policy) && !hasKeepRules(policy)

/**
 * The policy of who states none: finished runs go when they ended more than 30 days ago or when the store holds more
 * than 1,000 bundles, and the newest 10 stay whatever their age.
 *
 * People look at the runs of the last weeks, so age alone does the work in most stores, and a job that runs once a month
 * keeps its last ten. The count is for what starts runs by the thousand: high enough that one batch does not push out
 * its own results while somebody still collects them, and low enough that a crash loop cannot fill a disk with small
 * bundles for a month. There is no limit in bytes: what is large on one machine is little on another, and a default
 * that removed a big result because of its size would not be safe.
 *
 * @category constants
 * @since 0.1.0
 */
// Not read from its text: it is what nearly every pass has, and reading it would take as long as planning with it.
export const standard = { maxBundles: 1000, maxAge: Duration.days(30), keepLast: 10 } as RetentionPolicy
