/** Faults that were measured in a program which does a part of this job, each shown to be absent here. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as DiskUsage from "../../src/DiskUsage.ts"
import { Files, type FilesApi, node } from "../../src/internal/Files.ts"
import * as Retention from "../../src/Retention.ts"
import type { Report } from "../../src/RetentionReport.ts"
import { untilPaid } from "../../src/RetentionRounds.ts"
import * as Trees from "../fixtures/trees.ts"
import { bundles, json, names, onlyRecord, shell } from "../support/CommandLine.ts"
import { bundle, series } from "../support/Fabricate.ts"
import { ids, inStore, isSwept, makeStore, present, removedBy, withRoot } from "../support/Stores.ts"
import { day, hour } from "../support/Time.ts"
import { command, fixture, gate, leasehold, run, start } from "../support/Worker.ts"

const bytesOf = Effect.fnUntraced(function*(root: string) {
  let sum = 0
  for (const dir of bundles(root)) sum += (yield* DiskUsage.measure(dir)).bytes
  return sum
})

describe("crashed runs", () => {
  it.live("do not escape a limit on the count or on bytes", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (let nth = 0; nth < 4; nth++) {
          const end = yield* gate(`${root}-end-${nth}`)
          const owner = yield* leasehold(root, [
            "run",
            "--retention=off",
            "--no-inherit-lease",
            ...shell(`echo at-work; ${end.wait}`)
          ])
          yield* owner.line("at-work")
          yield* owner.kill("SIGKILL")
          yield* owner.exit
        }
        series(root, 6, Date.now() - day, { status: "running", size: 100_000 })
        const ten: Report = yield* json(root, ["prune", "--max-bundles", "7", "--max-time", "1 minute"])
        assert.deepStrictEqual([ten.recovered.length, ten.removed.length, present(root).length], [10, 3, 7])
        const small: Report = yield* json(root, ["prune", "--max-bytes", "200kB", "--all-the-way"])
        assert.deepStrictEqual([small.debt, small.failed], [null, []])
        assert.isAtMost(yield* bytesOf(root), 200_000)
        const last: Report = yield* json(root, ["prune", "--all"])
        assert.deepStrictEqual([last.removed.length, present(root)], [7 - small.removed.length, []])
      })
    ))
})

describe("bundles whose record is missing or broken", () => {
  it.live("are seen by everybody, and an explicit verb removes them", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const made = series(root, 6, Date.now())
        const [missing, broken, empty, ...good] = made
        NFS.rmSync(`${missing!.dir}/run.json`)
        NFS.writeFileSync(`${broken!.dir}/run.json`, "{")
        NFS.rmSync(empty!.dir, { recursive: true })
        NFS.mkdirSync(empty!.dir)
        makeStore(root)
        const damaged = ids(made.slice(0, 3))
        const isDamaged = ({ status }: { readonly status: string }) => status === "damaged"
        const shown = (yield* json(root, ["ls"])).runs.filter(isDamaged).map(({ id }: { readonly id: string }) => id)
        assert.sameMembers(shown, damaged)
        const pruned = yield* run(root, ["prune", "--all", "--json"])
        const report: Report = JSON.parse(pruned.stdout)
        assert.deepStrictEqual([pruned.code, removedBy(report), report.kept], [3, ids(good), { unknown: 3 }])
        assert.deepStrictEqual(report.debt?.reasons, { unknown: 3 })
        assert.strictEqual(report.debt?.pay, `leasehold verify --remove-unreadable --root ${root} --allow-temp`)
        const verified = yield* run(root, ["verify", "--json"])
        const found = JSON.parse(verified.stdout).findings.map(({ id }: { readonly id: string }) => id)
        assert.deepStrictEqual([verified.code, found], [1, damaged])
        assert.strictEqual((yield* run(root, ["verify", "--remove-unreadable"])).code, 0)
        const again = yield* run(root, ["prune", "--all"])
        assert.deepStrictEqual([again.code, present(root)], [0, []])
        isSwept(root)
      })
    ))
})

describe("an interrupted delete", () => {
  it.live("leaves nothing that the next pass does not see", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (const { dir } of series(root, 5, Date.now())) Trees.bush(`${dir}/artifacts/tree`, 10, 20)
        makeStore(root)
        const prune = ["prune", "--all", "--root", root, "--allow-temp"]
        const strike = `${import.meta.dirname}/fixtures/strike.mjs`
        const { exit } = yield* start([process.execPath, "--import", strike, command, ...prune], {
          env: { STRIKE_ROOT: root, STRIKE_AT: "600", STRIKE_SIGNAL: "SIGKILL" }
        })
        assert.strictEqual((yield* exit).signal, "SIGKILL")
        assert.deepStrictEqual(present(root), [])
        const left = names(`${root}/trash`)
        assert.isAbove(left.length, 0)
        assert.include((yield* run(root, ["verify"])).stdout, "trash")
        const report: Report = yield* json(root, ["prune", "--max-bundles", "100"])
        assert.isAbove(report.freedBytes, 0)
        isSwept(root)
      })
    ))
})

describe("a bind mount in a bundle", () => {
  it.live("is not emptied, and goes with the rest once it is unmounted", (context) =>
    withRoot((root) =>
      Effect.gen(function*() {
        if (!Trees.canMount) context.skip("may not mount")
        const [with_, without] = series(root, 2, Date.now(), { size: 100 })
        const outside = `${root}-outside`
        NFS.mkdirSync(outside)
        NFS.writeFileSync(`${outside}/canary`, "sings")
        NFS.mkdirSync(`${with_!.dir}/artifacts/mounted`)
        makeStore(root)
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Trees.bind(outside, `${with_!.dir}/artifacts/mounted`)
          const { code, stdout } = yield* run(root, ["prune", "--all", "--all-the-way", "--json"])
          const report: Report = JSON.parse(stdout)
          assert.deepStrictEqual([code, removedBy(report)], [3, ids([with_!, without!])])
          assert.match(report.failed.map(({ reason }) => reason).join(), /mounted/)
          assert.strictEqual(NFS.readFileSync(`${outside}/canary`, "utf8"), "sings")
          assert.strictEqual(names(`${root}/trash`).length, 1)
          const moved = `${root}/trash/${names(`${root}/trash`)[0]}/artifacts/mounted`
          assert.deepStrictEqual(NFS.readdirSync(moved), ["canary"])
          yield* Effect.addFinalizer(() => Effect.sync(() => void Trees.can("umount", moved)))
        }))
        assert.strictEqual((yield* run(root, ["prune", "--all"])).code, 0)
        isSwept(root)
        assert.strictEqual(NFS.readFileSync(`${outside}/canary`, "utf8"), "sings")
      })
    ))
})

describe("two lookers at a free lease", () => {
  it.live("do not take each other for an owner", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day })
        makeStore(root)
        const lookers = yield* Effect.forEach([1, 2], (nth) =>
          Effect.gen(function*() {
            const go = yield* gate(`${root}-go-${nth}`)
            const looker = yield* fixture("look.ts", [root, met.id, "200", `${root}-go-${nth}`])
            yield* looker.line("ready")
            return { looker, go }
          }))
        yield* Effect.forEach(lookers, ({ go }) => go.open, { concurrency: 2 })
        for (const { looker } of lookers) {
          assert.deepStrictEqual(JSON.parse(yield* looker.line("looked ")), { Dead: 200 })
        }
      })
    ))
})

describe("a limit in bytes over more bundles than one pass can measure", () => {
  it.live.each([["finished", "ok"], ["crashed", "running"]] as const)(
    "converges, in as many passes as the first report said (%s)",
    ([_, status]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = series(root, 400, Date.now(), { size: 20_000, status })
          const options: Retention.Options = {
            policy: { maxBytes: "2 MiB" },
            budget: { maxLooked: 50, maxTime: "1 minute" }
          }
          const first = yield* Retention.run(options)
          const said = first.debt?.passes ?? 0
          assert.isAbove(said, 1)
          let report = first
          let passes = 0
          while (report.debt !== null) {
            assert.isAtMost(++passes, said)
            report = yield* Retention.run(options)
          }
          assert.isAtMost(yield* bytesOf(root), 2 * 1024 ** 2)
          const left = present(root).length
          // Of the oldest no more went than was needed; which crashed runs are the oldest depends on when they were found.
          const { bytes } = yield* DiskUsage.measure(bundles(root)[0]!)
          assert.strictEqual(left, Math.floor(2 * 1024 ** 2 / bytes))
          if (status === "ok") assert.deepStrictEqual([...present(root)], ids(made.slice(-left)))
          assert.deepStrictEqual((yield* Retention.run(options)).removed, [])
        })
      )
  )

  it.live("is not held up by one bundle that takes longer to measure than a pass has time", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 100, Date.now() - day, { size: 20_000 })
        const large = bundle(root, { startedAt: Date.now() - hour, size: 100_000 })
        for (let nth = 0; nth < 300; nth++) NFS.writeFileSync(`${large.dir}/artifacts/slow-${nth}`, "x")
        const lstatAt: FilesApi["lstatAt"] = (place, name) =>
          Effect.suspend(() => {
            // As long as it takes, without giving way to anybody.
            for (const end = performance.now() + 1; name.toString().startsWith("slow-") && performance.now() < end;);
            return node.lstatAt(place, name)
          })
        const slowly = Effect.provideService(Files, { ...node, lstatAt })
        const options: Retention.Options = { policy: { maxBytes: "1 MiB" }, budget: { maxTime: 200 } }
        let report = yield* slowly(Retention.run(options))
        for (let passes = 0; JSON.stringify(report.debt?.reasons) !== `{"unmeasured":1}`; passes++) {
          assert.isBelow(passes, 100)
          report = yield* slowly(Retention.run(options))
        }
        assert.isAtMost((yield* bytesOf(root)) - (yield* DiskUsage.measure(large.dir)).bytes, 1024 ** 2)
        assert.include(present(root), large.id)
        assert.notInclude(present(root), made[50]!.id)
        // Who waits for the end of it has it measured, however long that takes.
        assert.isNull((yield* slowly(untilPaid(options))).debt)
        assert.isAtMost(yield* bytesOf(root), 1024 ** 2)
      })
    ))
})

describe("a bundle dated in the future", () => {
  it.live("pushes nothing out, whichever limit there is", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const made = series(root, 10, Date.now(), { size: 10_000 })
        bundle(root, { startedAt: Date.parse("2099-01-01T00:00:00Z"), size: 10_000_000 })
        makeStore(root)
        const limits = [["--max-bundles", "10"], ["--max-age", "1d"], ["--max-bytes", "1MiB"], ["--keep-last", "10"]]
        for (const limit of limits) {
          const { removed }: Report = yield* json(root, ["prune", ...limit, "--dry-run"])
          assert.notIncludeMembers(removed.map(({ id }) => id), ids(made), limit.join(" "))
        }
        const { removed }: Report = yield* json(root, ["prune", "--max-bundles", "4"])
        assert.deepStrictEqual(removed.map(({ id }) => id), ids(made.slice(0, 6)))
      })
    ))
})

describe("SIGTERM", () => {
  it.live("of leasehold run leaves no running record, and runs its hooks", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const owner = yield* leasehold(root, [
          "run",
          "--cleanup",
          "echo cleaned-up",
          ...shell("echo at-work; sleep 600")
        ])
        yield* owner.line("at-work")
        yield* owner.kill("SIGTERM")
        const { code, stdout } = yield* owner.exit
        assert.deepStrictEqual([code, stdout], [143, "at-work\ncleaned-up\n"])
        assert.deepInclude(onlyRecord(root), { status: "interrupted", exit: { signal: "SIGTERM" } })
      })
    ))

  it.live("of a program under Run.main leaves no running record, and runs its finalizers", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const owner = yield* fixture("own.ts", [root])
        yield* owner.line("at-work")
        yield* owner.kill("SIGTERM")
        const { code, stdout } = yield* owner.exit
        assert.deepStrictEqual([code, stdout], [143, "at-work\ncleaned-up\n"])
        assert.strictEqual(onlyRecord(root).status, "interrupted")
      })
    ))
})
