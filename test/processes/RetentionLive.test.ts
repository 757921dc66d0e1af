/** Passes beside runs at work: whatever the policy, and however the run is held. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Retention from "../../src/Retention.ts"
import type { Report } from "../../src/RetentionReport.ts"
import { bundles, json, onlyRecord, recordAt, shell } from "../support/CommandLine.ts"
import { bundle, type Made, series } from "../support/Fabricate.ts"
import { inStore, makeStore, present, removedBy, traces, withRoot } from "../support/Stores.ts"
import { day, hour } from "../support/Time.ts"
import { command, gate, leasehold, run, start } from "../support/Worker.ts"

const limits: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["count", ["--max-bundles", "1"]],
  ["age", ["--max-age", "1ms"]],
  ["bytes", ["--max-bytes", "1B"]],
  ["free space", ["--min-free", "1000TiB"]]
]

const prune = (root: string, args: ReadonlyArray<string>): Effect.Effect<Report> =>
  json(root, ["prune", "--max-time", "1 minute", ...args])

/** Beside an older run that is pinned each of the limits comes to the only other one, whatever its state is. */
const isKeptByEveryLimit = Effect.fnUntraced(function*(root: string) {
  if (bundles(root).length === 1) bundle(root, { startedAt: Date.now() - day, pin: "for good" })
  for (const [limit, args] of limits) {
    const report = yield* prune(root, args)
    assert.deepStrictEqual([report.kept, report.removed, report.debt], [{ live: 1, pinned: 1 }, [], null], limit)
  }
})

/** One of them is carried out. A run whose end nobody knows ended when it was found, so it takes a while to be old. */
const goesByEveryLimit = Effect.fnUntraced(function*(root: string, carriedOut: string) {
  const id = present(root).at(-1)!
  yield* prune(root, ["--max-bundles", "100"])
  for (const [limit, args] of limits) {
    if (limit !== carriedOut) {
      assert.deepStrictEqual(removedBy(yield* prune(root, [...args, "--dry-run"])), [id], limit)
    }
  }
  const args = limits.find(([limit]) => limit === carriedOut)![1]
  assert.deepStrictEqual(removedBy(yield* prune(root, args)), [id], carriedOut)
  assert.strictEqual(bundles(root).length, 1)
})

describe("no limit comes to what is held, and every limit to what was let go", () => {
  it.live("bug 07, bug 06: for its owner, at work and in a clean-up hook with its outcome written", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const hook = yield* gate(`${root}-hook`)
        const owner = yield* leasehold(root, [
          "run",
          "--retention=off",
          "--cleanup",
          `echo cleaning-up; ${hook.wait}`,
          ...shell(`echo at-work; ${end.wait}`)
        ])
        yield* owner.line("at-work")
        yield* isKeptByEveryLimit(root)
        yield* end.open
        yield* owner.line("cleaning-up")
        assert.strictEqual(recordAt(bundles(root).at(-1)!).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* hook.open
        assert.strictEqual((yield* owner.exit).code, 0)
        yield* goesByEveryLimit(root, "count")
      })
    ))

  it.live("for who has joined it, when the owner is gone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const leave = yield* gate(`${root}-leave`)
        const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(`echo at-work; ${end.wait}`)])
        yield* owner.line("at-work")
        const join = `${process.execPath} ${import.meta.dirname}/fixtures/join.ts ${root} latest`
        const joined = yield* start(["sh", "-c", `{ ${leave.wait}; } | ${join}`])
        yield* joined.line("joined")
        yield* end.open
        yield* owner.exit
        assert.strictEqual(onlyRecord(root).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* leave.open
        yield* joined.exit
        yield* goesByEveryLimit(root, "bytes")
      })
    ))

  it.live("bug 13: for a child that was handed a lease, when its owner was killed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const gone = yield* gate(`${root}-gone`)
        const script = `echo at-work; ${end.wait}; exec 3>&-; ${gone.wait}`
        const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(script)])
        yield* owner.line("at-work")
        yield* owner.kill("SIGKILL")
        yield* owner.exit
        assert.strictEqual(onlyRecord(root).status, "running")
        yield* isKeptByEveryLimit(root)
        assert.strictEqual(recordAt(bundles(root).at(-1)!).status, "running")
        yield* end.open
        // The child waits once more, having closed its lease.
        yield* gone.open
        yield* goesByEveryLimit(root, "free space")
      })
    ))

  it.live("bug 03: for a child that outlives the call that started it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const gone = yield* gate(`${root}-gone`)
        const server = `( ${end.wait}; exec 3>&-; ${gone.wait} ) > /dev/null 2>&1 &`
        const exit = yield* run(root, ["run", "--retention=off", ...shell(server)])
        assert.strictEqual(exit.code, 0)
        assert.strictEqual(onlyRecord(root).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* end.open
        yield* gone.open
        yield* goesByEveryLimit(root, "age")
      })
    ))
})

/** Makes everything about a bundle look as old as can be, its record included. */
const age = (dir: string, millis: number) => {
  const then = new Date(Date.now() - millis)
  const record = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...record, startedAt: then.toISOString() }))
  for (const name of NFS.readdirSync(dir, { recursive: true })) NFS.lutimesSync(`${dir}/${String(name)}`, then, then)
  NFS.lutimesSync(dir, then, then)
}

const ownerAtWork = Effect.fnUntraced(function*(root: string) {
  const end = yield* gate(`${root}-end`)
  const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(`echo at-work; ${end.wait}`)])
  yield* owner.line("at-work")
  return { ...owner, dir: bundles(root).at(-1)! }
})

describe("a pass keeps a live run", () => {
  it.live("bug 01, bug 02: however old it looks and whichever flags there are, and takes it when it has ended", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        age(owner.dir, 30 * day)
        const was = traces(owner.dir)
        const flags = [
          ["--max-age", "1d", "--max-bundles", "1", "--max-bytes", "1B"],
          ["--max-age", "4h"],
          ["--all", "--all-the-way"]
        ]
        for (const args of flags) {
          const report = yield* prune(root, args)
          assert.deepStrictEqual([report.kept, report.removed], [{ live: 1 }, []])
        }
        assert.deepStrictEqual(traces(owner.dir), was)
        yield* owner.kill("SIGTERM")
        assert.strictEqual((yield* owner.exit).code, 143)
        assert.strictEqual((yield* prune(root, ["--all"])).removed.length, 1)
      })
    ))

  it.live("bug 08: beside the newest two, which stay as well; of a count it takes a place", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        const [older, newer] = series(root, 2, Date.now() - hour) as [Made, Made]
        assert.deepStrictEqual((yield* prune(root, ["--keep-last", "2"])).removed, [])
        assert.deepStrictEqual(removedBy(yield* prune(root, ["--max-bundles", "2"])), [older.id])
        assert.deepStrictEqual(bundles(root), [newer.dir, owner.dir])
      })
    ))

  it.live("bug 35: that has gone on for days: it ends, has taken the others, and names who holds it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        age(owner.dir, 9 * day)
        series(root, 50, Date.now() - day)
        const holders: Array<number> = []
        const report = yield* Retention.run({
          policy: { all: true },
          onEvent: (event) =>
            Effect.sync(() => {
              if (event._tag === "Kept") holders.push(...event.holders.map(({ pid }) => pid))
            })
        })
        assert.deepStrictEqual([report.removed.length, report.kept, report.debt], [50, { live: 1 }, null])
        assert.include(holders, owner.pid)
        const { code, stdout } = yield* run(root, ["prune", "--all"])
        assert.strictEqual(code, 0)
        assert.include(stdout, `kept ${present(root)[0]}: live`)
      })
    ))
})
describe("wherever the root comes from", () => {
  it.live("bug 50: by flag, by the environment or by default, the decisions are the same", () =>
    withRoot(Effect.fnUntraced(function*(dir) {
      const roots = ["flag", "environment", "default/leasehold"].map((name) => `${dir}/${name}`)
      series(roots[0]!, 20, Date.now() - hour, { size: 100 })
      bundle(roots[0]!, { startedAt: Date.now() - 90 * day, pin: "for good" })
      bundle(roots[0]!, { startedAt: Date.now() - 80 * day, status: "running" })
      makeStore(roots[0]!)
      for (const root of roots.slice(1)) NFS.cpSync(roots[0]!, root, { recursive: true, preserveTimestamps: true })
      const how: ReadonlyArray<readonly [ReadonlyArray<string>, Record<string, string>]> = [
        [["--root", roots[0]!], { LEASEHOLD_ROOT: "/nonexistent" }],
        [[], { LEASEHOLD_ROOT: roots[1]! }],
        [[], { XDG_STATE_HOME: `${dir}/default` }]
      ]
      const reports = yield* Effect.forEach(how, ([args, env]) =>
        Effect.gen(function*() {
          const flags = ["--max-bundles", "10", "--max-time", "1 minute", "--json", "--allow-temp", ...args]
          const argv = [process.execPath, command, "prune", ...flags]
          const { stdout } = yield* (yield* start(argv as [string, ...Array<string>], { env })).exit
          return { ...JSON.parse(stdout), elapsedMs: 0 } as Report
        }))
      assert.strictEqual(reports[0]!.removed.length, 12)
      assert.deepStrictEqual(reports[1], reports[0])
      assert.deepStrictEqual(reports[2], reports[0])
      assert.deepStrictEqual(roots.map((root) => bundles(root).length), [10, 10, 10])
    })))
})
