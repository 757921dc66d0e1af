import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as RetentionPolicy from "../src/RetentionPolicy.ts"
import * as RetentionSources from "../src/RetentionSources.ts"
import * as RetentionWords from "../src/RetentionWords.ts"

const { decode } = RetentionPolicy
const { fromEnv, fromJson, toArgs, variableOf } = RetentionSources

const policy = (input: unknown) => Result.getOrThrow(decode(input))

const messageOf = (result: Result.Result<unknown, RetentionPolicy.PolicyError>) =>
  Result.isFailure(result) ? result.failure.message : undefined

const infinite: unknown = JSON.parse("1e400")

const counts = ["maxBundles", "keepLast", "keepHourly", "keepDaily", "keepWeekly", "keepMonthly", "keepYearly"]
const lengths = ["maxAge", "keepWithin"]
const sizes = ["maxBytes", "minFree"]

describe("reading", () => {
  it("a file, the environment, flags and code give the same value", () => {
    const code = policy({
      maxBundles: 200,
      maxAge: Duration.days(14),
      maxBytes: 2 * 1024 ** 3,
      minFree: "500 MiB",
      all: false,
      keepLast: 10,
      keepWithin: "36 hours",
      keepTag: ["release", "branch=main"],
      keepStatus: ["error"],
      groupBy: { tag: "job" }
    })
    const texts = {
      maxBundles: "200",
      maxAge: "14 days",
      maxBytes: "2GiB",
      minFree: "512000KiB",
      all: "false",
      keepLast: " 10 ",
      keepWithin: "1d12h",
      keepTag: "release, branch=main",
      keepStatus: "error",
      groupBy: "tag:job"
    }
    const variables = Object.fromEntries(
      RetentionPolicy.fieldNames.flatMap((field) =>
        Object.hasOwn(texts, field) ? [[variableOf(field), (texts as { [name: string]: string })[field]]] : []
      )
    )
    assert.deepStrictEqual(policy(texts), code)
    assert.deepStrictEqual(Result.getOrThrow(fromEnv({ ...variables, PATH: "/bin", LEASEHOLD_ROOT: "/r" })), code)
    assert.deepStrictEqual(Result.getOrThrow(fromJson(JSON.stringify(texts))), code)
    assert.deepStrictEqual(Schema.decodeSync(RetentionPolicy.RetentionPolicy)(texts), code)
    assert.deepStrictEqual(policy(code), code)
  })

  it("a field that is undefined is not there, and no variables are no policy", () => {
    assert.deepStrictEqual(policy({ maxAge: undefined, keepLast: 1 }), policy({ keepLast: 1 }))
    assert.isUndefined(Result.getOrThrow(fromEnv({ HOME: "/root", LEASEHOLD_RUN_ID: "x" })))
  })

  it("names of variables and flags", () => {
    assert.strictEqual(variableOf("maxBundles"), "LEASEHOLD_RETENTION_MAX_BUNDLES")
    assert.strictEqual(RetentionSources.flagOf("keepHourly"), "--keep-hourly")
    assert.strictEqual(RetentionSources.flagOf("all"), "--all")
  })

  const Input = Schema.Struct({
    maxBundles: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e9 }))),
    ageMillis: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1e12 }))),
    maxBytes: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 50 }))),
    all: Schema.optionalKey(Schema.Boolean),
    keepTag: Schema.optionalKey(Schema.NonEmptyArray(Schema.Literals(["a", "b=c", "d,e", " f"]))),
    groupBy: Schema.optionalKey(Schema.Literals(["name", "tag:x", "tag:name"]))
  })

  it.effect.prop(
    "what is written is read back as the same value, as JSON and as arguments",
    [Input],
    ([input]) =>
      Effect.sync(() => {
        const { ageMillis, ...rest } = input
        const value = policy(ageMillis === undefined ? rest : { ...rest, maxAge: Duration.millis(ageMillis) })
        assert.deepStrictEqual(Result.getOrThrow(fromJson(JSON.stringify(RetentionPolicy.encode(value)))), value)
        const flags: { [field: string]: unknown } = {}
        const args = [...toArgs(value)]
        while (args.length > 0) {
          const field = RetentionPolicy.fieldNames.find((name) => RetentionSources.flagOf(name) === args[0])!
          args.shift()
          if (field === "keepTag") flags[field] = [...(flags[field] as Array<string> | undefined ?? []), args.shift()]
          else flags[field] = field === "all" ? true : args.shift()
        }
        const { all, ...others } = value
        assert.deepStrictEqual(policy(flags), policy(all === true ? value : others))
      }),
    { arbitrary: { runs: 200, seed: 1 } }
  )
})

describe("refusals", () => {
  const bad: ReadonlyArray<readonly [fields: ReadonlyArray<string>, values: ReadonlyArray<unknown>]> = [
    [counts, [
      0,
      -1,
      1.5,
      Number.NaN,
      infinite,
      -Infinity,
      "0",
      "-1",
      "1.5",
      "ten",
      "",
      " ",
      "1e3",
      null,
      true,
      [],
      {}
    ]],
    [lengths, [0, 30, -1, Number.NaN, infinite, "0 days", "-1 day", "30", "1 month", "", null, Duration.zero]],
    [lengths, [Duration.infinity, Duration.negativeInfinity, Duration.days(-1), ["1 day"]]],
    [sizes, [0, -1, 1.5, Number.NaN, infinite, "0", "0 B", "-1 GiB", "2 Gx", "", null, 2 ** 60]],
    [["all"], [0, 1, "yes", "", null]],
    [["keepTag"], [[], "", "a,", "=x", ["a", "=x"], [""], 1, null]],
    [["keepStatus"], [[], "", "running", ["ok", "running"], "OK", null]],
    [["groupBy"], ["host", "", "tag:", "tag", {}, { tag: "" }, null, ["name"]]]
  ]

  const cases = bad.flatMap(([fields, values]) => fields.map((field) => [field, values] as const))

  it.each(cases)("bug 48: %s has no such value, whoever gives it", (name, values) => {
    const field = RetentionPolicy.fieldNames.find((known) => known === name)!
    for (const value of values) {
      const error = Result.getOrThrow(Result.flip(decode({ keepLast: 5, [field]: value })))
      assert.strictEqual(error.field, field)
      assert.include(error.message, `${field} cannot be `)
      assert.include(error.message, "write ")
      assert.throws(() => Schema.decodeSync(RetentionPolicy.RetentionPolicy)({ [field]: value }), error.message)
      if (typeof value !== "string") continue
      assert.strictEqual(messageOf(fromJson(JSON.stringify({ [field]: value }))), error.message)
      const named = error.message
        .replace("retention: ", `retention: ${variableOf(field)}: `)
        .replace("all: true", "LEASEHOLD_RETENTION_ALL=true")
      assert.strictEqual(messageOf(fromEnv({ [variableOf(field)]: value })), named)
    }
  })

  it.each([
    [{ maxBundels: 5 }, "retention: there is no field maxBundels: write maxBundles"],
    [{ "max-age": "1 day" }, "retention: there is no field max-age: write maxAge"],
    [{ MaxAge: "1 day" }, "retention: there is no field MaxAge: write maxAge"],
    [{ keep_last: 1 }, "retention: there is no field keep_last: write keepLast"],
    [
      { maxBundles: 0 },
      "retention: maxBundles cannot be 0: write a whole number from 1, such as 10; to remove every " +
      "finished bundle write all: true"
    ],
    [
      { maxAge: "2 months" },
      "retention: maxAge cannot be \"2 months\": months and years have no fixed length; write " +
      "days or weeks, as in 30d or 52w"
    ],
    [
      { trim: "1s:../x" },
      "retention: trim cannot be \"1s:../x\": \"../x\" cannot say what to trim: each part between slashes must be a " +
      "name or a pattern, not empty, \".\" or \"..\""
    ],
    [
      { trim: { after: "1s", paths: ["temp/**", "run.json"] } },
      "retention: trim cannot be {\"after\":\"1s\",\"paths\":[\"temp/**\",\"run.json\"]}: \"run.json\" cannot say what to " +
      "trim: it is Leasehold's own, which is never trimmed"
    ],
    [
      { trim: "14:temp/**" },
      "retention: trim cannot be \"14:temp/**\": 14 of what? write 14s, 14m, 14h or 14d"
    ],
    [
      { trim: "0:temp/**" },
      "retention: trim cannot be \"0:temp/**\": write a length of time above zero, such as 7d, with globs behind a " +
      "colon if it is not temp/** that is to go"
    ],
    [[], "retention: policy cannot be []: write an object such as {\"maxAge\": \"14d\"}"],
    [undefined, "retention: policy cannot be undefined: write an object such as {\"maxAge\": \"14d\"}"]
  ])("%j is refused in words that help", (input, message) => {
    assert.strictEqual(messageOf(decode(input)), message)
  })

  it("a field nobody knows is refused from every origin, also when it has a strange name", () => {
    for (const name of ["zzz", "constructor", "toString", "__proto__"]) {
      const json = `{${JSON.stringify(name)}: 1, "keepLast": 3}`
      assert.include(messageOf(fromJson(json)), `there is no field ${name}: write one of maxBundles, maxAge, `)
      assert.include(messageOf(fromEnv({ [`LEASEHOLD_RETENTION_${name}`]: "1" })), `there is no field ${name}`)
      assert.throws(() => Schema.decodeSync(RetentionPolicy.RetentionPolicy)(JSON.parse(json)))
    }
    assert.strictEqual(
      messageOf(fromEnv({ LEASEHOLD_RETENTION_MAX_BUNDELS: "1" })),
      "retention: LEASEHOLD_RETENTION_MAX_BUNDELS: there is no field MAX_BUNDELS: write maxBundles"
    )
  })

  it("what is no JSON is no policy", () => {
    for (const text of ["", "{", "maxAge: 14d", "null", "3", "[{}]"]) {
      assert.include(messageOf(fromJson(text)), "policy cannot be")
    }
    assert.isBelow(messageOf(fromJson("x".repeat(1_000_000)))?.length ?? 0, 300)
    assert.match(
      messageOf(fromJson("{\"maxBundles\": 5,}")) ?? "",
      /it is no JSON \(.*position 17.*\); write an object/
    )
  })
})

describe("words", () => {
  it.each([
    [{}, "remove nothing"],
    [{ groupBy: "name" }, "remove nothing"],
    [{ all: true }, "remove every finished run, keep pinned ones"],
    [{ maxAge: "90m" }, "remove finished runs older than 90 minutes, keep pinned ones"],
    [
      { maxBundles: 1, keepLast: 1 },
      "remove the oldest finished runs beyond 1 bundle, keep pinned ones and the newest"
    ],
    [
      { maxBundles: 200, maxAge: "14 days", keepLast: 10, keepTag: ["release"] },
      "remove the oldest finished runs beyond 200 bundles or older than 14 days, keep pinned ones, the newest 10 and " +
      "those tagged release"
    ],
    [
      { maxBytes: "2 GiB", minFree: "1500 MiB", maxAge: "1d2h", groupBy: "tag:job" },
      "remove the oldest finished runs older than 26 hours, beyond 2 GiB in all or while less than 1500 MiB is free, " +
      "keep pinned ones; counts and keep rules are for each value of tag job"
    ],
    [
      { keepDaily: 7, keepMonthly: 1, keepWithin: "2h", keepStatus: ["error", "crashed"], groupBy: "name" },
      "remove every finished run, keep pinned ones, the newest of each of the last 7 days with runs, the newest of the " +
      "last month with runs, those that ended within 2 hours and those with status error or crashed; counts and keep " +
      "rules are for each name"
    ]
  ])("%j", (input, words) => {
    assert.strictEqual(RetentionWords.describe(policy(input)), words)
  })

  it("the default is bounded, spares the newest, and says so", () => {
    assert.strictEqual(
      RetentionWords.describe(RetentionPolicy.standard),
      "remove the oldest finished runs beyond 1000 bundles or older than 30 days, keep pinned ones and the newest 10"
    )
    assert.isTrue(RetentionPolicy.hasLimits(RetentionPolicy.standard))
    const stated = { maxBundles: 1000, maxAge: "30 days", keepLast: 10 }
    assert.deepStrictEqual<unknown>(RetentionPolicy.standard, RetentionPolicy.makeUnsafe(stated))
  })

  it("the arguments state the policy", () => {
    assert.deepStrictEqual(toArgs(policy({ maxAge: "14 days", maxBytes: "2 GiB", all: true, keepTag: "a,b=c" })), [
      "--max-age",
      "14d",
      "--max-bytes",
      "2GiB",
      "--all",
      "--keep-tag",
      "a",
      "--keep-tag",
      "b=c"
    ])
    assert.deepStrictEqual(toArgs(policy({})), [])
  })
})
