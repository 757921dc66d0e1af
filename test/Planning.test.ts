/** A pass decides on the oldest bundles alone. That must come to what deciding on all of them comes to. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as DiskUsage from "../src/DiskUsage.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import { decide } from "../src/RetentionDecision.ts"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import * as RetentionPolicy from "../src/RetentionPolicy.ts"
import { type RunRecord, toMillis } from "../src/RunRecord.ts"
import { type Entry, RunStore } from "../src/RunStore.ts"
import * as SqliteIndex from "../src/SqliteIndex.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import { watch } from "./support/Doors.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { day, hour } from "./support/Time.ts"

const layers = SqliteIndex.layer.pipe(Layer.provideMerge(TestLayers.layerStore))

const policies: ReadonlyArray<RetentionPolicy.PolicyInput> = [
  { maxBundles: 1 },
  { maxBundles: 100 },
  { maxBundles: 149 },
  { maxBundles: 500 },
  { maxAge: "3 days" },
  { maxAge: "90 days" },
  { maxBytes: "1 MiB" },
  { maxBytes: "3 MiB" },
  { all: true },
  { keepLast: 30 },
  { keepLast: 5, keepDaily: 4, keepWeekly: 3, keepMonthly: 2, keepYearly: 1 },
  { keepHourly: 20 },
  { keepTag: ["release"], keepWithin: "2 days" },
  { maxBundles: 40, keepLast: 60 },
  { maxBundles: 10, keepTag: ["release"], keepStatus: ["error"] },
  { maxAge: "2 days", maxBundles: 60, keepMonthly: 6 },
  { maxAge: "1 day", maxBytes: "2 MiB", keepDaily: 7, keepTag: ["branch=main"] },
  { maxBundles: 3, groupBy: "name" },
  { maxAge: "4 days", keepLast: 2, groupBy: { tag: "branch" } }
]

const factsOf = Effect.fnUntraced(function*({ dir, id, record }: Entry) {
  if (Result.isFailure(record)) return yield* Effect.die(record.failure)
  const { endedAt, name, pin, status, tags } = record.success
  const { bytes } = yield* DiskUsage.measure(dir)
  const facts: BundleFacts = {
    id,
    name,
    status,
    endedAt: endedAt === undefined ? undefined : toMillis(endedAt),
    bytes,
    tags,
    pinned: pin !== undefined,
    liveness: "unprobed"
  }
  return facts
})

const fabricate = Effect.fnUntraced(function*(root: string, now: number, count: number) {
  const pick = <A>(...from: readonly [A, ...Array<A>]) =>
    Effect.map(Random.nextIntBetween(0, from.length, { halfOpen: true }), (index) => from[index] as A)
  for (let index = 0; index < count; index++) {
    const startedAt = now - (yield* Random.nextIntBetween(1, 40 * 24)) * hour
    const branch = yield* pick(undefined, "main", "fix")
    const release = yield* pick(undefined, undefined, undefined, "1")
    const pin = yield* pick(undefined, undefined, undefined, undefined, "kept")
    bundle(root, {
      startedAt,
      endedAt: Math.min(now - 1, startedAt + (yield* Random.nextIntBetween(1, day))),
      name: yield* pick("a", "b", "c"),
      status: yield* pick<RunRecord["status"]>("ok", "ok", "error", "interrupted", "crashed"),
      size: (yield* Random.nextIntBetween(0, 4)) * 4096,
      tags: { ...(branch === undefined ? {} : { branch }), ...(release === undefined ? {} : { release }) },
      ...(pin === undefined ? {} : { pin })
    })
  }
})

describe("planning by the oldest", () => {
  it.live.each([11, 22])(
    "asks for what deciding on everything asks for (seed %i)",
    (seed) =>
      Effect.gen(function*() {
        const { list, root } = yield* RunStore
        const now = Date.now()
        yield* Random.withSeed(fabricate(root, now, 90), seed)
        const facts = yield* Effect.forEach(yield* Stream.runCollect(list), factsOf)
        const budget = { maxLooked: 10_000, maxRemoved: 10_000, maxTime: "1 minute" } as const
        for (const input of policies) {
          NFS.rmSync(`${root}/index.db`, { force: true })
          const policy = RetentionPolicy.makeUnsafe(input)
          const report = yield* Retention.run({ policy, budget, dryRun: true })
          const plan = decide(facts, policy, now, undefined)
          const wanted = plan.decisions.filter(({ action }) => action === "remove").map(({ id }) => id)
          assert.deepStrictEqual(report.removed.map(({ id }) => id), wanted, JSON.stringify(input))
        }
        // And what the index knows of them makes no difference.
        yield* Retention.run({ policy: { maxBundles: 10_000, maxBytes: "1 GiB" }, budget })
        for (const input of policies) {
          const policy = RetentionPolicy.makeUnsafe(input)
          const report = yield* Retention.run({ policy, budget, dryRun: true })
          const plan = decide(facts, policy, now, undefined)
          const wanted = plan.decisions.filter(({ action }) => action === "remove").map(({ id }) => id)
          assert.deepStrictEqual(report.removed.map(({ id }) => id), wanted, `indexed ${JSON.stringify(input)}`)
        }
      }).pipe(Effect.provide(layers))
  )
})

describe("a limit in bytes", () => {
  const sizeOf = (dir: string) => Effect.map(DiskUsage.measure(dir), ({ bytes }) => bytes)
  const made = Effect.fnUntraced(function*(count: number) {
    const { root } = yield* RunStore
    const all = series(root, count, Date.now() - day, { size: 4000 })
    return { all, each: yield* sizeOf(all[0]!.dir) }
  })
  const isThere = ({ dir }: Made) => NFS.existsSync(dir)

  it.live("is reached in as many passes as the first says, and what is older than its worth goes unmeasured", () =>
    Effect.gen(function*() {
      const { all, each } = yield* made(100)
      const pass = Retention.run({
        policy: { maxBytes: 50 * each },
        budget: { maxLooked: 8, maxRemoved: 4, maxTime: "1 minute" }
      })
      const first = yield* pass
      let passes = 0
      let unmeasured = 0
      for (let report = first; report.debt !== null; passes++) {
        report = yield* pass
        unmeasured += report.removed.filter(({ bytes }) => bytes === null).length
      }
      assert.strictEqual(first.debt?.passes, passes)
      assert.deepStrictEqual(all.map(isThere), all.map((_, index) => index >= 50))
      assert.isAbove(unmeasured, 15)
    }).pipe(Effect.provide(layers)))

  it.live("is told of as long as it is not reached, however the passes fall", () =>
    Effect.gen(function*() {
      const { all, each } = yield* made(200)
      const large = { maxLooked: 1000, maxTime: "1 minute" } as const
      // Every size is known from then on.
      yield* Retention.run({ policy: { maxBytes: 1000 * each }, budget: large })
      const pass = Retention.run({ policy: { maxBytes: 8 * each }, budget: { ...large, maxRemoved: 64 } })
      const debts = [yield* pass, yield* pass, yield* pass].map(({ debt }) => debt?.passes ?? null)
      assert.deepStrictEqual([debts, all.filter(isThere).length], [[2, 1, null], 8])
    }).pipe(Effect.provide(layers)))

  it.live.each([[undefined], ["name"]] as const)(
    "takes no bundle too many for one that could not be removed before, and was not measured (by groups: %s)",
    ([groupBy]) =>
      Effect.gen(function*() {
        const { all, each } = yield* made(6)
        const [first, second, ...others] = all
        const refusing = failing("EACCES", "rename")
        const rename: FilesApi["rename"] = (from, to) => from === first!.dir ? refusing : node.rename(from, to)
        const refused = yield* Retention.run({ policy: { maxBundles: 5 } }).pipe(withFiles({ rename }))
        assert.deepStrictEqual([refused.failed.length, isThere(first!), isThere(second!)], [1, true, false])
        yield* Retention.run({ policy: { maxBytes: 4 * each + 1, ...(groupBy === undefined ? {} : { groupBy }) } })
        assert.deepStrictEqual([first!, ...others].map(isThere), [false, true, true, true, true])
      }).pipe(Effect.provide(layers))
  )

  it.live("measures what takes too long once in a pass, and then the others", () =>
    Effect.gen(function*() {
      const { all, each } = yield* made(20)
      const { id } = all.at(-1)!
      let tries = 0
      const slow = watch((call, [path]) =>
        Effect.suspend(() => {
          if (call !== "open" || path?.endsWith(id) !== true) return Effect.void
          tries++
          return Effect.sleep("1600 millis")
        })
      )
      const report = yield* Retention.run({ policy: { maxBytes: 4 * each }, budget: { maxTime: "3 seconds" } }).pipe(
        slow
      )
      assert.deepStrictEqual([tries, report.removed.length > 0], [1, true])
    }).pipe(Effect.provide(layers)))

  it.live("counts no run as unmeasured that the pass is a part of", () =>
    Effect.gen(function*() {
      const { all } = yield* made(3)
      const { id } = all.at(-1)!
      const report = yield* Retention.run({ policy: { maxBytes: "1 GiB" }, own: id })
      assert.isNull(report.debt)
    }).pipe(Effect.provide(layers)))
})
