import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { decide } from "../src/RetentionDecision.ts"
import * as RetentionPolicy from "../src/RetentionPolicy.ts"
import { fromEnv, fromJson, toArgs, variableOf } from "../src/RetentionSources.ts"
import { dueBefore, hasArchiveLimits, hasTiers, tierOf, withoutTiers } from "../src/RetentionTiers.ts"
import * as RetentionWords from "../src/RetentionWords.ts"
import { Policy, Store } from "./RetentionArbitraries.ts"
import { bundle, day, live, now, policy, removed } from "./RetentionFixtures.ts"

const both = policy({ trim: "3 days", archive: "10 days" })

describe("what a tier does with a bundle", () => {
  it.each<readonly [string, Parameters<typeof bundle>, string | undefined]>([
    ["that ended a while ago", [2 * day], undefined],
    ["that is due for trimming", [4 * day], "TrimAfter"],
    ["that has been trimmed", [4 * day, { trimmed: true }], undefined],
    ["that is due for both, is trimmed first", [11 * day], "TrimAfter"],
    ["that is due for both and has been trimmed", [11 * day, { trimmed: true }], "ArchiveAfter"],
    ["that failed", [4 * day, { status: "error" }], "TrimAfter"],
    ["that crashed", [4 * day, { status: "crashed" }], "TrimAfter"],
    ["that is pinned", [400 * day, { pinned: true }], undefined],
    ["that is live", [400 * day, { liveness: "live" }], undefined],
    ["that is live with its outcome known", [400 * day, { liveness: "live", trimmed: true }], undefined],
    ["of which nothing certain is known", [400 * day, { liveness: "unknown" }], undefined],
    ["whose record cannot be read", [400 * day, { status: "unknown" }], undefined],
    ["that may be running", [400 * day, { status: "running", endedAt: undefined }], undefined],
    ["that says it ends in the future", [-400 * day, { trimmed: true }], undefined],
    [
      "that says so, and was seen ended long ago",
      [-400 * day, { firstSeenEnded: now - 20 * day, trimmed: true }],
      "ArchiveAfter"
    ]
  ])("%s", (_, facts, expected) => {
    assert.strictEqual(tierOf(bundle(...facts), both, now)?._tag, expected)
  })

  it("counts from the end, and not from the start", () => {
    assert.isUndefined(tierOf(bundle(100 * day, { endedAt: now - day }), both, now))
    const at = (endedAt: number) => tierOf(bundle(100 * day, { endedAt }), both, now)?._tag
    assert.deepStrictEqual([at(now - 3 * day), at(now - 3 * day - 1)], [undefined, "TrimAfter"])
    assert.strictEqual(dueBefore({ after: Duration.days(3) }, now), now - 3 * day)
  })

  it("only of a policy that has one", () => {
    assert.isUndefined(tierOf(bundle(400 * day), policy({ maxBundles: 1, archiveMaxAge: "1 day" }), now))
    assert.strictEqual(tierOf(bundle(400 * day), policy({ archive: "1 day" }), now)?._tag, "ArchiveAfter")
    assert.deepStrictEqual([{}, { trim: "1d" }, { archive: "1d" }].map((input) => hasTiers(policy(input))), [
      false,
      true,
      true
    ])
    assert.deepStrictEqual(withoutTiers(policy({ trim: "1d", archive: "2d", maxAge: "3d" })), policy({ maxAge: "3d" }))
    assert.isTrue(hasArchiveLimits(policy({ archiveMaxBytes: "1 GiB" })) && !hasArchiveLimits(both))
  })
})

const lengths = Schema.Literals(["1 hour", "30 hours", "200 hours", "1500 hours"])
const Tiers = Arbitrary.schema(Schema.Struct({
  trim: Schema.optionalKey(lengths),
  archive: Schema.optionalKey(lengths),
  archiveMaxAge: Schema.optionalKey(lengths)
}))

const actions = (plan: ReturnType<typeof decide>) =>
  new Map(plan.decisions.map(({ action, id, reason }) => [id, `${action} ${reason._tag}`]))

describe("whatever the store and the policy", () => {
  const options = { arbitrary: { runs: 150, seed: 11 } }

  it.effect.prop(
    "tiers change nothing of what is removed, and why",
    [Store, Policy, Tiers],
    ([store, rules, tiers]) =>
      Effect.sync(() => {
        const plain = decide(store, policy(rules), now, undefined)
        const tiered = decide(store, policy({ ...rules, ...tiers }), now, undefined)
        assert.deepStrictEqual(removed(tiered), removed(plain))
        const before = actions(plain)
        for (const [id, action] of actions(tiered)) {
          const isTiered = action.startsWith("trim") || action.startsWith("archive")
          if (!isTiered) assert.strictEqual(action, before.get(id))
          else assert.match(before.get(id)!, /^keep /)
        }
      }),
    options
  )

  it.effect.prop("nothing that is pinned, live, unknown or may be running is trimmed or archived", [
    Store,
    Policy,
    Tiers
  ], ([
    store,
    rules,
    tiers
  ]) =>
    Effect.sync(() => {
      const found = actions(decide(store, policy({ ...rules, ...tiers }), now, undefined))
      for (const { id, liveness, pinned, status } of store) {
        if (!pinned && liveness !== "live" && liveness !== "unknown" && status !== "unknown") continue
        assert.notMatch(found.get(id)!, /^(trim|archive) /)
      }
    }), options)

  it.effect.prop(
    "the order of the bundles makes no difference",
    [Store, Policy, Tiers],
    ([store, rules, tiers]) =>
      Effect.sync(() => {
        const asked = policy({ ...rules, ...tiers })
        assert.deepStrictEqual(
          [...actions(decide(store, asked, now, undefined))].sort(),
          [...actions(decide(store.toReversed(), asked, now, undefined))].sort()
        )
      }),
    options
  )

  it("a bundle that goes is not archived first", () => {
    const old = bundle(100 * day)
    const plan = decide([old, live(2 * day)], policy({ archive: "1 day", maxAge: "50 days" }), now, undefined)
    assert.deepStrictEqual(removed(plan), [old.id])
  })
})

describe("tiers in a policy", () => {
  const read = (input: unknown) => Result.getOrThrow(RetentionPolicy.decode(input))

  it.each<readonly [string, unknown, number, ReadonlyArray<string>]>([
    ["a text", "7 days", 7, ["temp/**"]],
    ["a text with a glob", "7 days:logs/*.old", 7, ["logs/*.old"]],
    ["a text with globs and spaces", "7d : temp/** , artifacts/*.img", 7, ["temp/**", "artifacts/*.img"]],
    ["a text with a colon in a glob", "7d:temp/a:b", 7, ["temp/a:b"]],
    ["a text with braces", "7d:artifacts/*.{img,iso},temp/{a,b/{c,d}}", 7, [
      "artifacts/*.{img,iso}",
      "temp/{a,b/{c,d}}"
    ]],
    ["a text with a list of patterns", "7d:temp/@(a,b|c),logs", 7, ["temp/@(a,b|c)", "logs"]],
    ["an object", { after: "7 days" }, 7, ["temp/**"]],
    ["an object with globs", { after: Duration.days(7), paths: ["temp/{a,b}", "logs/*"] }, 7, ["temp/{a,b}", "logs/*"]],
    ["an object with globs in a text", { after: "7 days", paths: "temp/{a,b},logs/*" }, 7, ["temp/{a,b}", "logs/*"]]
  ])("trim as %s", (_, trim, days, paths) => {
    const value = read({ trim })
    assert.deepStrictEqual([Duration.toDays(value.trim!.after), value.trim!.paths], [days, paths])
    assert.deepStrictEqual(Result.getOrThrow(fromJson(JSON.stringify(RetentionPolicy.encode(value)))), value)
    const [flag, text] = toArgs(value)
    assert.strictEqual(flag, "--trim")
    assert.deepStrictEqual(read({ trim: text }), value)
    assert.deepStrictEqual(Result.getOrThrow(fromEnv({ [variableOf("trim")]: text })), value)
  })

  it("the others are lengths and sizes", () => {
    const value = read({ archive: "30 days", archiveMaxAge: "365 days", archiveMaxBytes: "5 GiB" })
    assert.deepStrictEqual(read({ archive: { after: Duration.days(30) } }), read({ archive: "30 days" }))
    assert.deepStrictEqual(toArgs(value), [
      "--archive",
      "30d",
      "--archive-max-age",
      "365d",
      "--archive-max-bytes",
      "5GiB"
    ])
    const env = {
      LEASEHOLD_RETENTION_ARCHIVE: "30d",
      LEASEHOLD_RETENTION_ARCHIVE_MAX_AGE: "365d",
      LEASEHOLD_RETENTION_ARCHIVE_MAX_BYTES: "5GiB"
    }
    assert.deepStrictEqual(Result.getOrThrow(fromEnv(env)), value)
    assert.isTrue(RetentionPolicy.isEmpty(value))
  })

  it.each<readonly [string, unknown]>([
    ["trim", ""],
    ["trim", "0 days"],
    ["trim", "7 days:"],
    ["trim", "7 days:temp/**,,logs"],
    ["trim", "temp/**"],
    ["trim", { paths: ["temp/**"] }],
    ["trim", { after: "7 days", paths: [] }],
    ["trim", { after: "7 days", paths: Array.from({ length: 101 }, (_, nth) => `temp/${nth}`) }],
    ["trim", 7],
    ["archive", "-1 day"],
    ["archive", {}],
    ["archive", "soon"],
    ["archiveMaxAge", "0s"],
    ["archiveMaxBytes", 0],
    ["archiveMaxBytes", "-1 GiB"]
  ])("%s cannot be %j", (field, value) => {
    const error = Result.getOrThrow(Result.flip(RetentionPolicy.decode({ maxBundles: 5, [field]: value })))
    assert.strictEqual(error.field, field)
    assert.match(error.message, new RegExp(`^retention: ${field} cannot be .*write `))
  })

  it.each(["../x", "/etc", "run.json"])("trim has no glob %s, and says which it is", (glob) => {
    const error = Result.getOrThrow(Result.flip(RetentionPolicy.decode({ trim: `7 days:temp/**,${glob}` })))
    assert.strictEqual(error.field, "trim")
    assert.include(error.message, `cannot be "7 days:temp/**,${glob}": "${glob}" `)
  })

  it("is said in words", () => {
    assert.strictEqual(
      RetentionWords.describe(
        policy({
          trim: "7d:temp/**,logs/*.old",
          archive: "30 days",
          archiveMaxAge: "365 days",
          archiveMaxBytes: "5 GiB"
        })
      ),
      "remove nothing; trim temp/** and logs/*.old after 7 days; archive after 30 days; " +
        "remove archives of runs that ended more than 365 days ago or beyond 5 GiB in all"
    )
  })
})
