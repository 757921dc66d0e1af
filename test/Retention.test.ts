import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import type { Report } from "../src/RetentionReport.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import * as RunStore from "../src/RunStore.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import { bundle, series } from "./support/Fabricate.ts"
import { ids, inStore, prune } from "./support/Pruning.ts"
import { day, hour } from "./support/Time.ts"

const present = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  return (yield* Stream.runCollect(store.list)).map(({ id }) => id).toReversed()
})

const removedBy = (report: Report) => report.removed.map(({ id }) => id)

const policies: ReadonlyArray<readonly [string, PolicyInput]> = [
  ["count", { maxBundles: 1 }],
  ["age", { maxAge: "1 ms" }],
  ["bytes", { maxBytes: "1B" }],
  ["free space", { minFree: "1000 TiB" }],
  ["all", { all: true }],
  ["keep rules alone", { keepTag: ["none"] }]
]

describe("a pass removes what the policy asks for", () => {
  it.live("the oldest beyond a count, and its trash is empty in the end", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 20, now, { size: 5000 })
        const report = yield* prune({ maxBundles: 5 })
        assert.deepStrictEqual(removedBy(report), ids(made.slice(0, 15)))
        assert.deepStrictEqual(yield* present, ids(made.slice(15)))
        assert.isAbove(report.freedBytes, 15 * 5000)
        assert.isNull(report.debt)
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
        const again = yield* prune({ maxBundles: 5 })
        assert.deepStrictEqual([again.removed.length, again.looked], [0, 0])
      })
    ))

  it.live("bug 56: exactly the documented number stays, live, pinned, unreadable and new ones counted", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 6, now)
        bundle(root, { startedAt: now - day, pin: "keep" })
        const broken = bundle(root, { startedAt: now - day })
        NFS.writeFileSync(`${broken.dir}/run.json`, "{")
        yield* prune({ maxBundles: 4 }).pipe(
          Effect.tap((report) => Effect.sync(() => assert.strictEqual(report.removed.length, 5))),
          Run.scoped({ name: "live", retention: "off" })
        )
        assert.strictEqual((yield* present).length, 4)
      })
    ))

  it.live("by age, counted from the end and not from the start", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const old = bundle(root, { startedAt: now - 10 * day, endedAt: now - 9 * day })
        bundle(root, { startedAt: now - 10 * day, endedAt: now - hour })
        assert.deepStrictEqual(removedBy(yield* prune({ maxAge: "1 day" })), [old.id])
      })
    ))

  it.live("by bytes, measuring only for that limit", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 10, now, { size: 100_000 })
        const report = yield* prune({ maxBytes: "500kB" })
        assert.deepStrictEqual(yield* present, ids(made.slice(6)))
        assert.isAbove(report.removed[0]?.bytes ?? 0, 100_000)
      })
    ))

  it.live("by free space, no more than is needed", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 10, now, { size: 1_000_000 })
        const files = { ...node, freeBytes: () => Effect.succeed(10_000_000) }
        const report = yield* Effect.provideService(prune({ minFree: 12_500_000 }), Files, files)
        assert.deepStrictEqual(removedBy(report), ids(made.slice(0, 3)))
      })
    ))

  it.live("sparing what keep rules name, far from the oldest end too", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = Array.from({ length: 300 }, (_, index) =>
          bundle(root, {
            startedAt: now - (300 - index) * hour,
            ...(index === 3 ? { tags: { release: "1" } } : index === 5 ? { status: "error" as const } : {})
          }))
        yield* untilPaid({ policy: { maxAge: "2 hours", keepDaily: 3, keepTag: ["release"], keepStatus: ["error"] } })
        const left = yield* present
        assert.include(left, made[3]?.id)
        assert.include(left, made[5]?.id)
        assert.isAtMost(left.length, 8)
        assert.isAtLeast(left.length, 5)
      })
    ))

  it.live("in each group by itself", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        for (let index = 0; index < 30; index++) {
          bundle(root, { startedAt: now - (30 - index) * hour, name: `job-${index % 3}` })
        }
        const report = yield* prune({ maxBundles: 2, groupBy: "name" })
        assert.strictEqual(report.removed.length, 24)
      })
    ))

  it.live("bug 49: whatever host names there were", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        for (const { dir } of series(root, 100, now)) {
          NFS.writeFileSync(`${dir}/logs`, dir)
        }
        yield* prune({ maxBundles: 10 })
        assert.strictEqual((yield* present).length, 10)
      })
    ))

  it.live("bug 48: an empty policy removes nothing, and zero is refused before anything is touched", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - 400 * day)
        assert.strictEqual((yield* prune({})).removed.length, 0)
        for (const bad of [{ maxBundles: 0 }, { maxAge: "0s" }, { maxBytes: -1 }, { maxBundles: Number.NaN }]) {
          assert.strictEqual((yield* Effect.flip(prune(bad)))._tag, "PolicyError")
        }
        assert.strictEqual((yield* present).length, 3)
      })
    ))
})

describe("a pass keeps", () => {
  it.live.each(policies)(
    "bug 07: a live run, by %s as by all others, for one and the same reason",
    ([_, policy]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          series(root, 3, now - day, { size: 10 })
          const report = yield* prune(policy).pipe(Run.scoped({ name: "live", retention: "off" }))
          assert.strictEqual(report.kept["live"], 1)
          assert.strictEqual(report.removed.length, 3)
          assert.strictEqual((yield* present).length, 1)
        })
      )
  )

  it.live.each(policies)(
    "bug 55: a pinned run, by %s, and counts it where a limit asked for it",
    ([_, policy]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const pinned = bundle(root, { startedAt: now - 90 * day, pin: "release", size: 100_000 })
          series(root, 3, now - day)
          const report = yield* prune(policy)
          assert.deepStrictEqual(yield* present, [pinned.id])
          assert.strictEqual(report.kept["pinned"], 1)
        })
      )
  )

  it.live("bug 55: a run that was pinned after the index had it, and lets go of one that was unpinned", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const made = series(root, 4, now)
        yield* prune({ maxBundles: 100, keepLast: 100 })
        const first = made[0]!.id
        yield* store.pin(first, "late")
        const report = yield* prune({ all: true })
        assert.deepStrictEqual(yield* present, [first])
        assert.strictEqual(report.kept["pinned"], 1)
        yield* store.unpin(first)
        yield* untilPaid({ policy: { all: true } })
        assert.deepStrictEqual(yield* present, [])
      })
    ))

  it.live("bug 42: what nobody can read, as debt, and the rest goes", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 5, now)
        NFS.writeFileSync(`${made[1]!.dir}/run.json`, "null")
        NFS.rmSync(`${made[2]!.dir}/lease`)
        NFS.symlinkSync("/etc/hostname", `${made[2]!.dir}/lease`)
        const report = yield* prune({ all: true })
        assert.deepStrictEqual(yield* present, ids(made.slice(1, 3)))
        assert.strictEqual(report.kept["unknown"], 2)
        assert.strictEqual(report.debt?.reasons["unknown"], 2)
      })
    ))

  it.live("bug 36: what is dated in the future takes nobody's place and goes in its time", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 10, now)
        const ahead = bundle(root, { startedAt: now - hour, endedAt: Date.parse("2099-01-01T00:00:00Z") })
        const report = yield* prune({ maxBundles: 5 })
        assert.deepStrictEqual(removedBy(report), ids(made.slice(0, 5)))
        assert.include(yield* present, ahead.id)
      })
    ))
})

describe("a pass", () => {
  it.live("bug 47: brings crashed runs to their end first, and they fall under the policy", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const made = series(root, 40, now, { status: "running" })
        const report = yield* prune({ maxBundles: 10 }, { budget: { maxLooked: 1000 } })
        assert.strictEqual(report.recovered.length, 40)
        assert.strictEqual(report.removed.length, 30)
        const { record } = yield* store.get(made[39]!.id)
        assert.isTrue(Result.isSuccess(record) && record.success.status === "crashed")
      })
    ))

  it.live("ends within its budget, says what is left and how to pay it, and the next goes on", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 100, now)
        const budget = { maxRemoved: 30 }
        const first = yield* prune({ maxBundles: 10 }, { budget })
        assert.strictEqual(first.removed.length, 30)
        assert.strictEqual(first.debt?.bundles, 60)
        assert.strictEqual(first.debt?.passes, 2)
        assert.strictEqual(first.debt?.pay, "leasehold prune --max-bundles 10 --all-the-way")
        assert.strictEqual((yield* prune({ maxBundles: 10 }, { budget })).debt?.bundles, 30)
        assert.isNull((yield* prune({ maxBundles: 10 }, { budget })).debt)
        assert.strictEqual((yield* present).length, 10)
      })
    ))

  it.live("bug 43: goes past what fails and what has vanished, and is not held up by it the next time", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 60, now)
        const stuck = new Set(ids(made.slice(0, 20)))
        const failing = {
          ...node,
          rename: (from: string, to: string) => {
            if (to.includes("/trash/") && [...stuck].some((id) => from.endsWith(id))) {
              return Effect.fail(new Errno({ code: "EIO", call: "rename", path: from, cause: undefined }))
            }
            if (from.endsWith(made[25]!.id)) NFS.rmSync(from, { recursive: true, force: true })
            return node.rename(from, to)
          }
        }
        const passes = Effect.gen(function*() {
          const first = yield* prune({ all: true }, { budget: { maxRemoved: 20 } })
          assert.strictEqual(first.failed.length, 20)
          const second = yield* prune({ all: true }, { budget: { maxRemoved: 20 } })
          assert.isAtLeast(second.removed.length, 10)
          return yield* untilPaid({ policy: { all: true } })
        })
        const last = yield* Effect.provideService(passes, Files, failing)
        assert.strictEqual(
          last.debt?.reasons["failed"] !== undefined || last.debt?.reasons["budget"] !== undefined,
          true
        )
        assert.strictEqual((yield* present).length, 20)
        yield* untilPaid({ policy: { all: true } })
        assert.deepStrictEqual(yield* present, [])
      })
    ))

  it.live("does not count what failed, or waits for its turn because it did, as within the limits", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 12, now)
        const rename: typeof node.rename = (from, to) =>
          to.includes("/trash/")
            ? Effect.fail(new Errno({ code: "EIO", call: "rename", path: from, cause: undefined }))
            : node.rename(from, to)
        const reports = Effect.all([prune({ all: true }), prune({ all: true })])
        const told = yield* Effect.provideService(reports, Files, { ...node, rename })
        assert.deepStrictEqual(told.map(({ failed, kept }) => [failed.length, kept]), [[12, {}], [8, {}]])
      })
    ))

  it.live("in rounds: what could not be brought to its end in the first and was in the next has not failed", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - day)
        const crashed = bundle(root, { startedAt: now - day, status: "running" })
        let writes = 0
        const open: FilesApi["open"] = (path, ...how) =>
          // By the first look, and once more at the end of the pass.
          path.startsWith(`${crashed.dir}/run.json.`) && ++writes <= 2
            ? failing("ENOSPC", "open")
            : node.open(path, ...how)
        const rounds = untilPaid({ policy: { maxBundles: 1 }, budget: { maxRemoved: 1 } })
        const all = yield* rounds.pipe(withFiles({ open }))
        assert.deepStrictEqual([all.recovered, all.failed, all.debt], [[{ id: crashed.id }], [], null])
        assert.strictEqual(writes, 3)
      })
    ))

  it.live("as a dry run writes nothing, and says what the real one then does", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 30, now)
        series(root, 5, now - day, { status: "running" })
        yield* prune({ maxBundles: 1000 }, { budget: { maxLooked: 4 } })
        const snapshot = () =>
          NFS.readdirSync(root, { recursive: true }).map(String).sort().map((name) => {
            const { ino, mtimeNs, size } = NFS.lstatSync(`${root}/${name}`, { bigint: true })
            return `${name} ${ino} ${mtimeNs} ${size}`
          })
        const before = snapshot()
        const dry = yield* prune({ maxBundles: 12 }, { dryRun: true })
        assert.deepStrictEqual(snapshot(), before)
        const real = yield* prune({ maxBundles: 12 })
        assert.deepStrictEqual(dry.removed, real.removed)
        assert.deepStrictEqual(dry.recovered, real.recovered)
        assert.deepStrictEqual(dry.kept, real.kept)
      })
    ))

  it.live("takes away abandoned staging directories, and not those being built", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [abandoned] = series(root, 1, now)
        NFS.mkdirSync(`${root}/staging`, { recursive: true })
        NFS.renameSync(abandoned!.dir, `${root}/staging/${abandoned!.id}`)
        NFS.rmSync(`${root}/staging/${abandoned!.id}/run.json`)
        NFS.mkdirSync(`${root}/staging/20260101T000000000Z-aaaaaaaa`)
        yield* prune({})
        assert.deepStrictEqual(NFS.readdirSync(`${root}/staging`), [])
      })
    ))

  it.live("gives its events as a stream, the report last", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 5, now)
        const events = yield* Stream.runCollect(Retention.stream({ policy: { maxBundles: 3 } }))
        const tags = events.map((event) => "_tag" in event ? event._tag : "report")
        assert.deepStrictEqual(tags.filter((tag) => tag !== "Swept"), ["Removed", "Removed", "report"])
      })
    ))

  it.live("that is stopped says what it did, and the next one finishes", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 50, now)
        const stop = yield* Deferred.make<void>()
        const reached = yield* Deferred.make<void>()
        let seen = 0
        const onEvent = () =>
          Effect.suspend(() => ++seen < 10 ? Effect.void : Effect.asVoid(Deferred.succeed(reached, undefined)))
        const pass = yield* Effect.forkChild(prune({ all: true }, { stop: Deferred.await(stop), onEvent }))
        yield* Deferred.await(reached)
        yield* Deferred.succeed(stop, undefined)
        const report = yield* Fiber.join(pass)
        assert.isTrue(report.stopped)
        assert.isAtLeast(report.removed.length, 10)
        assert.strictEqual((yield* present).length, 50 - report.removed.length)
        yield* untilPaid({ policy: { all: true } })
        assert.deepStrictEqual(yield* present, [])
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
      })
    ))
})

describe("retention in a run", () => {
  it.live.each(["background", "before", "after"] as const)(
    "%s: removes what the policy asks for, never its own run",
    (when) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          series(root, 10, now)
          yield* Effect.void.pipe(Run.scoped({ name: "own", retention: { when, policy: { all: true } } }))
          assert.strictEqual((yield* present).length, 1)
        })
      )
  )

  it.live("off: removes nothing; and a policy that cannot be is refused before a bundle is made", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - 400 * day)
        yield* Effect.void.pipe(Run.scoped({ name: "own", retention: "off" }))
        assert.strictEqual((yield* present).length, 4)
        const error = yield* Effect.flip(
          Effect.void.pipe(Run.scoped({ name: "own", retention: { policy: { maxBundles: 0 } } }))
        )
        assert.include(error.message, "maxBundles")
        assert.strictEqual((yield* present).length, 4)
      })
    ))
})
