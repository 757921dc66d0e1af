import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Units from "../src/Units.ts"

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const KiB = 1024
const MiB = 1024 * KiB
const GiB = 1024 * MiB

const between = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))

const failureOf = <A>(result: Result.Result<A, Units.UnitError>): Units.UnitError => {
  if (Result.isSuccess(result)) assert.fail(`taken for ${String(result.success)}`)
  return result.failure
}

describe("Units", () => {
  describe("parseDuration", () => {
    it.each<[string, number]>([
      ["0s", 0],
      ["0", 0],
      ["0.0", 0],
      ["0 days", 0],
      ["1ms", 1],
      ["500 millis", 500],
      ["90s", 90 * second],
      ["5m", 5 * minute],
      ["2h", 2 * hour],
      ["14d", 14 * day],
      ["14 days", 14 * day],
      ["1 day", day],
      ["1 week", 7 * day],
      ["2w", 14 * day],
      ["1.5 hours", 90 * minute],
      ["0.5d", 12 * hour],
      ["1h30m", 90 * minute],
      ["1h 30m", 90 * minute],
      ["1w 2d 3h 4m 5s 6ms", 9 * day + 3 * hour + 4 * minute + 5 * second + 6],
      ["  7d\n", 7 * day],
      ["2H", 2 * hour],
      ["5 Minutes", 5 * minute],
      ["10 MINS", 10 * minute],
      ["250us", 0.25],
      ["250\u00b5s", 0.25],
      ["10 nanos", 0.00001],
      ["007d", 7 * day],
      ["3650000d", 3_650_000 * day]
    ])("%j", (text, millis) => {
      const parsed = Result.getOrThrow(Units.parseDuration(text))
      assert.strictEqual(Duration.toMillis(parsed), millis)
    })

    it.each<[string, RegExp]>([
      ["", /missing.*14d/],
      ["  ", /missing/],
      ["10", /10 of what\? write 10s, 10m, 10h or 10d/],
      ["1.5", /1\.5 of what\? write 1\.5s/],
      ["-5m", /negative/],
      ["-1", /negative/],
      ["\u22125m", /negative/],
      ["-Infinity", /negative/],
      ["NaN", /not a duration.*14d/],
      ["Infinity", /not a duration/],
      ["infinity days", /not a duration/],
      ["1e400", /plain digits/],
      ["1e3s", /plain digits/],
      ["1e-3 days", /plain digits/],
      ["1 month", /no fixed length.*30d/],
      ["6mo", /no fixed length/],
      ["2 years", /no fixed length/],
      ["1y", /no fixed length/],
      ["1d 2 months", /no fixed length/],
      ["5M", /minutes or months; write 5m/],
      ["5 parsecs", /unknown unit "parsecs"/],
      ["5x", /unknown unit "x"/],
      ["d", /not a duration/],
      ["1,5h", /not a duration/],
      ["1.h", /not a duration/],
      [".5h", /not a duration/],
      ["+5m", /not a duration/],
      ["1h30", /not a duration/],
      ["30m1h", /largest to the smallest/],
      ["1h1h", /each once/],
      ["1d, 2h", /not a duration/],
      ["0x10s", /unknown unit "x"/],
      ["\uff11d", /not a duration/],
      ["3650001d", /the most is 3650000d/],
      ["3650000d 1ns", /the most is/],
      [`${"9".repeat(60)}w`, /the most is/],
      ["9".repeat(400), /too long/],
      [`1.${"0".repeat(1_000_000)}d`, /too long/]
    ])("%j is refused", (text, why) => {
      const error = failureOf(Units.parseDuration(text))
      assert.strictEqual(error._tag, "UnitError")
      assert.strictEqual(error.text, text)
      assert.match(error.message, why)
      if (text.length < 40) assert.isTrue(error.message.startsWith(`${JSON.stringify(text)}: `))
      assert.isBelow(error.message.length, 160)
    })
  })

  describe("parseBytes", () => {
    it.each<[string, number]>([
      ["0", 0],
      ["0B", 0],
      ["1B", 1],
      ["4096", 4096],
      ["512 bytes", 512],
      ["1 byte", 1],
      ["512b", 512],
      ["10K", 10 * KiB],
      ["10k", 10 * KiB],
      ["10M", 10 * MiB],
      ["10G", 10 * GiB],
      ["1T", 1024 * GiB],
      ["10Ki", 10 * KiB],
      ["2 GiB", 2 * GiB],
      ["1.5 GiB", 1.5 * GiB],
      ["2gib", 2 * GiB],
      ["1kB", 1000],
      ["1KB", 1000],
      ["1kb".toUpperCase(), 1000],
      ["500MB", 500e6],
      ["500mb", 500e6],
      ["2GB", 2e9],
      ["1.1 KiB", 1126],
      ["0.0001K", 0],
      ["1.5", 1],
      [" 7 MiB\n", 7 * MiB],
      ["9007199254740991", Number.MAX_SAFE_INTEGER],
      ["7.99P", 8_995_940_255_672_565]
    ])("%j", (text, bytes) => {
      assert.strictEqual(Result.getOrThrow(Units.parseBytes(text)), bytes)
    })

    it.each<[string, RegExp]>([
      ["", /missing.*2GiB/],
      ["-1", /negative/],
      ["-2GiB", /negative/],
      ["NaN", /not a size/],
      ["Infinity", /not a size/],
      ["1e3", /plain digits/],
      ["1e400", /plain digits/],
      ["9007199254740992", /the most is 9007199254740991/],
      ["8PiB", /the most is/],
      ["1E", /the most is/],
      [`${"9".repeat(60)}B`, /the most is/],
      ["9".repeat(400), /too long/],
      ["5Mb", /may be bits; write MB or MiB/],
      ["5kb", /may be bits; write kB or KiB/],
      ["5 apples", /unknown unit "apples"/],
      ["5 MiBs", /unknown unit/],
      ["1ZiB", /unknown unit/],
      ["G", /not a size/],
      ["1,5G", /not a size/],
      ["1G 5M", /not a size/],
      ["0x10", /not a size/],
      ["1_000", /not a size/]
    ])("%j is refused", (text, why) => {
      const error = failureOf(Units.parseBytes(text))
      assert.strictEqual(error.text, text)
      assert.match(error.message, why)
      assert.isBelow(error.message.length, 160)
    })
  })

  describe("schemas", () => {
    it.effect("decode what the functions parse, and say why they refuse", () =>
      Effect.gen(function*() {
        const duration = Schema.decodeUnknownEffect(Units.DurationFromText)
        const bytes = Schema.decodeUnknownEffect(Units.BytesFromText)
        assert.strictEqual(Duration.toMillis(yield* duration("1h30m")), 90 * minute)
        assert.strictEqual(yield* bytes("2 GiB"), 2 * GiB)
        assert.match((yield* Effect.flip(duration("10"))).message, /10 of what\? write 10s/)
        assert.match((yield* Effect.flip(bytes("5Mb"))).message, /may be bits/)
        yield* Effect.flip(duration(10))
        yield* Effect.flip(bytes(10))
      }))

    it.effect("refuse to write what they could not read back", () =>
      Effect.gen(function*() {
        const encode = Schema.encodeEffect(Units.DurationFromText)
        assert.strictEqual(yield* encode(Duration.zero), "0s")
        assert.strictEqual(yield* encode(Duration.hours(26.5)), "1d 2h 30m")
        for (const bad of [Duration.infinity, Duration.negativeInfinity, Duration.seconds(-1), Duration.days(4e6)]) {
          yield* Effect.flip(encode(bad))
        }
        yield* Effect.flip(Schema.encodeEffect(Units.BytesFromText)(-1))
      }))

    it.effect.prop(
      "round-trip exactly",
      [between(0, Number.MAX_SAFE_INTEGER), between(0, 1e9)],
      ([bytes, nanos]) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* roundTrip(Units.BytesFromText, bytes), bytes)
          for (const duration of [Duration.nanos(BigInt(nanos)), Duration.millis(bytes % (3_650_000 * day))]) {
            assert.isTrue(Duration.equals(yield* roundTrip(Units.DurationFromText, duration), duration))
          }
        })
    )
  })

  it.each<[number, string]>([
    [0, "0 B"],
    [-0, "0 B"],
    [1, "1 B"],
    [999, "999 B"],
    [1023, "1023 B"],
    [1023.6, "1.0 KiB"],
    [1024, "1.0 KiB"],
    [1024 * 1.5, "1.5 KiB"],
    [MiB - 1, "1.0 MiB"],
    [1023.94 * KiB, "1023.9 KiB"],
    [1023.96 * KiB, "1.0 MiB"],
    [3.2 * MiB, "3.2 MiB"],
    [GiB - 1, "1.0 GiB"],
    [2 * GiB, "2.0 GiB"],
    [Number.MAX_SAFE_INTEGER, "8.0 PiB"],
    [-3.2 * MiB, "-3.2 MiB"],
    [-0.2, "0 B"],
    [Number.NaN, "unknown"],
    [Number.POSITIVE_INFINITY, "unknown"]
  ])("formatBytes(%d) is %j", (bytes, shown) => {
    assert.strictEqual(Units.formatBytes(bytes), shown)
  })

  it.each<[number, string]>([
    [0, "0ms"],
    [0.4, "0ms"],
    [12, "12ms"],
    [999.4, "999ms"],
    [999.5, "1s"],
    [1200, "1.2s"],
    [1000, "1s"],
    [9949, "9.9s"],
    [9950, "10s"],
    [59_000, "59s"],
    [59_499, "59s"],
    [59_500, "1m"],
    [2 * minute + 5 * second, "2m 5s"],
    [hour - 501, "59m 59s"],
    [hour - 500, "1h"],
    [3 * hour + 12 * minute, "3h 12m"],
    [day - 30_001, "23h 59m"],
    [day - 30_000, "1d"],
    [4 * day + 2 * hour, "4d 2h"],
    [5 * day - 1, "5d"],
    [400 * day, "400d"],
    [-90 * second, "-1m 30s"],
    [-0.4, "0ms"],
    [Number.NaN, "unknown"],
    [Number.NEGATIVE_INFINITY, "unknown"]
  ])("formatDuration(%d) is %j", (millis, shown) => {
    assert.strictEqual(Units.formatDuration(millis), shown)
  })

  it.each<[number, string]>([
    [0, "just now"],
    [minute - 1, "just now"],
    [1 - minute, "just now"],
    [minute, "1m ago"],
    [5 * minute, "5m ago"],
    [hour - 1, "59m ago"],
    [hour, "1h ago"],
    [3.9 * hour, "3h ago"],
    [day - 1, "23h ago"],
    [2 * day, "2d ago"],
    [400 * day, "400d ago"],
    [-5 * minute, "in 5m"],
    [-3 * hour, "in 3h"],
    [-2 * day, "in 2d"],
    [Number.NaN, "unknown"]
  ])("formatAgo(%d) is %j", (millis, shown) => {
    assert.strictEqual(Units.formatAgo(millis), shown)
  })

  // Exponents, so that every unit comes up as often as every other.
  const magnitudes = Arbitrary.map(between(0, 52_000), (thousandth) => Math.floor(2 ** (thousandth / 1000)))

  it.effect.prop("what is shown reads back as nearly the same", [magnitudes], ([value]) =>
    Effect.sync(() => {
      const bytes = Result.getOrThrow(Units.parseBytes(Units.formatBytes(value)))
      assert.isAtMost(Math.abs(bytes - value), value * 0.05)
      const duration = Units.formatDuration(value)
      assert.notMatch(duration, /\b(?:1\d{3}ms|60s|60m|24h)\b|\b0[smhd]/)
      assert.notMatch(Units.formatBytes(value), /1024\.0/)
      if (value < 3_650_000 * day) {
        const millis = Duration.toMillis(Result.getOrThrow(Units.parseDuration(duration)))
        assert.isAtMost(Math.abs(millis - value), value * 0.051)
      }
    }), { arbitrary: { runs: 2000 } })

  it.effect.prop(
    "no text makes the parsers throw",
    [Schema.String, between(0, 1e9)],
    ([any, number]) =>
      Effect.sync(() => {
        for (const text of [any, `${number}${any}`, `${any}${number}d`, `${number} ${any}s`]) {
          for (const parse of [Units.parseDuration, Units.parseBytes]) {
            const failure = Result.getFailure<unknown, Units.UnitError>(parse(text))
            if (Option.isSome(failure)) assert.strictEqual(failure.value.text, text)
          }
        }
      })
  )
})

const roundTrip = <A>(schema: Schema.Codec<A, string>, value: A) =>
  Schema.encodeEffect(schema)(value).pipe(Effect.flatMap(Schema.decodeEffect(schema)))
