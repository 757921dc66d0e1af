import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import { type FilesApi, node } from "../src/internal/Files.ts"
import type { Report } from "../src/RetentionReport.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunStore from "../src/RunStore.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle, type Made, type Spec } from "./support/Fabricate.ts"
import { inStore, prune } from "./support/Pruning.ts"
import { everything } from "./support/Snapshot.ts"
import { ids, present } from "./support/Stores.ts"
import { day, hour } from "./support/Time.ts"

const listed = Effect.map(Stream.runCollect(RunArchive.list), (entries) => entries.map(({ id }) => id))

/** A finished bundle of some days ago with a file in `temp` and random bytes elsewhere, so that sizes mean something. */
const aged = (root: string, now: number, daysAgo: number, spec: Partial<Spec> = {}): Made => {
  const made = bundle(root, { startedAt: now - daysAgo * day, size: 1000, ...spec })
  NFS.mkdirSync(`${made.dir}/temp`)
  NFS.writeFileSync(`${made.dir}/temp/0`, "x".repeat(4096))
  return made
}

const trimmedBy = (report: Report) => report.trimmed.map(({ id }) => id)
const archivedBy = (report: Report) => report.archived.map(({ id }) => id)
const reasons = (report: Report) => report.debt?.reasons ?? {}
const temp = ({ dir }: Made) => names(`${dir}/temp`)

describe("the tiers of a pass", () => {
  it.live("trim what is due, archive what is older, oldest first, and leave what is young", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [young, due, old, oldest] = [1, 5, 20, 30].map((daysAgo) => aged(root, now, daysAgo))
        const pinned = aged(root, now, 40, { pin: "keep" })
        const report = yield* prune({ trim: "3 days", archive: "10 days" })
        assert.deepStrictEqual(trimmedBy(report), ids([oldest!, old!, due!]))
        assert.deepStrictEqual(archivedBy(report), ids([oldest!, old!]))
        assert.deepStrictEqual([report.removed, report.failed, report.debt], [[], [], null])
        assert.deepStrictEqual(report.trimmed.map(({ bytes }) => bytes), [4096, 4096, 4096])
        assert.deepStrictEqual([temp(young!), temp(due!), temp(pinned)], [["0"], [], ["0"]])
        assert.deepStrictEqual(present(root), ids([pinned, due!, young!]))
        assert.deepStrictEqual(yield* listed, ids([old!, oldest!]))
        assert.deepStrictEqual([names(`${root}/trash`), names(`${root}/staging`)], [[], []])
        assert.strictEqual(report.archived[0]?.bytes, NFS.statSync(Archives.pathOf(root, oldest!.id)).size)
        const { trimmed } = yield* RunArchive.restore(oldest!.id)
        assert.deepStrictEqual(trimmed?.map(({ paths }) => paths), [["temp/**"]])
      })
    ))

  it.live("leave one that is held, and see a pin that comes with the claim", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const [held, pinned, other] = [30, 29, 28].map((daysAgo) => aged(root, now, daysAgo))
        const isClaim = (call: string, [path]: ReadonlyArray<string>) =>
          call === "tryExclusive" && path === `${pinned!.dir}/lease`
        const pin = Effect.asVoid(Effect.orDie(store.pin(pinned!.id, "now")))
        const report = yield* Effect.scoped(Effect.andThen(
          store.resume(held!.id),
          prune({ archive: "10 days" }).pipe(watch(once(isClaim, pin)))
        ))
        assert.deepStrictEqual(archivedBy(report), ids([other!]))
        assert.deepStrictEqual([Object.values(report.kept), report.failed], [[2], []])
        assert.deepStrictEqual(present(root), ids([held!, pinned!]))
        const again = yield* prune({ archive: "10 days" })
        assert.deepStrictEqual(archivedBy(again), [])
      })
    ))

  it.live("bring a crashed one to its end, archive it, and leave to a limit what it takes", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const crashed = aged(root, now, 30, { status: "running" })
        NFS.mkdirSync(`${crashed.dir}/logs`)
        const timestamp = new Date(now - 29 * day).toISOString()
        NFS.writeFileSync(`${crashed.dir}/logs/events.jsonl`, `${JSON.stringify({ timestamp })}\n`)
        const gone = aged(root, now, 200)
        const policy = { archive: "10 days", maxAge: "100 days" } as const
        const first = yield* prune(policy)
        assert.deepStrictEqual([first.removed.map(({ id }) => id), first.recovered.map(({ id }) => id)], [
          ids([gone]),
          ids([crashed])
        ])
        assert.deepStrictEqual([archivedBy(first), present(root), yield* listed], [[crashed.id], [], [crashed.id]])
        const record = yield* Effect.flatMap(RunArchive.get(crashed.id), RunArchive.readRecord)
        assert.strictEqual(record.status, "crashed")
      })
    ))

  it.live("of a dry run write nothing, and say what would be done", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [due, old] = [5, 20].map((daysAgo) => aged(root, now, daysAgo))
        yield* prune({ maxBundles: 100 })
        const before = everything(root)
        const report = yield* prune({ trim: "3 days", archive: "10 days" }, { dryRun: true })
        assert.deepStrictEqual(everything(root), before)
        assert.deepStrictEqual(trimmedBy(report), ids([old!, due!]))
        const real = yield* prune({ trim: "3 days", archive: "10 days" })
        assert.deepStrictEqual([trimmedBy(real), archivedBy(real)], [ids([old!, due!]), ids([old!])])
      })
    ))

  it.live("do no more than the budget, and the rest is debt that later passes pay", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = [30, 29, 28, 27, 26].map((daysAgo) => aged(root, now, daysAgo))
        const policy = { trim: "3 days", archive: "10 days" }
        const first = yield* prune(policy, { budget: { maxRemoved: 3 } })
        assert.deepStrictEqual([trimmedBy(first), archivedBy(first)], [ids(made.slice(0, 3)), []])
        assert.strictEqual(reasons(first)["toTrim"], 2)
        const second = yield* prune(policy, { budget: { maxRemoved: 3 } })
        assert.deepStrictEqual([trimmedBy(second), archivedBy(second)], [ids(made.slice(3)), ids(made.slice(0, 1))])
        const all = yield* untilPaid({ policy, budget: { maxRemoved: 2 } })
        assert.deepStrictEqual([archivedBy(all), all.debt], [ids(made.slice(1)), null])
        assert.deepStrictEqual(yield* listed, ids(made.toReversed()))
      })
    ))

  it.live("pack no more bytes than the budget, and one that is larger waits for a larger one", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const large = aged(root, now, 30, { size: 3_000_000 })
        const small = [29, 28, 27].map((daysAgo) => aged(root, now, daysAgo, { size: 300_000 }))
        const policy = { archive: "10 days" }
        const first = yield* prune(policy, { budget: { maxPacked: 1_000_000 } })
        assert.deepStrictEqual([archivedBy(first), reasons(first)["toArchive"]], [ids(small.slice(0, 3)), 1])
        const again = yield* prune(policy, { budget: { maxPacked: 1_000_000 } })
        assert.deepStrictEqual([archivedBy(again), reasons(again)["toArchive"]], [[], 1])
        const all = yield* untilPaid({ policy, budget: { maxPacked: 1_000_000 } })
        assert.deepStrictEqual([archivedBy(all), all.debt], [[large.id], null])
      })
    ))

  it.live("a bundle that cannot be archived does not hold up the others, in this pass or the next", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [bad, ...others] = [30, 29, 28].map((daysAgo) => aged(root, now, daysAgo))
        NFS.writeFileSync(`${bad!.dir}/artifacts/bad`, "x")
        const openAt: FilesApi["openAt"] = (place, name, flags, mode) =>
          name.toString() === "bad" ? failing("EIO", "open") : node.openAt(place, name, flags, mode)
        const pass = (more: object = {}) => prune({ archive: "10 days" }, more).pipe(withFiles({ openAt }))
        const report = yield* pass({ budget: { maxRemoved: 2 } })
        assert.deepStrictEqual([archivedBy(report), report.failed.map(({ id }) => id)], [ids(others), [bad!.id]])
        assert.strictEqual(reasons(report)["failed"], 1)
        const late = aged(root, now, 27)
        const next = yield* pass({ budget: { maxRemoved: 1 } })
        assert.deepStrictEqual(archivedBy(next), [late.id])
        assert.deepStrictEqual(present(root), [bad!.id])
        assert.deepStrictEqual([names(`${root}/staging`), yield* listed], [[], ids([late, ...others.toReversed()])])
        assert.deepStrictEqual(archivedBy(yield* prune({ archive: "10 days" })), [bad!.id])
      })
    ))

  it.live("trim each bundle once, and do not look at it again until there is reason to", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = [9, 8, 7].map((daysAgo) => aged(root, now, daysAgo))
        const opens: Array<string> = []
        const counting = watch((call, [path]) =>
          Effect.sync(() => void (call === "open" && path?.endsWith("/run.json") === true && opens.push(path)))
        )
        assert.deepStrictEqual(trimmedBy(yield* prune({ trim: "3 days" })), ids(made))
        yield* prune({ trim: "3 days" }).pipe(counting)
        assert.deepStrictEqual(opens, [])
        NFS.writeFileSync(`${made[1]!.dir}/artifacts/x.img`, "x")
        const other = yield* prune({ trim: { after: "3 days", paths: ["temp/**", "**/*.img"] } })
        assert.deepStrictEqual(trimmedBy(other), ids(made))
        assert.isFalse(NFS.existsSync(`${made[1]!.dir}/artifacts/x.img`))
        yield* prune({ trim: { after: "3 days", paths: ["**/*.img", "temp/**"] } }).pipe(counting)
        assert.deepStrictEqual(opens, [])
        const paths = recordAt(made[0]!.dir).trimmed?.map((trim) => trim.paths.join())
        assert.deepStrictEqual(paths, ["temp/**", "temp/**,**/*.img"])
      })
    ))

  it.live("trim one again that was gone on with", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = aged(root, now, 9)
        yield* prune({ trim: "3 days" })
        yield* Effect.sync(() => NFS.writeFileSync(`${made.dir}/temp/again`, "x")).pipe(
          Run.resume(made.id, { rebuilds: true })
        )
        assert.deepStrictEqual(temp(made), ["again"])
        assert.deepStrictEqual(trimmedBy(yield* prune({ trim: "3 days" })), [])
        // The clock goes on by itself, and a pass may come within the same millisecond.
        const again = yield* prune({ trim: "1 millis" }).pipe(
          Effect.repeat({ until: ({ trimmed }) => trimmed.length > 0 })
        )
        assert.deepStrictEqual(trimmedBy(again), [made.id])
        assert.deepStrictEqual(temp(made), [])
      })
    ))

  it.live("are over in time, and what a pass has no time to pack comes last in the next", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [slow, other] = [30, 29].map((daysAgo) => aged(root, now, daysAgo))
        NFS.writeFileSync(`${slow!.dir}/artifacts/slow`, "x")
        const hangs = once((call, paths) => call === "read" && paths[0] === "artifacts/slow", Effect.never)
        const report = yield* prune({ archive: "10 days" }, { budget: { maxTime: "300 millis" } }).pipe(watch(hangs))
        assert.deepStrictEqual([archivedBy(report), reasons(report)["toArchive"], report.failed], [[], 2, []])
        assert.deepStrictEqual([present(root), names(`${root}/staging`), yield* listed], [ids([slow!, other!]), [], []])
        assert.deepStrictEqual(archivedBy(yield* prune({ archive: "10 days" })), ids([other!, slow!]))
      })
    ))

  it.live("tell of a bundle that has gone into the archive when the time is over or the pass is stopped", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        for (const isStopped of [false, true]) {
          const one = aged(root, now, 30)
          const stop = yield* Deferred.make<void>()
          const goes = once(
            (call, [path]) => call === "rename" && path === one.dir,
            isStopped
              ? Effect.andThen(Deferred.succeed(stop, undefined), Effect.yieldNow)
              : Effect.gen(function*() {
                const end = (yield* Clock.currentTimeMillis) + 400
                yield* Effect.repeat(Clock.currentTimeMillis, { until: (millis) => millis > end })
              })
          )
          const report = yield* prune({ archive: "10 days" }, {
            budget: { maxTime: isStopped ? "1 minute" : "300 millis" },
            stop: Deferred.await(stop)
          }).pipe(watch(goes))
          assert.deepStrictEqual([archivedBy(report), report.stopped], [[one.id], isStopped])
          assert.deepStrictEqual([NFS.existsSync(one.dir), (yield* listed)[0]], [false, one.id])
        }
      })
    ))

  it.live("with the index lost come to the same", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = [30, 9, 8].map((daysAgo) => aged(root, now, daysAgo))
        const policy = { trim: "3 days", archive: "10 days", archiveMaxAge: "100 days" }
        yield* prune(policy)
        const before = made.slice(1).map(({ dir }) => NFS.readFileSync(`${dir}/run.json`, "utf8"))
        for (const name of names(root).filter((name) => name.startsWith("index.db"))) NFS.rmSync(`${root}/${name}`)
        const again = yield* prune(policy)
        assert.deepStrictEqual([trimmedBy(again), archivedBy(again), again.expired, again.failed], [[], [], [], []])
        assert.deepStrictEqual(made.slice(1).map(({ dir }) => NFS.readFileSync(`${dir}/run.json`, "utf8")), before)
        assert.deepStrictEqual(yield* listed, [made[0]!.id])
      })
    ))
})

describe("the limits of the archive", () => {
  const archived = Effect.fnUntraced(function*(root: string, now: number, daysAgo: ReadonlyArray<number>) {
    const made = daysAgo.map((ago) => aged(root, now, ago))
    for (const one of made) {
      NFS.writeFileSync(`${one.dir}/artifacts/noise`, crypto.getRandomValues(new Uint8Array(50_000)))
      yield* RunArchive.archive(one.id)
    }
    return made
  })

  const expiredBy = (report: Report) => report.expired.map(({ id }) => id)

  it.live("by age take those whose runs ended long ago", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 20, 10])
        const long = bundle(root, { startedAt: now - 40 * day, endedAt: now - day })
        yield* RunArchive.archive(long.id)
        const dry = yield* prune({ archiveMaxAge: "15 days" }, { dryRun: true })
        assert.deepStrictEqual([expiredBy(dry), (yield* listed).length], [ids(made.slice(0, 2)), 4])
        const report = yield* prune({ archiveMaxAge: "15 days" })
        assert.deepStrictEqual(expiredBy(report), ids(made.slice(0, 2)))
        assert.match(report.expired[0]!.reason, /^older than 15 days$/)
        assert.deepStrictEqual(yield* listed, [made[2]!.id, long.id])
        assert.deepStrictEqual(expiredBy(yield* prune({ archiveMaxAge: "15 days" })), [])
      })
    ))

  it.live("by bytes take the oldest, and no more than is needed", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 20, 10, 5])
        const report = yield* prune({ archiveMaxBytes: 120_000 })
        assert.deepStrictEqual([expiredBy(report), report.debt], [ids(made.slice(0, 2)), null])
        assert.isAbove(report.freedBytes, 100_000)
        assert.deepStrictEqual(yield* listed, ids(made.slice(2).toReversed()))
        assert.deepStrictEqual(expiredBy(yield* prune({ archiveMaxBytes: 120_000 })), [])
        assert.deepStrictEqual(expiredBy(yield* prune({ archiveMaxBytes: 119_999, maxBundles: 1 })), [])
      })
    ))

  it.live("within the budget, and the rest is debt", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 29, 28])
        const report = yield* prune({ archiveMaxAge: "1 day" }, { budget: { maxRemoved: 2 } })
        assert.deepStrictEqual([expiredBy(report), reasons(report)["toExpire"]], [ids(made.slice(0, 2)), 1])
        const all = yield* untilPaid({ policy: { archiveMaxAge: "1 day" }, budget: { maxRemoved: 2 } })
        assert.deepStrictEqual([expiredBy(all), all.debt, yield* listed], [ids(made.slice(2)), null, []])
      })
    ))

  it.live("list no day that has not moved, and leave one that is being restored", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 20, 10])
        for (const name of names(`${root}/archive`)) Archives.touch(`${root}/archive/${name}`, (now - hour) / 1000)
        const lists: Array<string> = []
        const counting = withFiles({
          listAt: (place, options) => {
            if (String(place).startsWith(`${root}/archive/`)) lists.push(String(place))
            return node.listAt(place, options)
          }
        })
        yield* prune({ archiveMaxBytes: "1 GiB" }).pipe(counting)
        assert.strictEqual(lists.splice(0).length, 3)
        yield* prune({ archiveMaxBytes: "1 GiB" }).pipe(counting)
        assert.deepStrictEqual(lists.splice(0), [])
        yield* RunArchive.remove(made[1]!.id)
        yield* prune({ archiveMaxBytes: 110_000 }).pipe(counting)
        assert.deepStrictEqual(yield* listed, ids([made[2]!, made[0]!]))
        const context = yield* Effect.context<never>()
        const told: Array<ReadonlyArray<string>> = []
        const pass = Effect.map(
          Effect.provide(prune({ archiveMaxAge: "1 day" }), context as never) as Effect.Effect<Report>,
          (report) => void told.push(expiredBy(report), report.failed.map(({ id }) => id))
        )
        yield* RunArchive.restore(made[0]!.id).pipe(watch(once((call) => call === "openAt", pass)))
        assert.deepStrictEqual(told, [[made[2]!.id], []])
        assert.deepStrictEqual([present(root), yield* listed], [[made[0]!.id], []])
      })
    ))

  /** A bundle, and beside it the archive that it was restored from. */
  const stale = Effect.fnUntraced(function*(root: string, now: number) {
    const [one] = yield* archived(root, now, [30])
    const path = Archives.pathOf(root, one!.id)
    const bytes = NFS.readFileSync(path)
    yield* RunArchive.restore(one!.id)
    Archives.put(root, one!.id, bytes)
    return { id: one!.id, path }
  })

  it.live("a stale archive goes with its bundle when a pass removes that", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { id, path } = yield* stale(root, now)
        const report = yield* prune({ all: true })
        assert.deepStrictEqual(report.removed.map((removed) => removed.id), [id])
        assert.deepStrictEqual([NFS.existsSync(path), yield* listed], [false, []])
      })
    ))

  it.live("a stale archive that is too old goes, and nobody is told that its run has gone", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { id, path } = yield* stale(root, now)
        NFS.utimesSync(path, new Date(now - 29 * day), new Date(now - 29 * day))
        const report = yield* prune({ archiveMaxAge: "15 days" })
        assert.deepStrictEqual([report.expired, NFS.existsSync(path), present(root)], [[], false, [id]])
        assert.isAbove(report.freedBytes, 0)
      })
    ))
})
