/**
 * Durations and sizes as people write and read them: `14d`, `1h30m`, `2 GiB`.
 *
 * What is read is exact, and what cannot be taken exactly is refused with what to write instead. What is shown is
 * rounded to what a person needs at a glance, so it is for listings and messages and never for a file.
 *
 * @since 0.1.0
 */
import * as ByteSize from "effect/ByteSize"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaTransformation from "effect/SchemaTransformation"

/**
 * A text that is no duration or no size. `expected` says what is wrong with it, and what to write.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnitError extends Schema.TaggedError<UnitError>()("UnitError", {
  text: Schema.String,
  expected: Schema.String
}) {
  override get message() {
    const shown = this.text.length > 40 ? `${this.text.slice(0, 37)}...` : this.text
    return `${JSON.stringify(shown)}: ${this.expected}`
  }
}

const refuse = (text: string, expected: string) => Result.fail(new UnitError({ text, expected }))

/** More than anybody writes, and little enough that the digits cost nothing to read. */
const maxLength = 64

// == durations

/**
 * The longest duration that is read: 10,000 years of 365 days. A date may be moved by it and still be a date.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxDuration: Duration.Duration = Duration.days(3_650_000)

const timeUnits: ReadonlyArray<readonly [unit: Duration.Unit, names: string]> = [
  ["weeks", "w wk wks week weeks"],
  ["days", "d day days"],
  ["hours", "h hr hrs hour hours"],
  ["minutes", "m min mins minute minutes"],
  ["seconds", "s sec secs second seconds"],
  ["millis", "ms msec msecs milli millis millisecond milliseconds"],
  ["micros", "us \u00b5s \u03bcs micro micros microsecond microseconds"],
  ["nanos", "ns nano nanos nanosecond nanoseconds"]
]

const timeUnitNames = new Map(
  timeUnits.flatMap(([unit, names], rank) => names.split(" ").map((name) => [name, { unit, rank }] as const))
)

const durationExamples = "write a number and a unit, as in 90s, 5m, 2h, 14d, 2 weeks or 1h30m"

const calendarUnit = /^(?:mo|mon|mons|mth|mths|months?|quarters?|y|yr|yrs|years?|decades?)$/

/**
 * Reads a duration: one or more numbers with their units, from the largest unit to the smallest, each once.
 *
 * **Details**
 *
 * Units are `w d h m s ms us ns` and their names in English, in any case but that `M` alone might be months. Zero is a
 * duration and needs no unit. A fraction is taken to the nanosecond.
 *
 * **Gotchas**
 *
 * Months and years are refused, since they have no fixed length, and so is any other number without a unit.
 *
 * @category constructors
 * @since 0.1.0
 */
export const parseDuration = (text: string): Result.Result<Duration.Duration, UnitError> => {
  const body = text.trim()
  if (body === "") return refuse(text, `a duration is missing; ${durationExamples}`)
  if (body.length > maxLength) return refuse(text, `too long for a duration; ${durationExamples}`)
  if (/^[-\u2212]/.test(body)) return refuse(text, "a duration cannot be negative; write it without the minus sign")
  if (/^[\d.]+$/.test(body)) {
    // Of whatever; it is for those who ask for a duration to refuse it.
    if (Number(body) === 0) return Result.succeed(Duration.zero)
    return refuse(
      text,
      `${body} of what? write ${["s", "m", "h"].map((unit) => `${body}${unit}`).join(", ")} or ${body}d`
    )
  }
  if (/^[\d.]+e[+-]?\d/i.test(body)) return refuse(text, "a duration has plain digits; write 1000s, not 1e3s")
  const part = /(\d+(?:\.\d+)?)\s*([A-Za-z\u00b5\u03bc]+)\s*/y
  let total = Duration.zero
  let smallest = -1
  for (let at = 0; at < body.length; at = part.lastIndex) {
    part.lastIndex = at
    const [, number = "", name = ""] = part.exec(body) ?? []
    if (name === "") return refuse(text, `not a duration; ${durationExamples}`)
    const lower = name.toLowerCase()
    const found = name === "M" ? undefined : timeUnitNames.get(lower)
    if (name === "M") return refuse(text, `M may be minutes or months; write ${number}m for minutes`)
    if (calendarUnit.test(lower)) {
      return refuse(text, "months and years have no fixed length; write days or weeks, as in 30d or 52w")
    }
    if (found === undefined) return refuse(text, `unknown unit ${JSON.stringify(name)}; ${durationExamples}`)
    if (found.rank <= smallest) {
      return refuse(text, "units go from the largest to the smallest, each once; write 1h30m, not 30m1h")
    }
    smallest = found.rank
    total = Duration.sum(total, Duration.fromInputUnsafe(`${number as `${number}`} ${found.unit}`))
  }
  return Duration.isLessThanOrEqualTo(total, maxDuration)
    ? Result.succeed(total)
    : refuse(text, `too long; the most is ${Duration.toDays(maxDuration)}d`)
}

/**
 * A duration as people write it, for options and configuration. It is written back exactly, as in `1d 2h 30m`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const DurationFromText = Schema.String.annotate({ description: "a duration such as 90s, 14d or 1h30m" }).pipe(
  Schema.decodeTo(
    Schema.Duration,
    SchemaTransformation.transformEffect({
      decode: (text: string, options) => orIssue(parseDuration(text), text, options),
      encode: (duration, options) => {
        const text = Duration.isZero(duration) ? "0s" : Duration.format(duration)
        return orIssue(Result.map(parseDuration(text), () => text), duration, options)
      }
    })
  )
)

// == sizes

/** `K` and `Ki` are binary, as `du -h` and Docker have it; `kB` is a thousand, as the standard has it. */
const byteUnits = new Map<string, ByteSize.Unit>([
  ["", "B"],
  ["b", "B"],
  ["byte", "B"],
  ["bytes", "B"],
  ...(["kB", "MB", "GB", "TB", "PB", "EB"] as const).map((unit) => [unit.toLowerCase(), unit] as const),
  ...(["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const).flatMap((unit) =>
    [unit, unit.slice(0, 2), unit.slice(0, 1)].map((name) => [name.toLowerCase(), unit] as const)
  )
])

const byteExamples = "write a number and a unit, as in 500MB, 2GiB or 10G"

/**
 * Reads a size in bytes.
 *
 * **Details**
 *
 * `K M G T P E` and `KiB MiB GiB …` are powers of 1,024; `kB MB GB …` are powers of 1,000. A number without a unit is
 * in bytes. Case does not matter, but that `Mb` might be bits. A fraction of a byte is dropped.
 *
 * @category constructors
 * @since 0.1.0
 */
export const parseBytes = (text: string): Result.Result<number, UnitError> => {
  const body = text.trim()
  if (body === "") return refuse(text, `a size is missing; ${byteExamples}`)
  if (body.length > maxLength) return refuse(text, `too long for a size; ${byteExamples}`)
  if (/^[-\u2212]/.test(body)) return refuse(text, "a size cannot be negative; write it without the minus sign")
  if (/^[\d.]+e[+-]?\d/i.test(body)) return refuse(text, "a size has plain digits; write 1000, not 1e3")
  const [, whole = "", fraction = "", name = ""] = /^(\d+)(?:\.(\d+))?\s*([A-Za-z]*)$/.exec(body) ?? []
  if (whole === "") return refuse(text, `not a size; ${byteExamples}`)
  if (/^[kKMGTPE]b$/.test(name)) {
    return refuse(text, `${name} may be bits; write ${name.slice(0, 1)}B or ${name.slice(0, 1).toUpperCase()}iB`)
  }
  const unit = byteUnits.get(name.toLowerCase())
  if (unit === undefined) return refuse(text, `unknown unit ${JSON.stringify(name)}; ${byteExamples}`)
  return ByteSize.fromString(`${whole}${fraction}${unit}`).pipe(
    Option.flatMap((size) => ByteSize.divide(size, 10n ** BigInt(fraction.length))),
    Option.flatMap(ByteSize.toNumber),
    Option.match({
      onNone: () => refuse(text, `too large; the most is ${Number.MAX_SAFE_INTEGER} bytes, a little less than 8PiB`),
      onSome: (bytes) => Result.succeed(bytes)
    })
  )
}

/**
 * A size as people write it, for options and configuration. It is written back exactly, in bytes.
 *
 * @category schemas
 * @since 0.1.0
 */
export const BytesFromText = Schema.String.annotate({ description: "a size such as 500MB, 2GiB or 10G" }).pipe(
  Schema.decodeTo(
    Schema.Natural,
    SchemaTransformation.transformEffect({
      decode: (text: string, options) => orIssue(parseBytes(text), text, options),
      encode: (bytes) => Effect.succeed(`${bytes}B`)
    })
  )
)

const orIssue = <A>(
  result: Result.Result<A, UnitError>,
  input: unknown,
  options: ConstructorParameters<typeof SchemaIssue.InvalidValue>[2]
): Effect.Effect<A, SchemaIssue.Issue> =>
  Effect.fromResult(
    Result.mapError(result, (error) => new SchemaIssue.InvalidValue({ message: error.message }, input, options))
  )

// == showing

const unknown = "unknown"

/**
 * A size for people: `0 B`, `999 B`, `1.0 KiB`, `3.2 MiB`.
 *
 * @category formatting
 * @since 0.1.0
 */
export const formatBytes = (bytes: number): string => {
  if (!Number.isFinite(bytes)) return unknown
  const size = Math.round(Math.abs(bytes))
  const sign = bytes < 0 && size > 0 ? "-" : ""
  if (size < 1024) return `${sign}${size} B`
  return sign + ByteSize.format(ByteSize.bytes(BigInt(size)), { system: "binary", precision: 1, trailingZeros: true })
}

const join = (large: number, largeUnit: string, small: number, smallUnit: string): string =>
  small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit} ${small}${smallUnit}`

/**
 * A length of time for people, in its two largest units: `12ms`, `1.2s`, `59s`, `2m 5s`, `3h 12m`, `4d 2h`.
 *
 * @category formatting
 * @since 0.1.0
 */
export const formatDuration = (millis: number): string => {
  if (!Number.isFinite(millis)) return unknown
  const length = Math.abs(millis)
  const sign = millis < 0 && length >= 0.5 ? "-" : ""
  return sign + lengthOf(length)
}

/** Rounds first and picks the unit by what came of it, or 59.6 seconds would be `60s`. */
const lengthOf = (millis: number): string => {
  if (Math.round(millis) < 1000) return `${Math.round(millis)}ms`
  const tenths = Math.round(millis / 100)
  if (tenths < 100) return `${tenths / 10}s`
  const seconds = Math.round(millis / 1000)
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return join(Math.floor(seconds / 60), "m", seconds % 60, "s")
  const minutes = Math.round(millis / 60_000)
  if (minutes < 1440) return join(Math.floor(minutes / 60), "h", minutes % 60, "m")
  const hours = Math.round(millis / 3_600_000)
  return join(Math.floor(hours / 24), "d", hours % 24, "h")
}

/**
 * How long ago something was, for people: `just now`, `5m ago`, `3h ago`, `2d ago`, and `in 3h` where the time is
 * negative. Only what has wholly passed is counted: what is `2d ago` is at least two days old.
 *
 * @category formatting
 * @since 0.1.0
 */
export const formatAgo = (millis: number): string => {
  if (!Number.isFinite(millis)) return unknown
  const minutes = Math.floor(Math.abs(millis) / 60_000)
  if (minutes === 0) return "just now"
  const hours = Math.floor(minutes / 60)
  const shown = hours === 0 ? `${minutes}m` : hours < 24 ? `${hours}h` : `${Math.floor(hours / 24)}d`
  return millis < 0 ? `in ${shown}` : `${shown} ago`
}
