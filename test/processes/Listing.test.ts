import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { bundles, json, onlyRecord, plant, recordAt, shell, withRoot } from "../support/CommandLine.ts"
import { gate, leasehold, run } from "../support/Worker.ts"

const minute = 60_000
const day = 24 * 60 * minute

const idOf = (dir: string) => NodePath.basename(dir)

/** The names of the runs that a listing shows, newest first. */
const listed = (root: string, ...flags: ReadonlyArray<string>) =>
  Effect.map(json(root, ["ls", ...flags]), ({ runs }) => runs.map((each: { name: string }) => each.name).join(" "))

describe("ls", () => {
  it.live("prints the documented fields and no others", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, ["run", "--name", "build", ...shell(`echo at-work; ${end.wait}`)])
        yield* worker.line("at-work")
        const [dir = ""] = bundles(root)
        const { id, startedAt } = recordAt(dir)
        const running = { id, name: "build", status: "running", live: true, parent: null, startedAt, endedAt: null }
        const rest = { pinned: false, bytes: null, dir }
        assert.deepStrictEqual(yield* json(root, ["ls"]), { version: 1, root, runs: [{ ...running, ...rest }] })
        yield* end.open
        yield* worker.exit
        yield* run(root, ["pin", "latest"])
        const { endedAt } = recordAt(dir)
        const ended = { ...running, status: "ok", live: false, endedAt, ...rest, pinned: true }
        assert.deepStrictEqual(yield* json(root, ["ls"]), { version: 1, root, runs: [ended] })
      })
    ))

  it.live("shows people what matters, the newest first, twenty at the most", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (let index = 0; index < 25; index++) plant(root, (index + 1) * minute, { name: `n${index}` })
        plant(root, 3 * day, { name: "kept", pin: { reason: "a release", at: "2026-01-01T00:00:00.000Z" } as never })
        const lines = (yield* run(root, ["ls"])).stdout.trimEnd().split("\n")
        assert.strictEqual(lines.length, 21)
        assert.match(lines[0] ?? "", /^ID +NAME +STATUS +STARTED +TOOK$/)
        assert.match(lines[1] ?? "", /^\d{8}T\d{9}Z-\w{8}  n0 +ok +1m ago +1s$/)
        assert.strictEqual((yield* run(root, ["ls", "-n", "0"])).stdout.trimEnd().split("\n").length, 27)
        assert.match((yield* run(root, ["ls", "--name", "kept"])).stdout, /3d ago +1s +pinned: a release\n$/)
        const empty = yield* run(root, ["ls", "--name", "nobody"])
        assert.deepStrictEqual([empty.code, empty.stdout], [0, ""])
        assert.match(empty.stderr, /no runs to list/)
      })
    ))

  it.live("filters by name, status, tag and age, as people write them", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        plant(root, 20 * day, { name: "ancient", tags: { branch: "main" } })
        plant(root, 3 * day, { name: "failed", status: "error", tags: { branch: "main", kind: "nightly" } })
        plant(root, 90 * minute, { name: "dead", status: "running" })
        plant(root, 5 * minute, { name: "stopped", status: "interrupted", tags: { branch: "dev" } })
        assert.strictEqual(yield* listed(root), "stopped dead failed ancient")
        assert.strictEqual(yield* listed(root, "--name", "failed"), "failed")
        assert.strictEqual(yield* listed(root, "--status", "error", "--status", "interrupted"), "stopped failed")
        assert.strictEqual(yield* listed(root, "--status", "crashed"), "dead")
        assert.strictEqual(yield* listed(root, "--status", "running"), "")
        assert.strictEqual(yield* listed(root, "--tag", "branch=main"), "failed ancient")
        assert.strictEqual(yield* listed(root, "--tag", "branch"), "stopped failed ancient")
        assert.strictEqual(yield* listed(root, "--tag", "branch=main", "--tag", "kind"), "failed")
        assert.strictEqual(yield* listed(root, "--since", "14 days"), "stopped dead failed")
        assert.strictEqual(yield* listed(root, "--since", "1h30m30s"), "stopped dead")
        assert.strictEqual(yield* listed(root, "--since", "1ms"), "")
        assert.strictEqual(yield* listed(root, "--until", "1ms"), "stopped dead failed ancient")
        assert.strictEqual(yield* listed(root, "--until", "2h", "--limit", "1"), "failed")
        assert.strictEqual(yield* listed(root, "--since", "2w", "--until", "1 day"), "failed")
      })
    ))

  it.live("is not broken by line breaks, escape codes and wide characters in names", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const evil = "two\nlines\u001b[31m\u001b]0;title\u0007\u009b2J\u202egpj"
        yield* run(root, ["run", "--name", evil, "--", "true"])
        plant(root, 2 * minute, { name: "名前".repeat(20) })
        plant(root, 3 * minute, { name: "👩‍👩‍👧‍👦".repeat(20) })
        plant(root, 4 * minute, { name: "plain", pin: { reason: evil, at: "2026-01-01T00:00:00.000Z" } as never })
        const { stdout } = yield* run(root, ["ls"])
        assert.strictEqual(stdout.split("\n").length, 6)
        // oxlint-disable-next-line no-control-regex
        assert.notMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e]/)
        assert.include(stdout, "two\\u000alines\\u001b[31m")
        assert.include(stdout, `${"名前".repeat(7)}…`)
        assert.include(stdout, `${"👩‍👩‍👧‍👦".repeat(14)}…`)
        assert.strictEqual((yield* json(root, ["ls", "-n", "1"])).runs[0].name, evil)
        const shown = (yield* run(root, ["show", "latest"])).stdout
        for (const character of ["\u001b", "\u009b"]) assert.notInclude(shown, character)
        assert.match(shown, /^name +two\\u000alines/m)
      })
    ))

  it.live("shows all of a store in which many bundles are damaged, each with its cause", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const record = (text: string | Buffer) => (dir: string) => NFS.writeFileSync(`${dir}/run.json`, text)
        const instead = (make: (path: string) => unknown, name = "run.json") => (dir: string) => {
          NFS.rmSync(`${dir}/${name}`)
          make(`${dir}/${name}`)
        }
        const fifo = (path: string) => NodeChildProcess.execFileSync("mkfifo", [path])
        const damages: ReadonlyArray<readonly [(dir: string) => void, RegExp]> = [
          [record(""), /empty/],
          [(dir) => NFS.truncateSync(`${dir}/run.json`, 40), /malformed/],
          [record("null"), /not a JSON object/],
          [instead(NFS.mkdirSync), /run.json is a directory/],
          [(dir) => NFS.truncateSync(`${dir}/run.json`, 200_000_000), /200000000 bytes/],
          [(dir) => record(JSON.stringify({ ...recordAt(dir), startedAt: 12 }))(dir), /startedAt/],
          [record(`{"version":7}`), /version 7/],
          [instead((path) => NFS.symlinkSync("lease", path)), /run.json is a link/],
          [instead(fifo), /run.json is a fifo/],
          [record(Buffer.from("\u001b[2Jnoise\xff\0")), /malformed/],
          [instead(() => {}), /run.json is missing/],
          [instead(fifo, "lease"), /lease is a fifo/],
          [(dir) => record(JSON.stringify({ ...recordAt(dir), status: "running" }))(dir), /^$/],
          [(dir) => NFS.writeFileSync(`${dir}/holders/x.json`, "{"), /holder file/],
          // Root may read everything.
          ...(process.getuid?.() === 0
            ? []
            : [[(dir: string) => NFS.chmodSync(`${dir}/run.json`, 0), /EACCES/] as const])
        ]
        for (let index = damages.length; index < 100; index++) plant(root, (2 * index + 2) * minute)
        const causes = new Map(damages.map(([damage, cause], index) => {
          const dir = plant(root, (2 * index + 1) * minute)
          damage(dir)
          return [idOf(dir), cause]
        }))
        const runs: Array<{ id: string; problem?: string; live: boolean | null }> =
          (yield* json(root, ["ls", "--limit", "0"])).runs
        assert.strictEqual(runs.length, 100)
        for (const { id, live, problem = "" } of runs) {
          assert.match(problem, causes.get(id) ?? /^$/, id)
          assert.strictEqual(live, problem === "" ? false : null)
        }
        const table = (yield* run(root, ["ls", "-n", "0"])).stdout
        assert.strictEqual(table.trimEnd().split("\n").length, 101)
        assert.notInclude(table, "\u001b")
        const bad = yield* run(root, ["show", idOf(bundles(root).at(-1) ?? ""), "--json"])
        assert.deepInclude(JSON.parse(bad.stdout), { run: null, problem: "run.json is malformed: the file is empty" })
      })
    ))
})

describe("a run is named", () => {
  it.live("by its id, the beginning of one, latest and latest of a status", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const failed = plant(root, 2 * day, { status: "error" })
        const newest = plant(root, minute)
        const path = (name: string) => Effect.map(run(root, ["path", name]), ({ stdout }) => stdout)
        assert.strictEqual(yield* path(idOf(failed)), `${failed}\n`)
        assert.strictEqual(yield* path(idOf(failed).slice(0, 8)), `${failed}\n`)
        assert.strictEqual(yield* path("latest"), `${newest}\n`)
        assert.strictEqual(yield* path("latest:error"), `${failed}\n`)
        assert.deepStrictEqual(yield* json(root, ["path", "latest"]), { version: 1, id: idOf(newest), dir: newest })
        const several = yield* run(root, ["path", "2"])
        assert.strictEqual(several.code, 2)
        for (const each of [failed, newest]) assert.include(several.stderr, idOf(each))
      })
    ))

  it.live("and shown with its record and who works there", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, ["run", ...shell(`echo at-work; ${end.wait}`)])
        yield* worker.line("at-work")
        const shown = yield* json(root, ["show", "latest"])
        assert.hasAllKeys(shown, ["version", "run", "liveness"])
        assert.deepStrictEqual(shown.run, onlyRecord(root))
        assert.hasAllKeys(shown.liveness, ["state", "reason", "holders"])
        assert.strictEqual(shown.liveness.state, "live")
        const owner = shown.liveness.holders.find((holder: { role: string }) => holder.role === "owner")
        assert.strictEqual(owner.pid, worker.pid)
        assert.match((yield* run(root, ["show", "latest"])).stdout, /^holder +pid \d+ on \S+ \(owner\)$/m)
        yield* end.open
        yield* worker.exit
        const after = yield* json(root, ["show", "latest"])
        assert.deepStrictEqual(after.liveness, { state: "dead", reason: "lease free", holders: [] })
      })
    ))
})

describe("pin and unpin", () => {
  it.live("write the reason into the record and take it out again", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dir = plant(root, minute)
        const before = recordAt(dir)
        yield* run(root, ["pin", "latest", "--reason", ""])
        assert.strictEqual(recordAt(dir).pin?.reason, "pinned by hand")
        const told = yield* run(root, ["pin", "latest", "--reason", "a release"])
        assert.strictEqual(told.stdout, `${idOf(dir)} is pinned\n`)
        assert.strictEqual(recordAt(dir).pin?.reason, "a release")
        const unpinned = yield* json(root, ["unpin", "latest"])
        assert.deepStrictEqual(unpinned, { version: 1, id: idOf(dir), pin: null })
        assert.deepStrictEqual(recordAt(dir), before)
      })
    ))

  it.live("say whether there was a pin to take away", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const id = idOf(plant(root, minute))
        yield* run(root, ["pin", "latest"])
        const unpin = Effect.map(run(root, ["unpin", "latest"]), ({ stdout }) => stdout)
        assert.deepStrictEqual([yield* unpin, yield* unpin], [
          `${id} is not pinned any more\n`,
          `${id} is not pinned\n`
        ])
      })
    ))

  it.live("keep the reason that there is where none is given", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dir = plant(root, minute)
        yield* run(root, ["pin", "latest", "--reason", "a release"])
        const before = recordAt(dir)
        for (const args of [[], ["--reason", ""]]) {
          assert.strictEqual((yield* run(root, ["pin", "latest", ...args])).stdout, `${idOf(dir)} is pinned\n`)
          assert.deepStrictEqual(recordAt(dir), before)
        }
      })
    ))

  it.live("fail on a record that cannot be read, and leave it as it is", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dir = plant(root, minute)
        NFS.writeFileSync(`${dir}/run.json`, `{"version":7}`)
        const exit = yield* run(root, ["pin", "latest"])
        assert.deepStrictEqual([exit.code, exit.stdout], [1, ""])
        assert.match(exit.stderr, /version 7/)
        assert.strictEqual(NFS.readFileSync(`${dir}/run.json`, "utf8"), `{"version":7}`)
      })
    ))
})

describe("logs", () => {
  it.live("prints both streams to ours, or the one that was asked for", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* run(root, ["run", "-q", "--cleanup", "echo hook", ...shell("printf 'out\\0\\377'; echo err >&2")])
        const both = yield* run(root, ["logs", "latest"])
        assert.deepStrictEqual([both.code, both.stdout, both.stderr], [0, "out\0\ufffd", "err\n"])
        const hooks = yield* run(root, ["logs", "latest", "--stream", "cleanup"])
        assert.deepStrictEqual([hooks.code, hooks.stdout, hooks.stderr], [0, "hook\n", ""])
      })
    ))

  it.live("prints nothing of a run that kept nothing, and says what lies in the place of one", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dir = plant(root, minute)
        for (const args of [["logs", "latest"], ["logs", "latest", "--follow"]]) {
          const exit = yield* run(root, args)
          assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "", ""])
        }
        NodeChildProcess.execFileSync("mkfifo", [`${dir}/logs/stdout.log`])
        const fifo = yield* run(root, ["logs", "latest"])
        assert.strictEqual(fifo.code, 1)
        assert.match(fifo.stderr, /stdout\.log: is a fifo, not a regular file/)
        NFS.rmSync(`${dir}/logs`, { recursive: true })
        NFS.mkdirSync(`${root}/other`)
        NFS.writeFileSync(`${root}/other/stdout.log`, "of another")
        NFS.symlinkSync(`${root}/other`, `${dir}/logs`)
        const led = yield* run(root, ["logs", "latest"])
        assert.deepStrictEqual([led.code, led.stdout], [1, ""])
        assert.match(led.stderr, /logs: is not a directory/)
        NFS.renameSync(dir, `${root}/elsewhere`)
        NFS.symlinkSync(`${root}/elsewhere`, dir)
        const linked = yield* run(root, ["logs", "latest"])
        assert.strictEqual(linked.code, 1)
        assert.match(linked.stderr, /lies a link/)
      })
    ))

  it.live("follows a live run until its lease is free, through its clean-up", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const more = yield* gate(`${root}-more`)
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, [
          "run",
          "--cleanup",
          `echo cleaning-up; ${end.wait}`,
          ...shell(`echo one; ${more.wait}; echo two`)
        ])
        yield* worker.line("one")
        const follower = yield* leasehold(root, ["logs", "latest", "--follow"])
        const hooks = yield* leasehold(root, ["logs", "latest", "-f", "--stream", "cleanup"])
        yield* follower.line("one")
        yield* more.open
        yield* follower.line("two")
        yield* hooks.line("cleaning-up")
        yield* end.open
        assert.strictEqual((yield* worker.exit).code, 0)
        const followed = yield* follower.exit
        assert.deepStrictEqual([followed.code, followed.stdout], [0, "one\ntwo\n"])
        assert.strictEqual((yield* hooks.exit).stdout, "cleaning-up\n")
      })
    ))

  it.live("is interrupted while it follows", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, ["run", ...shell(`echo one; ${end.wait}`)])
        yield* worker.line("one")
        const follower = yield* leasehold(root, ["logs", "latest", "--follow"])
        yield* follower.line("one")
        yield* follower.kill("SIGINT")
        assert.strictEqual((yield* follower.exit).code, 130)
        yield* end.open
        assert.strictEqual((yield* worker.exit).code, 0)
      })
    ))
})
