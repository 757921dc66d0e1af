/** What holds for every store and every policy. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { decide, type Plan } from "../src/RetentionDecision.ts"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import { hasLimits, isEmpty, type PolicyInput } from "../src/RetentionPolicy.ts"
import { ClockedStore, factsOf, Groups, KeepRules, Limits, Policy, Seeds, Store, upTo } from "./RetentionArbitraries.ts"
import { MiB, now, policy, removed } from "./RetentionFixtures.ts"

const freeBytes = 100 * MiB
const run = (store: ReadonlyArray<BundleFacts>, input: PolicyInput): Plan =>
  decide(store, policy(input), now, { freeBytes })
const goes = (store: ReadonlyArray<BundleFacts>, input: PolicyInput) => new Set(removed(run(store, input)))
const isWithin = <A>(inner: ReadonlySet<A>, outer: ReadonlySet<A>) => {
  assert.deepStrictEqual([...inner].filter((member) => !outer.has(member)), [])
}

const options = { arbitrary: { runs: 500, size: 40, seed: "retention" } }

describe("properties", () => {
  it.effect.prop(
    "every bundle is decided on once, with one reason",
    [Store, Policy],
    ([store, input]) =>
      Effect.sync(() => {
        const decided = run(store, input).decisions.map(({ id }) => id)
        assert.deepStrictEqual(decided.toSorted(), store.map(({ id }) => id).toSorted())
      }),
    options
  )

  it.effect.prop("no pinned, live or unknown bundle goes, nor one that may be running", [Store, Policy], ([
    store,
    input
  ]) =>
    Effect.sync(() => {
      const gone = goes(store, input)
      for (const { id, liveness, pinned, status } of store) {
        const running = status === "running" && liveness !== "dead"
        const mayGo = !pinned && liveness !== "live" && liveness !== "unknown" && status !== "unknown" && !running
        if (!mayGo) assert.isFalse(gone.has(id))
      }
    }), options)

  it.effect.prop(
    "the order of the input has no part in the result",
    [Seeds, Policy],
    ([seeds, input]) =>
      Effect.sync(() => {
        const store = seeds.map((seed) => ({ seed, facts: factsOf(seed) }))
        const shuffled = store.toSorted((one, other) => one.seed.shuffle - other.seed.shuffle)
        const plan = run(store.map(({ facts }) => facts), input)
        assert.deepStrictEqual(run(shuffled.map(({ facts }) => facts), input), plan)
        assert.deepStrictEqual(run(store.map(({ facts }) => facts).toReversed(), input), plan)
      }),
    options
  )

  it.effect.prop(
    "a policy without limits and keep rules removes nothing",
    [Store, Groups],
    ([store, input]) => Effect.sync(() => assert.strictEqual(goes(store, input).size, 0)),
    options
  )

  // Where a limit still has to hold, sparing an old bundle makes a newer one go in its place. So "more" is a number of
  // bundles, and with limits in bytes it is so for bundles of one size: ten small ones may have to go for a big one.
  it.effect.prop(
    "adding a keep rule never removes more",
    [ClockedStore, Policy, KeepRules],
    ([store, input, added]) =>
      Effect.sync(() => {
        if (isEmpty(policy(input))) return
        const even = store.map((facts) => ({ ...facts, bytes: MiB }))
        assert.isAtMost(goes(even, { ...added, ...input }).size, goes(even, input).size)
      }),
    options
  )

  it.effect.prop("with keep rules alone, adding one keeps all that was kept", [Store, KeepRules, KeepRules], ([
    store,
    input,
    added
  ]) =>
    Effect.sync(() => {
      if (!isEmpty(policy(input))) isWithin(goes(store, { ...added, ...input }), goes(store, input))
    }), options)

  it.effect.prop(
    "lowering a limit never keeps more",
    [ClockedStore, Policy, upTo(20)],
    ([store, input, by]) =>
      Effect.sync(() => {
        // With groups, what a stricter count takes from one group may be what free space needed from another.
        const { groupBy: _, ...rules } = input
        const known = policy(rules)
        if (!hasLimits(known)) return
        const before = goes(store, rules)
        const lower: ReadonlyArray<PolicyInput> = [
          { maxBundles: Math.max(1, (known.maxBundles ?? 30) - by) },
          { maxBytes: Math.max(1, (known.maxBytes ?? 300 * MiB) - by * MiB) },
          { minFree: (known.minFree ?? freeBytes) + by * MiB },
          { maxAge: Duration.times(known.maxAge ?? Duration.days(60), 1 / by) },
          { all: true }
        ]
        for (const limit of lower) isWithin(before, goes(store, { ...rules, ...limit }))
      }),
    options
  )

  it.effect.prop(
    "no bundle goes that the limits do not need",
    [ClockedStore, Limits],
    ([store, limits]) =>
      Effect.sync(() => {
        const input: PolicyInput = { ...limits, maxBytes: "40 MiB" }
        const measured = store.map((facts) => ({ ...facts, bytes: facts.bytes ?? MiB }))
        const last = run(measured, input).decisions.findLast(({ action }) => action === "remove")
        if (last?.reason._tag !== "BeyondBytes") return
        const gone = goes(measured, input)
        const stays = measured.filter(({ id }) => !gone.has(id) || id === last.id)
        assert.isAbove(stays.reduce((sum, { bytes }) => sum + bytes, 0), 40 * MiB)
      }),
    options
  )

  it.effect.prop(
    "what is clock ahead changes no other decision",
    [Store, Policy],
    ([store, input]) =>
      Effect.sync(() => {
        // The space it gives back is real, and may save others.
        const { minFree: _, ...rules } = input
        const plan = run(store, rules)
        const ahead = new Set(plan.decisions.flatMap(({ clockAhead, id }) => clockAhead ? [id] : []))
        const without = run(store.filter(({ id }) => !ahead.has(id)), rules)
        assert.deepStrictEqual(plan.decisions.filter(({ clockAhead }) => !clockAhead), without.decisions)
      }),
    options
  )

  it.effect.prop("measuring what is asked for, a few at a time, ends in the decision of a store measured in full", [
    Store,
    Policy,
    upTo(5)
  ], ([store, input, budget]) =>
    Effect.sync(() => {
      const sizes = new Map(store.map(({ bytes, id }, index) => [id, bytes ?? (index % 7) * MiB]))
      const measured = goes(store.map((facts) => ({ ...facts, bytes: sizes.get(facts.id) })), input)
      let known = store
      let plan = run(known, input)
      for (let round = 0; plan.needsSize.length > 0; round++) {
        assert.isBelow(round, store.length)
        const now = new Set(plan.needsSize.slice(0, budget))
        known = known.map((facts) => now.has(facts.id) ? { ...facts, bytes: sizes.get(facts.id) } : facts)
        isWithin(new Set(removed(plan)), measured)
        plan = run(known, input)
      }
      assert.deepStrictEqual(new Set(removed(plan)), measured)
    }), options)
})
