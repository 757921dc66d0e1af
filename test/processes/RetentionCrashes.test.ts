/**
 * `prune` that is killed, interrupted, or at work where there is no space and there are no descriptors to be had.
 *
 * It is struck at random calls to the disk, 6 of them, or as many as `LEASEHOLD_POINTS` says:
 *
 *     LEASEHOLD_POINTS=50 npx vitest run test/processes/RetentionCrashes.test.ts
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { Errno } from "../../src/internal/Errno.ts"
import { Files, node } from "../../src/internal/Files.ts"
import * as Retention from "../../src/Retention.ts"
import type { Report } from "../../src/RetentionReport.ts"
import { untilPaid } from "../../src/RetentionRounds.ts"
import * as Trees from "../fixtures/trees.ts"
import { bundles, json, names, recordAt, records } from "../support/CommandLine.ts"
import { bundle, series } from "../support/Fabricate.ts"
import { directory, ids, inStore, isSwept, makeStore, present, removedBy, withRoot } from "../support/Stores.ts"
import { struck } from "../support/Strike.ts"
import { day, minute } from "../support/Time.ts"
import { command, run, start } from "../support/Worker.ts"

/** 300 bundles of which 40 are to stay, among them some that crashed and left a word of when. */
const fill = (root: string, now: number) => {
  for (let index = 0; index < 300; index++) {
    const startedAt = now - (300 - index) * minute
    const isCrashed = index % 7 === 0
    const { dir } = bundle(root, { startedAt, status: isCrashed ? "running" : "ok", size: 100 })
    if (!isCrashed) continue
    NFS.mkdirSync(`${dir}/logs`)
    const timestamp = new Date(startedAt + 1000).toISOString()
    NFS.writeFileSync(`${dir}/logs/events.jsonl`, `${JSON.stringify({ timestamp, message: "last words" })}\n`)
  }
  makeStore(root)
}

const args = ["prune", "--max-bundles", "40", "--all-the-way", "--max-time", "5m", "--json"]

/** What is listed must be whole: as it was made, or recovered. */
const isEachWhole = Effect.fnUntraced(function*(root: string) {
  const { runs } = yield* json(root, ["ls", "--limit", "0"])
  for (const { dir, live, problem, status } of runs) {
    assert.deepStrictEqual([live, problem], [false, undefined], dir)
    assert.include(["ok", "running", "crashed"], status)
    assert.includeMembers(NFS.readdirSync(dir), ["artifacts", "holders", "lease", "run.json"])
    assert.strictEqual(NFS.statSync(`${dir}/artifacts/data`).size, 100)
  }
  return runs.length as number
})

/** What there is in the end, without what tells one store from another. */
const stateOf = (root: string) => {
  isSwept(root)
  return bundles(root).map((dir) => {
    const { id: _, ...record } = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
    // Who is killed while he writes a record leaves a draft of it, for `verify --repair` to take away.
    const files = NFS.readdirSync(dir, { recursive: true }).map(String).filter((name) => !name.endsWith(".tmp"))
    return [...files.sort(), JSON.stringify(record)]
  })
}

const points = Number(process.env["LEASEHOLD_POINTS"] ?? 6)

describe("a prune that ends before its end", () => {
  it.live(
    `bug 46: struck at ${points} random points, leaves no half bundle, and the next comes to the same end`,
    () =>
      withRoot((uninterrupted) =>
        Effect.gen(function*() {
          const now = Date.now() - day
          fill(uninterrupted, now)
          const all = yield* struck(uninterrupted, args, { STRIKE_COUNT: `${uninterrupted}-count` })
          assert.strictEqual(all.code, 0)
          const calls = Number(NFS.readFileSync(`${uninterrupted}-count`, "utf8"))
          assert.isAbove(calls, 2000)
          const end = stateOf(uninterrupted)
          assert.strictEqual(end.length, 40)
          for (let point = 0; point < points; point++) {
            const signal = (["SIGKILL", "SIGINT", "SIGTERM"] as const)[point % 3]!
            // Spread evenly, and then at random.
            const at = Math.ceil(((point + (yield* Random.next)) / points) * calls * 0.98)
            const where = `${signal} at call ${at} of ${calls}`
            yield* withRoot((root) =>
              Effect.gen(function*() {
                fill(root, now)
                const exit = yield* struck(root, args, { STRIKE_AT: String(at), STRIKE_SIGNAL: signal })
                const left = yield* isEachWhole(root)
                if (signal === "SIGKILL") assert.strictEqual(exit.signal, "SIGKILL", where)
                else {
                  assert.strictEqual(exit.code, signal === "SIGINT" ? 130 : 143, `${where}\n${exit.stderr}`)
                  const report: Report = JSON.parse(exit.stdout)
                  assert.deepStrictEqual([report.stopped, report.removed.length], [true, 300 - left], where)
                }
                const next = yield* run(root, args)
                assert.deepStrictEqual([next.code, next.stderr], [0, ""], where)
                assert.deepStrictEqual(stateOf(root), end, where)
              })
            )
          }
        })
      ),
    600_000
  )
})

type FileSystem = "tmpfs" | "ext4"

/** A file system of 16 MiB, mounted for the length of a scope. */
const small = Effect.fnUntraced(function*(type: FileSystem): Effect.fn.Return<string, never, Scope.Scope> {
  const dir = yield* directory
  const place = `${dir}/small`
  NFS.mkdirSync(place)
  const mount = (...args: ReadonlyArray<string>) => NodeChildProcess.execFileSync("mount", [...args, place])
  if (type === "ext4") {
    NFS.writeFileSync(`${dir}/image`, Buffer.alloc(16 * 1024 ** 2))
    NodeChildProcess.execFileSync("mkfs.ext4", ["-q", "-m", "0", `${dir}/image`], { stdio: "ignore" })
  }
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      type === "ext4" ? mount("-o", "loop", `${dir}/image`) : mount("-t", "tmpfs", "-o", "size=16m", "none")
    ),
    () => Effect.sync(() => void NodeChildProcess.execFileSync("umount", [place]))
  )
  return place
})

/** To the last byte, and to the last directory where directories take up space. */
const fillUp = (place: string) => {
  const fd = NFS.openSync(`${place}/filler`, "w")
  for (const size of [4096, 1]) while (Trees.attempt(() => NFS.writeSync(fd, Buffer.alloc(size, 1))));
  NFS.closeSync(fd)
  for (let nth = 0; nth < 100 && Trees.attempt(() => NFS.mkdirSync(`${place}/filler-${nth}`)); nth++);
  return NFS.statfsSync(place).bavail
}

describe("a prune where there is no space", () => {
  it.live.each(["tmpfs", "ext4"] as const)(
    "bug 45: begins on a full %s and frees space, and a dry run says the same and writes nothing",
    (type, context) =>
      Effect.scoped(Effect.gen(function*() {
        if (!Trees.canMount) context.skip("may not mount")
        if (type === "ext4" && !Trees.can("mkfs.ext4", "-V")) context.skip("no mkfs.ext4")
        const place = yield* small(type)
        const root = `${place}/store`
        const made = Array.from({ length: 30 }, (_, index) =>
          bundle(root, {
            startedAt: Date.now() - (40 - index) * minute,
            status: index % 3 === 0 ? "running" : "ok",
            size: 100_000
          }))
        makeStore(root)
        assert.isBelow(fillUp(place), 2)
        const prune = ["prune", "--max-bundles", "5", "--all-the-way"]
        const before = NFS.readdirSync(root)
        const dry: Report = yield* json(root, [...prune, "--dry-run"])
        assert.deepStrictEqual(NFS.readdirSync(root), before)
        // What cannot be written leaves what was there.
        assert.strictEqual((yield* run(root, ["pin", made[29]!.id])).code, 1)
        assert.isUndefined(recordAt(made[29]!.dir).pin)
        const { code, stdout } = yield* run(root, [...prune, "--json"])
        const real: Report = JSON.parse(stdout)
        assert.deepStrictEqual([code, real.failed, real.debt], [0, [], null])
        assert.deepStrictEqual([real.removed.length, real.removed], [25, dry.removed])
        assert.deepStrictEqual(records(root).map(({ status }) => status), Array(5).fill("crashed"))
        assert.isAbove(NFS.statfsSync(place).bavail * 4096, 2_000_000)
        isSwept(root)
      })),
    120_000
  )
})

describe("a prune", () => {
  it.live("in a trash that takes only so many names at a time leaves the others to the passes behind it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 60, Date.now(), { size: 10 })
        const rename = (from: string, to: string) =>
          Effect.suspend(() =>
            to.startsWith(`${root}/trash/`) && names(`${root}/trash`).length >= 20
              ? Effect.fail(new Errno({ code: "ENOSPC", call: "rename", path: from, cause: undefined }))
              : node.rename(from, to)
          )
        const first = yield* Effect.provideService(
          Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } }),
          Files,
          { ...node, rename }
        )
        assert.deepStrictEqual([removedBy(first), first.failed], [ids(made.slice(0, 20)), []])
        assert.deepStrictEqual([first.debt?.reasons, first.debt?.passes], [{ budget: 40 }, 1])
        const all = yield* Effect.provideService(untilPaid({ policy: { all: true } }), Files, { ...node, rename })
        assert.deepStrictEqual([all.removed.length, all.debt], [40, null])
        isSwept(root)
      })
    ))

  it.live("that has no trash and no space to make one says so", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 3, Date.now())
        NFS.rmSync(`${root}/trash`, { recursive: true, force: true })
        const mkdir = (path: string) =>
          Effect.fail(new Errno({ code: "ENOSPC", call: "mkdir", path, cause: undefined }))
        const full = Effect.provideService(untilPaid({ policy: { all: true } }), Files, { ...node, mkdir })
        const { debt, failed, removed } = yield* full
        assert.deepStrictEqual([removed, debt?.reasons], [[], { budget: 3 }])
        assert.deepStrictEqual(failed.map(({ reason }) => reason), [
          `${root}/trash: the disk is full (ENOSPC on mkdir)`
        ])
        assert.deepStrictEqual([...present(root)], ids(made))
      })
    ))

  it.live("moves nothing through a trash that is a link out of the store", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 3, Date.now())
        NFS.mkdirSync(`${root}-outside`)
        NFS.rmSync(`${root}/trash`, { recursive: true, force: true })
        NFS.symlinkSync(`${root}-outside`, `${root}/trash`)
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual([report.removed, report.failed.length], [[], 4])
        assert.deepStrictEqual([NFS.readdirSync(`${root}-outside`), [...present(root)]], [[], ids(made)])
      })
    ))

  it.live("leaves what lies behind a day that has become a link", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 3, Date.now() - day)
        yield* Retention.run({ policy: { maxBundles: 100 }, budget: { maxTime: "1 minute" } })
        const days = `${root}/runs/${names(`${root}/runs`)[0]}`
        NFS.renameSync(days, `${root}-elsewhere`)
        NFS.symlinkSync(`${root}-elsewhere`, days)
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual([report.removed, report.failed], [[], []])
        assert.deepStrictEqual(names(`${root}-elsewhere`), ids(made))
      })
    ))

  it.live("with 64 descriptors works through 300 bundles of wide trees", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (const { dir } of series(root, 300, Date.now() - day)) {
          for (let nth = 0; nth < 8; nth++) {
            NFS.mkdirSync(`${dir}/artifacts/${nth}`)
            for (let file = 0; file < 8; file++) NFS.writeFileSync(`${dir}/artifacts/${nth}/${file}`, "")
          }
        }
        makeStore(root)
        const prune = `ulimit -n 64; exec "$0" "$@" prune --max-bundles 20 --max-bytes 1GiB --all-the-way --json`
        const { exit } = yield* start(["sh", "-c", `${prune} --root '${root}' --allow-temp`, process.execPath, command])
        const { code, stderr, stdout } = yield* exit
        assert.deepStrictEqual([code, stderr], [0, ""])
        assert.deepStrictEqual([JSON.parse(stdout).removed.length, JSON.parse(stdout).failed], [280, []])
        isSwept(root)
      })
    ))
})
