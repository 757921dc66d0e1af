import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { type FilesApi, node } from "../src/internal/Files.ts"
import type { PassEvent, Report } from "../src/RetentionReport.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunStore from "../src/RunStore.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { aged, inStore, listed, prune, reasons } from "./support/Pruning.ts"
import { everything } from "./support/Snapshot.ts"
import { ids, present } from "./support/Stores.ts"
import { day } from "./support/Time.ts"
import { at as undoneAt } from "./support/Undo.ts"

const trimmedBy = (report: Report) => report.trimmed.map(({ id }) => id)
const archivedBy = (report: Report) => report.archived.map(({ id }) => id)
const temp = ({ dir }: Made) => names(`${dir}/temp`)

/** It says itself when it was last at work. */
const crashedLongAgo = (root: string, now: number): Made => {
  const crashed = aged(root, now, 30, { status: "running" })
  NFS.mkdirSync(`${crashed.dir}/logs`)
  const timestamp = new Date(now - 29 * day).toISOString()
  NFS.writeFileSync(`${crashed.dir}/logs/events.jsonl`, `${JSON.stringify({ timestamp })}\n`)
  return crashed
}

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
        const crashed = crashedLongAgo(root, now)
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

  it.live("tell of an end that could be written only by the time of the archiving", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const crashed = crashedLongAgo(root, now)
        let refused = 0
        const rename: FilesApi["rename"] = (from, to) =>
          to === `${crashed.dir}/run.json` && refused++ === 0 ? failing("ENOSPC", "rename") : node.rename(from, to)
        const told: Array<string> = []
        const onEvent = (event: PassEvent) => Effect.sync(() => void told.push(event._tag))
        const report = yield* prune({ archive: "10 days" }, { onEvent }).pipe(withFiles({ rename }))
        assert.deepStrictEqual([report.recovered, archivedBy(report), report.failed], [[{ id: crashed.id }], [
          crashed.id
        ], []])
        assert.deepStrictEqual(told.filter((tag) => tag !== "Swept"), ["Recovered", "Archived"])
        assert.strictEqual(refused, 2)
      })
    ))

  it.live.each([["trim"], ["archive"]])(
    "write nothing into the record of another run: %s",
    ([tier]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const { dir, id } = aged(root, now, 30)
          const { id: other } = bundle(root, { startedAt: now })
          yield* prune({ maxBundles: 100 })
          const text = JSON.stringify({ ...recordAt(dir), id: other, status: "running" })
          NFS.writeFileSync(`${dir}/run.json`, text)
          const report = yield* prune({ [tier!]: "10 days" })
          assert.deepStrictEqual([report.recovered, report.failed, report.kept["unknown"]], [[], [], 1])
          assert.deepStrictEqual([NFS.readFileSync(`${dir}/run.json`, "utf8"), present(root)], [text, [id, other]])
        })
      )
  )

  it.live("of a dry run write nothing, and say what would be done", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [due, old] = [5, 20].map((daysAgo) => aged(root, now, daysAgo))
        yield* prune({ maxBundles: 100 })
        const before = everything(root)
        const report = yield* prune({ trim: "3 days", archive: "10 days" }, { dryRun: true })
        assert.deepStrictEqual(everything(root), before)
        assert.deepStrictEqual([trimmedBy(report), archivedBy(report)], [ids([old!, due!]), ids([old!])])
        const real = yield* prune({ trim: "3 days", archive: "10 days" })
        assert.deepStrictEqual([trimmedBy(real), archivedBy(real)], [ids([old!, due!]), ids([old!])])
      })
    ))

  const rewrite = ({ dir }: Made, change: object) =>
    NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...recordAt(dir), ...change }))
  const hinder: Record<string, (one: Made) => void> = {
    "its record is that of another": (one) => rewrite(one, { id: "20260101T000000000Z-aaaaaaaa" }),
    "its record is torn": ({ dir }) => NFS.writeFileSync(`${dir}/run.json`, "{"),
    "its lease is a directory": ({ dir }) => {
      NFS.rmSync(`${dir}/lease`)
      NFS.mkdirSync(`${dir}/lease`)
    },
    "it was pinned": (one) => rewrite(one, { pin: { reason: "mine", at: new Date().toISOString() } }),
    "it has gone": ({ dir }) => NFS.rmSync(dir, { recursive: true }),
    "it cannot be undone": (one) => rewrite(one, { onRemove: [{ id: "a", at: undoneAt, undo: { type: "rite" } }] }),
    "it is held": () => {}
  }

  it.live.each(
    Object.entries(hinder).flatMap(([why, hindrance]) =>
      (["trim", "archive"] as const).map((tier) => [tier, why, hindrance] as const)
    )
  )(
    "of a dry run say no more than would be done: of %s where %s",
    ([tier, why, hindrance]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const store = yield* RunStore.RunStore
          const [one, other] = [30, 29].map((daysAgo) => aged(root, now, daysAgo))
          // From here on a pass takes it for one that has ended, and looks no more.
          yield* prune({ maxBundles: 100 })
          hindrance(one!)
          if (why === "it is held") yield* store.resume(one!.id)
          const told = ({ archived, debt, failed, kept, trimmed }: Report) =>
            [archived.map(({ id }) => id), debt?.reasons, failed, kept, trimmed.map(({ id }) => id)] as const
          const policy = { [tier]: "10 days" }
          const dry = told(yield* prune(policy, { dryRun: true }))
          assert.deepStrictEqual(dry, told(yield* prune(policy)))
          if (tier === "archive") assert.deepStrictEqual(dry[0], [other!.id])
        }).pipe(Effect.scoped)
      )
  )

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

  /** A door through which what is named so does not go. */
  const holding = (held: string): Partial<FilesApi> => ({
    renameAt: (place, from, ...to) =>
      from.toString() === held ? failing("EIO", "rename") : node.renameAt(place, from, ...to)
  })

  it.live.each<readonly [string, ReadonlyArray<string>, object]>([
    ["anew where a part was moved out of it", ["0", "stays"], { failed: 1, unmeasured: 1 }],
    ["once where nothing would go", ["stays"], { failed: 1 }],
    ["once where there was nothing", [], {}]
  ])("have a bundle measured %s", ([_, files, expected]) =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const { dir } = aged(root, now, 6)
        NFS.rmSync(`${dir}/temp/0`)
        for (const name of files) NFS.writeFileSync(`${dir}/temp/${name}`, "x")
        const report = yield* prune({ trim: "3 days", maxBytes: "1 GiB" }).pipe(withFiles(holding("stays")))
        assert.deepStrictEqual(reasons(report), expected)
      })
    ))

  it.live.each<readonly [string, Partial<FilesApi>]>([["an empty file", {}], ["a part", holding("0")]])(
    "tell of %s that lies in the trash when the pass is stopped",
    ([_, files]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const { dir } = aged(root, now, 5)
          NFS.writeFileSync(`${dir}/temp/empty`, "")
          if (files.renameAt === undefined) NFS.rmSync(`${dir}/temp/0`)
          const stop = yield* Deferred.make<void>()
          const goes = once(
            (call) => call === "renameAt",
            Effect.andThen(Deferred.succeed(stop, undefined), Effect.yieldNow)
          )
          const report = yield* prune({ trim: "3 days" }, { stop: Deferred.await(stop) }).pipe(watch(goes, files))
          const { inTrash, stopped } = reasons(report)
          assert.deepStrictEqual([names(`${root}/trash`).length, inTrash, stopped], [1, 1, 1])
        })
      )
  )

  it.live.each(["trim", "archive"] as const)(
    "take one that has gone while they %s it for gone",
    (tier) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const one = aged(root, now, 30)
          const goes = once(
            (call, [path]) => tier === "trim" ? call === "renameAt" : call === "read" && path === "temp/0",
            Effect.sync(() => NFS.rmSync(one.dir, { recursive: true }))
          )
          const report = yield* prune({ [tier]: "10 days" }).pipe(watch(goes))
          assert.deepStrictEqual([present(root), report.failed, report.debt], [[], [], null])
        })
      )
  )

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
