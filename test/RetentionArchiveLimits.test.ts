import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { dayOf } from "../src/internal/ArchivePlace.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import type { Report } from "../src/RetentionReport.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunStore from "../src/RunStore.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { aged, inStore, listed, prune, reasons } from "./support/Pruning.ts"
import { ids, present } from "./support/Stores.ts"
import { day, hour } from "./support/Time.ts"

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

  it.live("what failed in one pass and went in a later one has not failed", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 29, 28])
        let tries = 0
        const unlink: FilesApi["unlink"] = (path) =>
          path === Archives.pathOf(root, made[0]!.id) && ++tries === 1 ? failing("EIO", "unlink") : node.unlink(path)
        const rounds = untilPaid({ policy: { archiveMaxAge: "1 day" }, budget: { maxRemoved: 1 } })
        const all = yield* rounds.pipe(withFiles({ unlink }))
        assert.deepStrictEqual([expiredBy(all).length, all.failed, all.debt, tries], [3, [], null, 2])
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

  it.live.each<readonly [string, (record: object) => string]>([
    ["cannot be read", () => "{"],
    ["has the record of another", (record) => JSON.stringify({ ...record, id: "20261101T000000000Z-aaaaaaaa" })]
  ])(
    "one stays that may be all that is left of its run, whose bundle %s, and another goes in its place",
    ([, damage]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const { id, path } = yield* stale(root, now)
          const [other] = yield* archived(root, now, [29])
          const { dir } = yield* (yield* RunStore.RunStore).get(id)
          NFS.writeFileSync(`${dir}/run.json`, damage(recordAt(dir)))
          NFS.utimesSync(path, new Date(now - 30 * day), new Date(now - 30 * day))
          const byAge = { archiveMaxAge: "1 day" }
          const byBytes = { archiveMaxBytes: 60_000 }
          const passes = [[byAge, true], [byBytes, true], [byBytes, false]] as const
          for (const [policy, dryRun] of passes) {
            const report = yield* prune(policy, { dryRun })
            assert.deepStrictEqual([expiredBy(report), reasons(report)["unknown"], report.failed], [
              [other!.id],
              1,
              []
            ])
          }
          assert.deepStrictEqual([NFS.existsSync(path), present(root), Archives.archives(root).length], [true, [id], 1])
        })
      )
  )

  /** A call that fails as on a bad disk, by what it is about. */
  const broken = ([call, path]: readonly ["lstat" | "listAt", string]) =>
    call === "lstat"
      ? withFiles({ lstat: (each) => each === path ? failing("EIO", call) : node.lstat(each) })
      : withFiles({
        listAt: (each, options) => String(each) === path ? failing("EIO", call) : node.listAt(each, options)
      })

  /** Days that moved long ago, so that what a pass comes to know of them holds. */
  const settle = (root: string, now: number) => {
    for (const name of names(`${root}/archive`)) Archives.touch(`${root}/archive/${name}`, (now - hour) / 1000)
  }

  const byAge = { archiveMaxAge: "15 days" }

  it.live.each<readonly [string, (root: string, made: Made) => Parameters<typeof broken>[0]]>([
    ["the listing of a day", (root, { id }) => ["listAt", dayOf(root, id)]],
    ["a look at a day", (root, { id }) => ["lstat", dayOf(root, id)]],
    ["a look at an archive", (root, { id }) => ["lstat", Archives.pathOf(root, id)]],
    ["the listing of all days", (root) => ["listAt", `${root}/archive`]],
    ["a look at the archive itself", (root) => ["lstat", `${root}/archive`]]
  ])(
    "hold for what could not be looked at, when %s fails once",
    ([_, what]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const [one, other] = yield* archived(root, now, [30, 20])
          settle(root, now)
          const first = yield* prune(byAge).pipe(broken(what(root, one!)))
          assert.strictEqual(reasons(first)["unlistedDays"], 1)
          assert.include(yield* listed, one!.id)
          const second = yield* prune(byAge)
          assert.sameMembers([...expiredBy(first), ...expiredBy(second)], [one!.id, other!.id])
          assert.deepStrictEqual([yield* listed, second.debt], [[], null])
        })
      )
  )

  it.live("count a day by what is known of it when it cannot be listed", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 20])
        settle(root, now)
        yield* prune({ archiveMaxBytes: "1 GiB" })
        const place = dayOf(root, made[0]!.id)
        NFS.utimesSync(place, new Date(now - 2 * hour), new Date(now - 2 * hour))
        const report = yield* prune({ archiveMaxBytes: 60_000 }).pipe(broken(["listAt", place]))
        assert.deepStrictEqual([expiredBy(report), reasons(report)["unlistedDays"]], [[made[1]!.id], 1])
        assert.deepStrictEqual(expiredBy(yield* prune({ archiveMaxBytes: 60_000 })), [])
      })
    ))

  it.live("own up to a day that is known and can be listed no more", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [one] = yield* archived(root, now, [30])
        settle(root, now)
        yield* prune({ archiveMaxBytes: "1 GiB" })
        const place = dayOf(root, one!.id)
        for (const what of [["listAt", place], ["lstat", Archives.pathOf(root, one!.id)]] as const) {
          const report = yield* prune(byAge).pipe(broken(what))
          assert.deepStrictEqual([expiredBy(report), reasons(report)["unlistedDays"]], [[], 1])
        }
        assert.deepStrictEqual(expiredBy(yield* prune(byAge)), [one!.id])
      })
    ))

  it.live("have the next one go for one that will not", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = yield* archived(root, now, [30, 20, 10])
        const unlink: FilesApi["unlink"] = (path) =>
          path === Archives.pathOf(root, made[0]!.id) ? failing("EPERM", "unlink") : node.unlink(path)
        const report = yield* prune({ archiveMaxBytes: 120_000 }).pipe(withFiles({ unlink }))
        assert.deepStrictEqual([expiredBy(report), reasons(report)], [[made[1]!.id], { failed: 1 }])
      })
    ))

  it.live("take no archive beside whose place something may be that cannot be looked at", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { id, path } = yield* stale(root, now)
        NFS.utimesSync(path, new Date(now - 29 * day), new Date(now - 29 * day))
        const { dir } = yield* (yield* RunStore.RunStore).get(id)
        for (const dryRun of [true, false]) {
          const report = yield* prune(byAge, { dryRun }).pipe(broken(["lstat", dir]))
          assert.deepStrictEqual([expiredBy(report), NFS.existsSync(path)], [[], true])
        }
      })
    ))
})
