import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NFS from "node:fs"
import { Files, node } from "../src/internal/Files.ts"
import { Lease } from "../src/Lease.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import * as RetentionSurvey from "../src/RetentionSurvey.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { inStore, prune } from "./support/Pruning.ts"
import { everything } from "./support/Snapshot.ts"
import { day, hour } from "./support/Time.ts"

const mebibyte = 1024 * 1024

/** Finished, failed, pinned, crashed, unreadable and foreign runs, of some sizes, and some that nobody has measured. */
const motley = (root: string, now: number) => {
  const ago = (millis: number) => now - millis
  const crashed = bundle(root, { startedAt: ago(40 * day), status: "running" })
  const logged = bundle(root, { startedAt: ago(41 * day), status: "running" })
  NFS.mkdirSync(`${logged.dir}/logs`)
  const event = JSON.stringify({ timestamp: new Date(ago(39 * day)).toISOString() })
  NFS.writeFileSync(`${logged.dir}/logs/events.jsonl`, `${event}\n`)
  const unreadable = bundle(root, { startedAt: ago(35 * day) })
  NFS.writeFileSync(`${unreadable.dir}/run.json`, "{")
  const ahead = bundle(root, { startedAt: ago(hour), endedAt: now + 400 * day, size: 1000 })
  const pinned = bundle(root, { startedAt: ago(50 * day), pin: "a release" })
  const nightly = Array.from(
    { length: 6 },
    (_, index) => bundle(root, { startedAt: ago((3 + 7 * index) * day), name: "nightly", size: mebibyte })
  )
  const failed = bundle(root, { startedAt: ago(20 * day), status: "error", tags: { kind: "bug" } })
  const recent = series(root, 5, ago(2 * hour), { size: mebibyte / 2 })
  return { crashed, logged, unreadable, ahead, pinned, nightly, failed, recent }
}

const policies: ReadonlyArray<PolicyInput> = [
  {},
  { all: true },
  { maxAge: "14 days" },
  { maxAge: "14 days", keepTag: ["kind"], keepLast: 3 },
  { maxBundles: 8 },
  { maxBundles: 8, keepStatus: ["error", "crashed"] },
  { maxBytes: "3 MiB" },
  { maxBytes: "3 MiB", keepWeekly: 3 },
  { minFree: "4 MiB" },
  { keepDaily: 4, keepWithin: "3 days" },
  { maxBundles: 2, groupBy: "name" }
]

/** A disk of which a test knows how much is free. */
const withFree = (bytes: number) => Effect.provideService(Files, { ...node, freeBytes: () => Effect.succeed(bytes) })

const generous = { maxLooked: 1000, maxRemoved: 1000, maxTime: "1 minute" } as const

const idsOf = (made: ReturnType<typeof motley>) =>
  Object.values(made).flatMap((some): ReadonlyArray<Made> => "id" in some ? [some] : some).map(({ id }) => id)

describe("what is explained of a run", () => {
  it.live.each(policies)(
    "is what a pass would do, with an index and without: %j",
    (policy) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const ids = idsOf(motley(root, now))
          for (const indexed of [false, true]) {
            if (indexed) yield* prune({})
            const dry = yield* prune(policy, { dryRun: true, budget: generous })
            const explained = yield* Effect.forEach(ids, (id) => RetentionSurvey.explain(id, policy))
            const gone = explained.filter(({ decision }) => decision.action === "remove").map(({ entry }) => entry.id)
            assert.deepStrictEqual(gone.toSorted(), dry.removed.map(({ id }) => id).toSorted())
          }
        }).pipe(withFree(mebibyte))
      )
  )

  it.live("writes nothing, with an index and without", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { crashed, nightly } = motley(root, now)
        for (const indexed of [false, true]) {
          if (indexed) yield* prune({})
          const before = everything(root)
          for (const { id } of [crashed, nightly[0]!]) {
            yield* RetentionSurvey.explain(id, { maxBytes: 1, minFree: 1, maxAge: "1 day" })
          }
          assert.deepStrictEqual(everything(root), before)
        }
      })
    ))

  it.live("tells when it ended, and how that is known", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { ahead, crashed, logged, nightly, unreadable } = motley(root, now)
        const tell = (made: Made | undefined) =>
          Effect.map(RetentionSurvey.explain(made!.id, {}), ({ endKnownBy, ended, now }) => [endKnownBy, now - ended!])
        const started = yield* tell(nightly[0])
        assert.strictEqual(started[0], "record")
        assert.strictEqual(Math.round(Number(started[1]) / hour), 72)
        const event = yield* tell(logged)
        assert.strictEqual(event[0], "last event")
        assert.strictEqual(Math.round(Number(event[1]) / day), 39)
        assert.deepStrictEqual(yield* tell(crashed), ["found dead", 0])
        assert.deepStrictEqual(yield* tell(ahead), ["first seen", 0])
        const { endKnownBy, ended } = yield* RetentionSurvey.explain(unreadable.id, {})
        assert.deepStrictEqual([endKnownBy, ended], [undefined, undefined])
      })
    ))

  it.live("asks the lease itself, whatever the index and the record say", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const lease = yield* Lease
        const [first] = series(root, 3, now - 40 * day)
        yield* prune({})
        const policy: PolicyInput = { maxAge: "1 day" }
        const free = yield* RetentionSurvey.explain(first!.id, policy)
        assert.deepStrictEqual([free.decision.action, free.liveness._tag, free.guard], ["remove", "Dead", undefined])
        const held = yield* Effect.scoped(
          Effect.andThen(lease.hold(first!, { role: "joined" }), RetentionSurvey.explain(first!.id, policy))
        )
        assert.deepStrictEqual([held.decision.reason._tag, held.guard?._tag], ["Live", "Live"])
        assert.strictEqual(held.liveness._tag === "Live" ? held.liveness.holders[0]?.role : "", "joined")
      })
    ))

  it.live("sees at once what has been written into its record since the last pass", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = bundle(root, { startedAt: now - 40 * day })
        yield* prune({})
        const record = JSON.parse(NFS.readFileSync(`${made.dir}/run.json`, "utf8"))
        const pin = { reason: "found it", at: new Date(now).toISOString() }
        NFS.writeFileSync(`${made.dir}/run.json`, JSON.stringify({ ...record, pin }))
        const { decision } = yield* RetentionSurvey.explain(made.id, { all: true })
        assert.deepInclude(decision, { action: "keep" })
        assert.deepInclude(decision.reason, { _tag: "Pinned", detail: "found it" })
      })
    ))

  it.live("measures only for limits that need it", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 4, now - day, { size: mebibyte })
        const bytesOf = (policy: PolicyInput) =>
          Effect.map(RetentionSurvey.explain(made[0]!.id, policy), ({ facts }) => facts.bytes)
        assert.isUndefined(yield* bytesOf({ maxAge: "1 hour", maxBundles: 2 }))
        assert.isAtLeast((yield* bytesOf({ maxBytes: "100 MiB" })) ?? 0, mebibyte)
        // Of an old one nobody needs to know, once newer ones fill the limit.
        const many = series(root, 60, now - hour, { size: mebibyte })
        assert.isUndefined(yield* bytesOf({ maxBytes: "5 MiB" }))
        const last = yield* RetentionSurvey.explain(many.at(-1)!.id, { maxBytes: "5 MiB" })
        assert.match(last.answers[0]?.why ?? "", /MiB and \d+ bundles not measured, of at most 5 MiB/)
      })
    ))

  it.live("waits for the trash before it says that space is short", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = bundle(root, { startedAt: now - day, size: 1000 })
        const action = Effect.map(
          RetentionSurvey.explain(made.id, { minFree: "2 MiB" }),
          (told) => told.decision.action
        )
        assert.strictEqual(yield* action, "remove")
        NFS.mkdirSync(`${root}/trash/${made.id}-aaaaaa`)
        assert.strictEqual(yield* action, "keep")
      }).pipe(withFree(mebibyte))
    ))

  it.live("is nothing of a run that is not there, nor under a policy that cannot be", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const gone = yield* Effect.flip(RetentionSurvey.explain("20200101T000000000Z-aaaaaaaa", {}))
        assert.include(gone.message, "no run")
        const { id } = bundle(root, { startedAt: now - day })
        const refused = yield* Effect.result(RetentionSurvey.explain(id, { maxAge: "0s" }))
        assert.strictEqual(Result.isFailure(refused) ? refused.failure._tag : "", "PolicyError")
      })
    ))
})
