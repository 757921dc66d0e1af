/**
 * How a policy is refused: by the name of the field, with what it had, and with what to write.
 *
 * @since 0.1.0
 */
import * as Formatter from "effect/Formatter"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Field } from "./RetentionPolicy.ts"
import { problemOf, refusalOf, splitGlobs, splitTrim } from "./TrimGlobs.ts"
import { parseBytes, parseDuration, type UnitError } from "./Units.ts"

const count = "write a whole number from 1, such as 10"
const length = "write a length of time above zero, such as 14d"
const size = "write a size above zero, such as 2GiB"
const expected: { readonly [F in Field]: string } = {
  maxBundles: count,
  maxAge: length,
  maxBytes: size,
  minFree: size,
  all: "write true or false",
  keepLast: count,
  keepHourly: count,
  keepDaily: count,
  keepWeekly: count,
  keepMonthly: count,
  keepYearly: count,
  keepWithin: length,
  keepTag: "write one or more tags, each as key or key=value",
  keepStatus: "write one or more of ok, error, interrupted and crashed",
  groupBy: "write name or tag:KEY",
  trim: "write a length of time above zero, such as 7d, with globs behind a colon if it is not temp/** that is to go",
  archive: length.replace("14d", "30d"),
  archiveMaxAge: length,
  archiveMaxBytes: size
}

/** Who writes zero here may mean everything. */
const mayMeanAll: ReadonlySet<Field> = new Set<Field>(["maxBundles", "maxAge", "maxBytes"])

/**
 * The names of the fields, limits first.
 *
 * @category constants
 * @since 0.1.0
 */
export const fieldNames = Object.keys(expected) as ReadonlyArray<Field>

/** @internal */
export const isField = (name: string): name is Field => Object.hasOwn(expected, name)

/**
 * A policy that was refused: the field, the value it had, and what to write. `field` is `policy` where the whole is no
 * policy at all, and the name as it was written where there is no such field. `origin` is the variable or the file that
 * it was read from, and `forAll` what to write there if everything is to go, which may have been meant.
 *
 * @category errors
 * @since 0.1.0
 */
export class PolicyError extends Schema.TaggedError<PolicyError>()("PolicyError", {
  field: Schema.String,
  value: Schema.String,
  expected: Schema.String,
  forAll: Schema.optionalKey(Schema.String),
  origin: Schema.optionalKey(Schema.String)
}) {
  override get message(): string {
    const origin = this.origin === undefined ? "" : `${this.origin}: `
    const forAll = this.forAll === undefined ? "" : `; to remove every finished bundle write ${this.forAll}`
    return this.field === "policy" || isField(this.field)
      ? `retention: ${origin}${this.field} cannot be ${this.value}: ${this.expected}${forAll}`
      : `retention: ${origin}there is no field ${this.field}: ${this.expected}`
  }
}

/**
 * The same, with where it was read, and how one says there that all is to go.
 *
 * @category errors
 * @since 0.1.0
 */
export const from = (origin: string, { expected, field, forAll, value }: PolicyError, saysAll = forAll): PolicyError =>
  new PolicyError({
    expected,
    field,
    value,
    origin,
    ...(forAll === undefined || saysAll === undefined ? {} : { forAll: saysAll })
  })

const shorten = (text: string) => text.length > 60 ? `${text.slice(0, 57)}...` : text

const show = (value: unknown): string => shorten(Formatter.format(value))

const lengths: ReadonlySet<Field> = new Set<Field>(["maxAge", "keepWithin", "archive", "archiveMaxAge"])

/** @internal */
export const isSizeField = (field: Field): boolean =>
  field === "maxBytes" || field === "minFree" || field === "archiveMaxBytes"

const faultIn = (result: Result.Result<unknown, UnitError>) =>
  Result.isFailure(result) ? result.failure.expected : undefined

const globsIn = (paths: unknown): ReadonlyArray<unknown> =>
  typeof paths === "string" ? splitGlobs(paths).map((glob) => glob.trim()) : Array.isArray(paths) ? paths : []

const faultInTrim = (value: unknown): string | undefined => {
  const { after, paths }: { after?: unknown; paths?: unknown } = typeof value === "string"
    ? splitTrim(value)
    : Object(value)
  const fault = typeof after === "string" ? faultIn(parseDuration(after)) : undefined
  if (fault !== undefined) return fault
  const refusals = globsIn(paths).flatMap((glob) => {
    const problem = typeof glob === "string" ? problemOf(glob) : undefined
    return problem === undefined ? [] : [refusalOf(String(glob), problem)]
  })
  return refusals[0]
}

/** A text that is no length, size or glob at all has more to be said of it than what the field is for. */
const faultOf = (field: Field, value: unknown): string | undefined => {
  if (field === "trim") return faultInTrim(value)
  if (typeof value !== "string") return undefined
  if (lengths.has(field)) return faultIn(parseDuration(value))
  return isSizeField(field) ? faultIn(parseBytes(value)) : undefined
}

/** @internal */
export const bad = (field: Field, value: unknown): PolicyError => {
  const fault = faultOf(field, value)
  return new PolicyError({
    field,
    value: show(value),
    expected: fault ?? expected[field],
    ...(fault === undefined && mayMeanAll.has(field) ? { forAll: "all: true" } : {})
  })
}

/** @internal */
export const noPolicy = (value: unknown, expected: string): PolicyError =>
  new PolicyError({ field: "policy", value: show(value), expected })

/** @internal */
export const noObject = (value: unknown, why = ""): PolicyError =>
  noPolicy(value, `${why}write an object such as {"maxAge": "14d"}`)

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z]/g, "")

/** How many letters it takes to make one word of the other. */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1]
    for (const [index, against] of [...other].entries()) {
      const swap = (row[index] ?? 0) + (letter === against ? 0 : 1)
      next.push(Math.min(swap, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}

const nearest = (name: string): string | undefined => {
  const ranked = fieldNames.map((known) => ({ known, away: distance(plain(shorten(name)), plain(known)) }))
  const best = ranked.sort((one, other) => one.away - other.away)[0]
  return best !== undefined && best.away <= 3 && best.away * 2 < best.known.length ? best.known : undefined
}

/** @internal */
export const unknownField = (name: string, value: unknown): PolicyError =>
  new PolicyError({
    field: shorten(name),
    value: show(value),
    expected: `write ${nearest(name) ?? `one of ${fieldNames.join(", ")}`}`
  })
