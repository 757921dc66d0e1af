/** What a store may hold that would lead a pass astray, stop it, or have it promise what it cannot keep. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, node } from "../src/internal/Files.ts"
import { Lease } from "../src/Lease.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as RunStore from "../src/RunStore.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { ids, inStore, prune } from "./support/Pruning.ts"
import { day } from "./support/Time.ts"

/** Everything below a directory, with what tells whether anybody has touched it. */
const snapshot = (root: string) =>
  NFS.readdirSync(root, { recursive: true }).map(String).sort().map((name) => {
    const { ino, mtimeNs, size } = NFS.lstatSync(`${root}/${name}`, { bigint: true })
    return `${name} ${ino} ${mtimeNs} ${size}`
  })

const heldBy = (made: ReadonlyArray<Made>) =>
  Effect.flatMap(Lease, (lease) => Effect.forEach(made, (target) => lease.hold(target, { role: "joined" })))

describe("a pass stays in its store", () => {
  it.live.each(["runs", "staging"] as const)(
    "where %s is a link to another one",
    (place) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const other = `${root}-other`
          series(other, 5, now - day)
          NFS.mkdirSync(`${other}/staging/20260101T000000000Z-aaaaaaaa`, { recursive: true })
          NFS.rmSync(`${root}/${place}`, { recursive: true, force: true })
          NFS.symlinkSync(`${other}/${place}`, `${root}/${place}`)
          const before = snapshot(other)
          const report = yield* prune({ all: true })
          assert.deepStrictEqual(snapshot(other), before)
          assert.strictEqual(report.removed.length, 0)
          assert.isTrue(report.failed.some(({ reason }) => reason.includes(`${root}/${place} is a link`)))
          NFS.rmSync(other, { recursive: true })
        })
      )
  )

  it.live("where a record is that of another run", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [first, second] = series(root, 2, now - day)
        NFS.copyFileSync(`${first!.dir}/run.json`, `${second!.dir}/run.json`)
        const report = yield* prune({ all: true })
        assert.deepStrictEqual(report.removed.map(({ id }) => id), [first!.id])
        assert.deepStrictEqual([report.kept["unknown"], report.debt?.reasons["unknown"]], [1, 1])
      })
    ))
})

describe("a dry run", () => {
  it.live("makes no lease for a bundle that has none", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 3, now - day)
        for (const { dir } of made) NFS.rmSync(`${dir}/lease`)
        const before = snapshot(`${root}/runs`)
        const dry = yield* prune({ all: true }, { dryRun: true })
        assert.deepStrictEqual(snapshot(`${root}/runs`), before)
        const real = yield* prune({ all: true })
        assert.deepStrictEqual([dry.removed, dry.kept], [real.removed, real.kept])
      })
    ))

  it.live("says the same of what is held", () =>
    inStore((root, now) =>
      Effect.scoped(Effect.gen(function*() {
        const made = series(root, 6, now - day)
        yield* heldBy(made.slice(0, 2))
        const dry = yield* prune({ maxBundles: 3 }, { dryRun: true })
        const real = yield* prune({ maxBundles: 3 })
        assert.deepStrictEqual(dry.removed.map(({ id }) => id), ids(made.slice(2, 5)))
        assert.deepStrictEqual([dry.removed, dry.kept], [real.removed, real.kept])
      }))
    ))

  it.live("asks for nothing more where the trash will give enough", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - day)
        NFS.mkdirSync(`${root}/trash/20260101T000000000Z-aaaaaaaa-x`, { recursive: true })
        const report = yield* prune({ minFree: "1000 TiB" }, { dryRun: true })
        assert.strictEqual(report.removed.length, 0)
      })
    ))
})

describe("a budget", () => {
  const bad = [Number.NaN, 0, -1, Number.POSITIVE_INFINITY, 1.5]

  it.live.each(["maxLooked", "maxRemoved", "maxUnlinked"] as const)(
    "is refused with a wrong %s",
    (field) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          series(root, 3, now - day)
          for (const value of bad) {
            const error = yield* Effect.flip(prune({ all: true }, { budget: { [field]: value } }))
            assert.include(error.message, field)
          }
        })
      )
  )

  it.live("is refused with a wrong maxTime, and the default where a field is undefined", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 300, now - day)
        for (const maxTime of [0, -1, Number.NaN]) {
          assert.include((yield* Effect.flip(prune({}, { budget: { maxTime } }))).message, "maxTime")
        }
        const report = yield* prune({ all: true }, { budget: { maxRemoved: undefined, maxTime: "1 minute" } as never })
        assert.strictEqual(report.removed.length, 256)
      })
    ))

  it.live("is not used up by what is held", () =>
    inStore((root, now) =>
      Effect.scoped(Effect.gen(function*() {
        const made = series(root, 12, now - day)
        yield* heldBy(made.slice(0, 4))
        const report = yield* prune({ maxBundles: 6 }, { budget: { maxRemoved: 6 } })
        assert.deepStrictEqual(report.removed.map(({ id }) => id), ids(made.slice(4, 10)))
        assert.strictEqual(report.kept["live"], 4)
      }))
    ))
})

describe("what cannot go", () => {
  it.live("is not waited for by a limit on free space", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - day, { size: 10 })
        const stuck = `${root}/trash/20260101T000000000Z-aaaaaaaa-x.stuck`
        NFS.mkdirSync(stuck, { recursive: true })
        NFS.writeFileSync(`${stuck}/file`, "")
        const failing = {
          ...node,
          unlinkAt: (...[at, name]: Parameters<typeof node.unlinkAt>) =>
            String(name) === "file"
              ? Effect.fail(new Errno({ code: "EPERM", call: "unlink", path: "file", cause: undefined }))
              : node.unlinkAt(at, name)
        }
        const report = yield* Effect.provideService(prune({ minFree: "1000 TiB" }), Files, failing)
        assert.strictEqual(report.removed.length, 3)
        assert.strictEqual(report.debt?.reasons["stuck"], 1)
        assert.strictEqual(report.debt?.pay, "leasehold verify --repair")
        const [failed] = report.failed
        assert.strictEqual(failed?.id, "20260101T000000000Z-aaaaaaaa")
        assert.include(failed?.reason ?? "", "-x.stuck/file")
      })
    ))

  it.live("is tried again in turns", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const made = series(root, 30, now - day)
        let isBroken = true
        const mended = made[25]!
        const failing = {
          ...node,
          rename: (from: string, to: string) =>
            to.includes("/trash/") && (isBroken || !from.endsWith(mended.id))
              ? Effect.fail(new Errno({ code: "EIO", call: "rename", path: from, cause: undefined }))
              : node.rename(from, to)
        }
        const passes = Effect.gen(function*() {
          yield* prune({ all: true })
          isBroken = false
          for (let pass = 0; pass < 4; pass++) yield* prune({ all: true })
        })
        yield* Effect.provideService(passes, Files, failing)
        assert.isFalse(NFS.existsSync(mended.dir))
      })
    ))

  it.live("does not hide for ever what lies behind it", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const spared = series(root, 80, now - 2 * day, { tags: { keep: "yes" } })
        const made = series(root, 2, now - day)
        const budget = { maxLooked: 2 }
        const policy: PolicyInput = { all: true, keepTag: ["keep"] }
        // Read by a pass that has the time, so that the next ones only have to plan.
        yield* prune({ maxBundles: 1000 }, { budget: { maxLooked: 1000 } })
        yield* untilPaid({ policy, budget })
        assert.isFalse(made.some(({ dir }) => NFS.existsSync(dir)))
        assert.isTrue(spared.every(({ dir }) => NFS.existsSync(dir)))
      })
    ))

  it.live("is stopped with the debt it leaves", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        series(root, 3, now - day)
        const report = yield* prune({ all: true }, { stop: Effect.void })
        assert.isTrue(report.stopped)
        assert.strictEqual(report.debt?.reasons["stopped"], 1)
      })
    ))
})

describe("a day that a killed pass has emptied", () => {
  it.live("goes, and a day of today stays", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const today = bundle(root, { startedAt: now })
        NFS.mkdirSync(`${root}/runs/2020-01-01`)
        yield* prune({ maxBundles: 5 })
        assert.isFalse(NFS.existsSync(`${root}/runs/2020-01-01`))
        const store = yield* RunStore.RunStore
        assert.isTrue(Result.isSuccess(yield* Effect.result(store.get(today.id))))
      })
    ))
})
