/** Bundles for tests of the policy: a builder, and one store that has some of everything. */
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import type { Plan } from "../src/RetentionDecision.ts"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import * as RetentionPolicy from "../src/RetentionPolicy.ts"
import * as RunId from "../src/RunId.ts"

export const now = Date.parse("2026-11-30T12:00:00.000Z")

export const minute = 60_000
export const hour = 60 * minute
export const day = 24 * hour
export const MiB = 1024 * 1024

let made = 0

const idAt = (millis: number, number: number) =>
  RunId.fromParts(DateTime.makeUnsafe(millis), [
    0,
    0,
    0,
    0,
    0,
    Math.floor(number / 1296),
    Math.floor(number / 36),
    number
  ])

/** A finished bundle that nobody has probed, which ended some time ago after a run of ten minutes. */
export const bundle = (endedAgo: number, more: Partial<BundleFacts> = {}): BundleFacts => ({
  id: idAt(now - Math.max(endedAgo, 0) - 10 * minute, made++ % 46_656),
  name: "build",
  status: "ok",
  endedAt: now - endedAgo,
  bytes: MiB,
  tags: {},
  pinned: false,
  liveness: "unprobed",
  ...more
})

export const live = (startedAgo: number, more: Partial<BundleFacts> = {}): BundleFacts =>
  bundle(startedAgo, { status: "running", endedAt: undefined, liveness: "live", ...more })

export const policy = (input: RetentionPolicy.PolicyInput): RetentionPolicy.RetentionPolicy =>
  Result.getOrThrow(RetentionPolicy.decode(input))

export const removed = (plan: Plan): ReadonlyArray<RunId.RunId> =>
  plan.decisions.flatMap((decision) => decision.action === "remove" ? [decision.id] : [])

export const kept = (plan: Plan): ReadonlyArray<RunId.RunId> =>
  plan.decisions.flatMap((decision) => decision.action === "keep" ? [decision.id] : [])

export const ids = (bundles: ReadonlyArray<BundleFacts>): ReadonlyArray<RunId.RunId> => bundles.map(({ id }) => id)

/** The reason, as data, of the one decision on a bundle. */
export const reasonOf = (plan: Plan, facts: BundleFacts) =>
  plan.decisions.find((decision) => decision.id === facts.id)?.reason._tag

/**
 * A store as people have them: three programs, a nightly job with gaps, a failed one, live, pinned and unreadable
 * bundles, crashed ones that nobody has recovered, sizes not measured yet, and clocks that were wrong.
 */
export const sampleStore = (): ReadonlyArray<BundleFacts> => {
  made = 0
  const nightly = (daysAgo: number, more: Partial<BundleFacts> = {}) =>
    bundle(daysAgo * day + 9 * hour, { name: "nightly", bytes: 40 * MiB, tags: { branch: "main" }, ...more })
  return [
    bundle(2 * minute, { bytes: undefined }),
    bundle(20 * minute, { status: "error" }),
    bundle(50 * minute),
    bundle(75 * minute, { tags: { branch: "main", release: "1.4" } }),
    bundle(5 * hour, { bytes: undefined }),
    bundle(26 * hour, { status: "interrupted" }),
    bundle(27 * hour, { tags: { branch: "fix" } }),
    bundle(8 * day, { bytes: 300 * MiB }),
    bundle(20 * day, { pinned: true, pinReason: "release", bytes: 200 * MiB }),
    bundle(45 * day, { pinned: true, liveness: "dead" }),
    bundle(70 * day, { status: "error", tags: { release: "1.2" } }),
    nightly(0),
    nightly(1),
    nightly(2),
    nightly(3, { status: "error" }),
    nightly(6),
    nightly(7),
    nightly(13),
    nightly(14, { bytes: undefined }),
    nightly(34),
    nightly(65, { tags: { branch: "main", release: "" } }),
    nightly(400),
    nightly(800, { bytes: undefined }),
    live(3 * hour, { name: "agent", bytes: 500 * MiB }),
    live(90 * day, { name: "agent", bytes: undefined }),
    // Its outcome is known and a hook still works in it.
    bundle(3 * minute, { name: "agent", liveness: "live" }),
    bundle(40 * day, { name: "agent", status: "running", liveness: "dead", bytes: 80 * MiB }),
    bundle(50 * day, { name: "agent", status: "running", liveness: "unprobed" }),
    bundle(12 * day, { name: "agent", liveness: "unknown", unknownReason: "holder on another machine" }),
    bundle(31 * day, { name: "", status: "unknown", endedAt: undefined, liveness: "dead", bytes: 10 * MiB }),
    bundle(30 * day, { name: "agent", status: "crashed" }),
    bundle(-26_000 * day, { name: "agent", firstSeenEnded: now - 20 * day }),
    bundle(-hour, { name: "agent" }),
    bundle(4 * day, { name: "agent", endedAt: undefined, firstSeenEnded: now - 3 * day })
  ]
}
