import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { bundles, json, onlyRecord, plant, recordAt, shell, withRoot } from "../support/CommandLine.ts"
import { command, gate, run, start, type Worker } from "../support/Worker.ts"

/** Processes and host names of its own, as a container has them, on the same kernel and the same disk. */
const container = (host: string) =>
  [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--uts",
    "sh",
    "-c",
    `hostname ${host} && exec "$@"`,
    "sh"
  ] as const

const canContain =
  NodeChildProcess.spawnSync(container("probe")[0], [...container("probe").slice(1), "true"]).status === 0

/** The command as the first process of a container of its own. */
const inside = (
  host: string,
  root: string,
  [verb = "", ...rest]: ReadonlyArray<string>
): Effect.Effect<Worker, never, Scope.Scope> =>
  start([...container(host), process.execPath, command, verb, "--root", root, "--allow-temp", ...rest])

const toItsEnd = (host: string, root: string, args: ReadonlyArray<string>) =>
  Effect.scoped(Effect.flatMap(inside(host, root, args), (worker) => worker.exit))

const quiet = ["--retention", "off", "--no-inherit-lease"]

describe.skipIf(!canContain)("containers on one kernel", () => {
  it.live("bug 17: what process 1 of one left behind does not block process 1 of the next", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const never = yield* gate(`${root}-never`)
        const first = yield* inside("first", root, ["run", ...quiet, ...shell(`echo at-work; ${never.wait}`)])
        yield* first.line("at-work")
        const [dir = ""] = bundles(root)
        const [holder = ""] = NFS.readdirSync(`${dir}/holders`)
        assert.strictEqual(JSON.parse(NFS.readFileSync(`${dir}/holders/${holder}`, "utf8")).pid, 1)
        yield* first.kill("SIGKILL")
        yield* first.exit
        const next = yield* toItsEnd("next", root, ["resume", "latest", ...quiet, "--", "echo", "on"])
        assert.deepStrictEqual([next.code, next.stdout], [0, "on\n"])
        assert.deepStrictEqual(onlyRecord(root).attempts.map(({ status }) => status), ["crashed", "ok"])
      })
    ))

  it.live("bug 21: a host by another name neither blocks nor permits anything: the lock decides", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const never = yield* gate(`${root}-never`)
        const worker = yield* inside("old-host", root, ["run", ...quiet, ...shell(`echo at-work; ${never.wait}`)])
        yield* worker.line("at-work")
        // Held by a process that nobody else can see: from outside, and from a container beside it.
        const outside = yield* run(root, ["resume", "latest", "--", "true"])
        assert.strictEqual(outside.code, 4)
        assert.include(outside.stderr, "old-host")
        assert.strictEqual((yield* toItsEnd("new-host", root, ["resume", "latest", "--", "true"])).code, 4)
        const kept = yield* toItsEnd("new-host", root, ["prune", "--all", "--json"])
        assert.deepInclude(JSON.parse(kept.stdout), { removed: [], kept: { live: 1 } })
        yield* worker.kill("SIGKILL")
        yield* worker.exit
        const pruned = yield* toItsEnd("new-host", root, ["prune", "--all", "--json"])
        assert.strictEqual(JSON.parse(pruned.stdout).removed.length, 1)
        assert.deepStrictEqual(bundles(root), [])
      })
    ))
})

/** Something that runs, and has nothing to do with any run. */
const sleeper = Effect.acquireRelease(
  Effect.sync(() => NodeChildProcess.spawn("sleep", ["1000"], { stdio: "ignore" })),
  (child) => Effect.sync(() => void child.kill("SIGKILL"))
)

/** A run that crashed, and in its holder file the pid of a process that is there. */
const plantWithPid = (root: string, ago: number, pid: number) => {
  const dir = plant(root, ago, { status: "running" })
  const { boot, machine } = { boot: NFS.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), machine: "" }
  const since = new Date(Date.now() - ago).toISOString()
  const inode = String(NFS.statSync(`${dir}/lease`).ino)
  const holder = { version: 1, id: "left", role: "owner", pid, host: "here", boot, machine, inode, since }
  NFS.writeFileSync(`${dir}/holders/left.json`, JSON.stringify(holder))
  return dir
}

const day = 86_400_000

describe.skipIf(process.platform !== "linux")("a pid that is used again", () => {
  it.live("bug 18: does not keep a run that crashed, and its new process is left alone", () =>
    withRoot((root) =>
      Effect.scoped(Effect.gen(function*() {
        const child = yield* sleeper
        const dir = plantWithPid(root, 3 * day, child.pid ?? 0)
        const { live, recovered } = yield* json(root, ["recover"])
        assert.deepStrictEqual([live, recovered.length], [[], 1])
        assert.strictEqual(recordAt(dir).status, "crashed")
        assert.strictEqual((yield* json(root, ["prune", "--all"])).removed.length, 1)
        assert.isNull(child.exitCode)
        assert.isNull(child.signalCode)
      }))
    ))

  it.live("bug 19: has no expiry to wait for, and none beats a lease that is held", () =>
    withRoot((root) =>
      Effect.scoped(Effect.gen(function*() {
        const child = yield* sleeper
        const never = yield* gate(`${root}-never`)
        const worker = yield* start([
          process.execPath,
          command,
          "run",
          "--root",
          root,
          "--allow-temp",
          ...quiet,
          ...shell(`echo at-work; ${never.wait}`)
        ])
        yield* worker.line("at-work")
        const [held = ""] = bundles(root)
        // As if it had begun before anything that could expire.
        const record = recordAt(held)
        NFS.writeFileSync(`${held}/run.json`, JSON.stringify({ ...record, startedAt: "2001-01-01T00:00:00.000Z" }))
        plantWithPid(root, 1000, child.pid ?? 0)
        const report = yield* json(root, ["prune", "--all"])
        assert.deepStrictEqual([report.removed.length, report.kept], [1, { live: 1 }])
        assert.deepStrictEqual(bundles(root), [held])
      }))
    ))
})
