/** The policy as flags, as a file and from the environment: one value and one kind of error, wherever it is stated. */
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { readGiven } from "../internal/GivenFile.ts"
import * as RetentionPolicy from "../RetentionPolicy.ts"
import { from } from "../RetentionPolicyError.ts"
import * as RetentionSources from "../RetentionSources.ts"
import { UsageError } from "./ExitCode.ts"

type Field = RetentionPolicy.Field

const flagName = (field: Field) => RetentionSources.flagOf(field).slice("--".length)

const text = (field: Field, metavar: string, description: string) =>
  Flag.String(flagName(field)).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

const list = (field: Field, metavar: string, description: string) =>
  Flag.String(flagName(field)).pipe(
    Flag.withMetavar(metavar),
    Flag.withDescription(`${description}; may be given more than once`),
    Flag.between(0, 100)
  )

/** Texts only: the schema of the policy reads them, as it reads a file. */
export const policyFlags = {
  policy: Flag.String("policy").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription("A policy as JSON; flags given beside it stand in place of its fields"),
    Flag.optional
  ),
  maxBundles: text("maxBundles", "N", "Remove the oldest finished runs while the store holds more than N"),
  maxAge: text("maxAge", "AGE", "Remove finished runs that ended longer ago, as in \"14 days\""),
  maxBytes: text("maxBytes", "SIZE", "Remove the oldest while the finished runs take up more, as in \"2 GiB\""),
  minFree: text("minFree", "SIZE", "Remove the oldest while the file system has less free"),
  all: Flag.Boolean("all").pipe(Flag.withDescription("Remove every finished run"), Flag.withDefault(false)),
  keepLast: text("keepLast", "N", "Keep the newest N finished runs"),
  keepHourly: text("keepHourly", "N", "Keep the newest of each of the last N hours that have runs"),
  keepDaily: text("keepDaily", "N", "The same for days"),
  keepWeekly: text("keepWeekly", "N", "The same for weeks"),
  keepMonthly: text("keepMonthly", "N", "The same for months"),
  keepYearly: text("keepYearly", "N", "The same for years"),
  keepWithin: text("keepWithin", "AGE", "Keep runs that ended at most this long ago"),
  keepTag: list("keepTag", "KEY[=VALUE]", "Keep runs with this tag"),
  keepStatus: list("keepStatus", "STATUS", "Keep runs of this status"),
  groupBy: text("groupBy", "name|tag:KEY", "Apply the rules to each group by itself"),
  trim: text(
    "trim",
    "AGE[:GLOBS]",
    "Trim runs that ended longer ago, of temp/** or of other globs with commas between"
  ),
  archive: text("archive", "AGE", "Archive runs that ended longer ago"),
  archiveMaxAge: text("archiveMaxAge", "AGE", "Remove archives of runs that ended longer ago"),
  archiveMaxBytes: text("archiveMaxBytes", "SIZE", "Remove the oldest archives while they take up more")
}

type PolicyFlags = {
  readonly [Key in keyof typeof policyFlags]: (typeof policyFlags)[Key] extends Flag.Flag<infer A> ? A : never
}

const maxPolicyBytes = 64 * 1024

const isGiven = (value: unknown) =>
  value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0)

const given = (flags: PolicyFlags): Record<string, unknown> =>
  Object.fromEntries(
    RetentionPolicy.fieldNames
      .map((field) => [field, flags[field]] as const)
      .map(([field, value]) => [field, Option.isOption(value) ? Option.getOrUndefined(value) : value] as const)
      .filter(([, value]) => isGiven(value))
  )

const fromFile = Effect.fnUntraced(function*(file: string) {
  const content = yield* readGiven(file, maxPolicyBytes).pipe(
    Effect.mapError((cause) => new UsageError(`the policy cannot be read: ${cause.message}`))
  )
  return yield* Effect.fromResult(
    Result.mapError(RetentionSources.fromJson(content), (error) => from(file, error))
  )
})

/** What a file says has been looked at by itself. */
const byFlag = (error: RetentionPolicy.PolicyError) => {
  const field = RetentionPolicy.fieldNames.find((name) => name === error.field)
  return field === undefined ? error : from(RetentionSources.flagOf(field), error, RetentionSources.flagOf("all"))
}

/** The policy that was stated: by flags over a file, else by the environment, else the standard one. */
export const policyOf = Effect.fnUntraced(function*(flags: PolicyFlags) {
  const stated = given(flags)
  const file = Option.isSome(flags.policy) ? yield* fromFile(flags.policy.value) : undefined
  if (file !== undefined || Object.keys(stated).length > 0) {
    return yield* Effect.fromResult(Result.mapError(RetentionPolicy.decode({ ...file, ...stated }), byFlag))
  }
  return (yield* Effect.fromResult(RetentionSources.fromEnv(process.env))) ?? RetentionPolicy.standard
})
