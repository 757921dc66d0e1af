import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { decide, type Decision } from "../src/RetentionDecision.ts"
import {
  decisionText,
  explain,
  type Explanation,
  type RuleField,
  type Verdict,
  verdictText
} from "../src/RetentionExplanation.ts"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import { fieldNames, type PolicyInput } from "../src/RetentionPolicy.ts"
import { reasonKind } from "../src/RetentionReason.ts"
import { Policy, Store } from "./RetentionArbitraries.ts"
import { bundle, day, hour, live, MiB, now, policy } from "./RetentionFixtures.ts"

const disk = { freeBytes: 100 * MiB }

const explained = (store: ReadonlyArray<BundleFacts>, input: PolicyInput, { id }: BundleFacts): Explanation =>
  explain(store, policy(input), now, disk, id)!

const decided = (store: ReadonlyArray<BundleFacts>, input: PolicyInput): ReadonlyMap<string, Decision> =>
  new Map(decide(store, policy(input), now, disk).decisions.map((decision) => [decision.id, decision]))

const isKeepRule = (field: RuleField) => field.startsWith("keep")

const options = { arbitrary: { runs: 200, size: 30, seed: "explanation" } }

describe("of every bundle under every policy", () => {
  it.effect.prop(
    "the decision is the one that a pass comes to",
    [Store, Policy],
    ([store, input]) =>
      Effect.sync(() => {
        const decisions = decided(store, input)
        for (const facts of store) {
          assert.deepStrictEqual(explained(store, input, facts).decision, decisions.get(facts.id))
        }
      }),
    options
  )

  it.effect.prop(
    "each rule says what is decided where it is the only one",
    [Store, Policy],
    ([store, input]) =>
      Effect.sync(() => {
        const { groupBy, ...given } = policy(input)
        const fields = fieldNames.filter((field): field is RuleField => field in given)
        const alone = new Map(fields.map((field) => [
          field,
          decided(store, { [field]: input[field], ...(groupBy === undefined ? {} : { groupBy }) })
        ]))
        const saidOf = (field: RuleField, { action, reason }: Decision): Verdict => {
          if (isKeepRule(field)) return action === "keep" && reasonKind(reason) === field ? "spares" : "neither"
          // What is pinned, or may be running, is asked for and kept all the same.
          return action === "remove" || reason._tag === "Pinned" || reason._tag === "Unprobed" ? "asks" : "neither"
        }
        for (const facts of store) {
          const { answers } = explained(store, input, facts)
          assert.deepStrictEqual(
            answers.map(({ field, verdict }) => [field, verdict]),
            fields.map((field) => [field, saidOf(field, alone.get(field)!.get(facts.id)!)])
          )
        }
      }),
    options
  )

  it.effect.prop(
    "the answers and the note bear the decision out",
    [Store, Policy],
    ([store, input]) =>
      Effect.sync(() => {
        for (const facts of store) {
          const { answers, decision, guard, note } = explained(store, input, facts)
          const says = (verdict: Verdict) => answers.filter((answer) => answer.verdict === verdict)
          const { action, reason } = decision
          if (action === "remove") {
            assert.deepStrictEqual(says("spares"), [])
            assert.isUndefined(guard)
            const isAsked = says("asks").length > 0 || reason._tag === "NotSpared"
            assert.isTrue(isAsked || note !== undefined)
          }
          if (reason._tag === "WithinLimits") assert.strictEqual(says("asks").length > 0, note !== undefined)
          if (reason._tag === "Pinned" || reason._tag === "Live") assert.strictEqual(guard?._tag, reason._tag)
        }
      }),
    options
  )
})

/** What is told of a bundle: its rules in lines, and the decision. */
const told = (store: ReadonlyArray<BundleFacts>, input: PolicyInput, facts: BundleFacts) => {
  const explanation = explained(store, input, facts)
  return [
    ...explanation.answers.map(({ field, value, verdict, why }) =>
      `${field} ${value}: ${verdictText(verdict)}, ${why}`
    ),
    decisionText(explanation)
  ]
}

/** Finished bundles that ended 1, 2, 3… days ago, newest first. */
const daily = (count: number) => Array.from({ length: count }, (_, index) => bundle((index + 1) * day))

describe("in words", () => {
  it("limits say their figures, and the first that asks is the reason", () => {
    const store = daily(20)
    const input: PolicyInput = { maxBundles: 12, maxAge: "14 days", maxBytes: "30 MiB", minFree: "50 MiB" }
    assert.deepStrictEqual(told(store, input, store[19]!), [
      "maxBundles 12: asks for it, 20 of at most 12 bundles, none older than it",
      "maxAge 14 days: asks for it, ended 20d ago",
      "maxBytes 30 MiB: does not, 20.0 MiB of at most 30 MiB",
      "minFree 50 MiB: does not, 100.0 MiB free of at least 50 MiB",
      "it would go: older than 14 days"
    ])
    assert.deepStrictEqual(told(store, { maxBundles: 12 }, store[11]!), [
      "maxBundles 12: does not, 20 of at most 12 bundles, 8 older than it",
      "it stays: within the limits"
    ])
  })

  it("keep rules say which place it has", () => {
    const store = [bundle(hour), ...daily(9), bundle(day + hour, { status: "error", tags: { release: "1.4" } })]
    const [newest, , , fourth] = store
    const input: PolicyInput = {
      all: true,
      keepLast: 2,
      keepDaily: 3,
      keepWithin: "2 days",
      keepTag: ["release"],
      keepStatus: ["error", "crashed"]
    }
    assert.deepStrictEqual(told(store, input, newest!), [
      "all true: asks for it, ended 1h ago",
      "keepLast 2: spares it, it is the newest of 11",
      "keepDaily 3: spares it, it is the newest of its day",
      "keepWithin 2 days: spares it, ended 1h ago",
      "keepTag release: does not, it has no tags",
      "keepStatus error, crashed: does not, it is ok",
      "it stays: newest 2"
    ])
    assert.deepStrictEqual(told(store, input, fourth!), [
      "all true: asks for it, ended 3d ago",
      "keepLast 2: does not, it is the 5th newest of 11",
      "keepDaily 3: does not, newer runs fill 3 days",
      "keepWithin 2 days: does not, ended 3d ago",
      "keepTag release: does not, it has no tags",
      "keepStatus error, crashed: does not, it is ok",
      "it would go: everything finished goes"
    ])
    assert.deepStrictEqual(told(store, input, store.at(-1)!).slice(2), [
      "keepDaily 3: does not, a newer one stands for its day",
      "keepWithin 2 days: spares it, ended 1d ago",
      "keepTag release: spares it, it has release=1.4",
      "keepStatus error, crashed: spares it, it is error",
      "it stays: ended within 2 days"
    ])
  })

  it("keep rules alone ask for what none of them spares", () => {
    const store = daily(5)
    assert.deepStrictEqual(told(store, { keepLast: 2 }, store[2]!), [
      "keepLast 2: does not, it is the 3rd newest of 5",
      "it would go: no keep rule spares it"
    ])
  })

  it("what is live, pinned, unknown or may be running is kept, whoever asks", () => {
    const pinned = bundle(90 * day, { pinned: true, pinReason: "release" })
    const running = live(90 * day)
    const unseen = bundle(80 * day, { status: "running" })
    const unknown = bundle(70 * day, { liveness: "unknown", unknownReason: "its lease was replaced" })
    const store = [pinned, running, unseen, unknown, ...daily(3)]
    const input: PolicyInput = { maxAge: "30 days" }
    assert.deepStrictEqual(told(store, input, pinned), [
      "maxAge 30 days: asks for it, ended 90d ago",
      "it stays: pinned: release"
    ])
    assert.deepStrictEqual(told(store, input, running), ["maxAge 30 days: does not, has not ended", "it stays: live"])
    assert.deepStrictEqual(told(store, input, unseen), [
      "maxAge 30 days: asks for it, has not ended, by its record",
      "it stays: running by its record; its lease has not been looked at yet"
    ])
    assert.deepStrictEqual(told(store, input, unknown), [
      "maxAge 30 days: does not, cannot be told whether it has ended",
      "it stays: unknown: its lease was replaced"
    ])
  })

  it("where the whole policy comes to something else than each rule, it says why", () => {
    const store = [...daily(4), bundle(40 * day, { tags: { keep: "yes" } })]
    assert.deepStrictEqual(told(store, { maxBundles: 4, keepTag: ["keep"] }, store[3]!), [
      "maxBundles 4: does not, 5 of at most 4 bundles, 1 older than it",
      "keepTag keep: does not, it has no tags",
      "it would go: beyond 4 bundles (older ones are spared, and it goes in their place)"
    ])
    const groups = [...daily(3), bundle(9 * day, { name: "rare" })]
    assert.deepStrictEqual(told(groups, { maxBundles: 1, maxBytes: "2 MiB", groupBy: "name" }, groups[3]!), [
      "maxBundles 1: does not, 1 of at most 1 bundle, none older than it",
      "maxBytes 2 MiB: asks for it, 4.0 MiB of at most 2 MiB",
      "it stays: within the limits (others go first, and then the limits hold)"
    ])
  })

  it("counts are those of the group", () => {
    const store = [...daily(5), bundle(6 * day, { name: "nightly" }), bundle(7 * day, { name: "nightly" })]
    const explanation = explained(store, { maxBundles: 1, groupBy: "name" }, store.at(-1)!)
    assert.strictEqual(explanation.group, "nightly")
    assert.strictEqual(explanation.answers[0]?.why, "2 of at most 1 bundle, none older than it")
  })

  it("sizes that nobody has measured are told of", () => {
    const store = [bundle(day), bundle(2 * day, { bytes: undefined })]
    assert.include(
      told(store, { maxBytes: "2 MiB" }, store[0]!)[0],
      "1.0 MiB and 1 bundle not measured, of at most 2 MiB"
    )
  })

  it("a clock that is ahead is told of", () => {
    const ahead = bundle(-day, { firstSeenEnded: now - 5 * day })
    assert.deepStrictEqual(told([ahead, ...daily(3)], { maxAge: "4 days", maxBundles: 10 }, ahead), [
      "maxBundles 10: does not, 4 of at most 10 bundles, none older than it",
      "maxAge 4 days: asks for it, claims to end in the future, first seen ended 5d ago",
      "it would go: older than 4 days"
    ])
  })

  it("there is nothing to say of a bundle that is not there", () => {
    assert.isUndefined(explain(daily(2), policy({ all: true }), now, disk, bundle(day).id))
  })
})
