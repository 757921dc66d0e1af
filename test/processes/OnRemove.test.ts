import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { bundles, json, names, onlyRecord, recordAt, withRoot } from "../support/CommandLine.ts"
import { bundle } from "../support/Fabricate.ts"
import { everything } from "../support/Snapshot.ts"
import { makeStore } from "../support/Stores.ts"
import { day } from "../support/Time.ts"
import { gate, leasehold, run, untilGone } from "../support/Worker.ts"

const lines = (path: string) => NFS.readFileSync(path, "utf8").trim().split("\n")

describe("leasehold run --on-remove", () => {
  it.live("is carried out by rm, the last one given first, in the directory in which it was given", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const cwd = `${root}-cwd`
        NFS.mkdirSync(cwd)
        const args = ["run", "--retention", "off", "--on-remove", "echo a >> log", "--on-remove", "echo b >> log"]
        const exit = yield* run(root, [...args, "--", "true"], { cwd })
        assert.strictEqual(exit.code, 0)
        const shown = yield* run(root, ["show", "latest"])
        assert.match(shown.stdout, new RegExp(`on removal +cd ${cwd} && /bin/sh -c 'echo a >> log' \\(registered `))
        const removed = yield* run(root, ["rm", "latest"])
        assert.strictEqual(removed.code, 0)
        assert.deepStrictEqual([lines(`${cwd}/log`), bundles(root)], [["b", "a"], []])
      })
    ))

  it.live("that fails is said by rm with what to do, shown, counted as debt by prune, and paid when it is mended", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const undo = `test -e ${root}-mended || { echo no such luck; false; }`
        yield* run(root, ["run", "--retention", "off", "--on-remove", undo, "--on-remove", "true", "--", "true"])
        const { id } = onlyRecord(root)
        const removed = yield* run(root, ["rm", id])
        assert.strictEqual(removed.code, 1)
        assert.match(removed.stderr, new RegExp(`ended with 1: no such luck; see to that, .*leasehold rm ${id}\n$`))
        const { failed } = yield* json(root, ["rm", id])
        assert.strictEqual(failed[0].error, "RemovalError.NotUndone")
        const pruned = yield* run(root, ["prune", "--all"])
        assert.strictEqual(pruned.code, 3)
        assert.match(pruned.stdout, new RegExp(`^failed ${id}: .*no such luck\n$`))
        const [, pay = ""] = /^debt +1 not undone\nto pay it +(.*)$/m.exec(pruned.stderr) ?? []
        assert.strictEqual(pay, `leasehold prune --all --max-time 10m --root ${root} --allow-temp`)
        const shown = yield* run(root, ["show", id])
        assert.match(shown.stdout, /test -e .* \(failed 3 times, last just now: ended with 1: no such luck\)/)
        assert.match(shown.stdout, /-c true \(done just now\)/)
        const document = yield* json(root, ["show", id])
        assert.strictEqual(document.run.onRemove[0].failure.count, 3)
        NFS.writeFileSync(`${root}-mended`, "")
        assert.strictEqual((yield* run(root, ["prune", "--all", "--max-time", "10m"])).code, 0)
        assert.deepStrictEqual(bundles(root), [])
      })
    ))

  it.live("with a secret in it is wrong usage, and no run is begun", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", "--on-remove", "drop --password hunter2", "--", "true"])
        assert.strictEqual(exit.code, 2)
        assert.match(exit.stderr, /--on-remove .*secret.*file or from the environment/)
        assert.notInclude(exit.stderr, "hunter2")
        assert.deepStrictEqual(bundles(root), [])
      })
    ))

  it.live("is there when the command starts, and may come from who goes on with the run and who joins it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const count = `grep -c '"argv": \\["/bin/sh"\\|"type": "command"' "$LEASEHOLD_RUN_DIR/run.json"`
        const first = yield* run(root, ["run", "--retention", "off", "--on-remove", "a", "--", "sh", "-c", count])
        const second = yield* run(root, ["resume", "latest", "--retention", "off", "--on-remove", "b"])
        assert.deepStrictEqual([first.stdout, second.stdout], ["1\n", "2\n"])
        const third = yield* run(root, ["attach", "latest", "--on-remove", "c", "--", "sh", "-c", count])
        assert.strictEqual(third.stdout, "3\n")
      })
    ))
})

/** A finished run, the undoing of which says that it has begun, waits, and then says that it is done. */
const waiting = Effect.fnUntraced(function*(root: string) {
  const begun = `${root}-begun`
  const log = `${root}-log`
  NodeChildProcess.execFileSync("mkfifo", [begun])
  const go = yield* gate(`${root}-go`)
  const script = `echo $$ > '${begun}'; ${go.wait}; echo done >> ${log}`
  const undo = { type: "command", argv: ["/bin/sh", "-c", script], cwd: "/" }
  const at = "2026-11-01T00:00:00.000Z"
  const made = bundle(root, { startedAt: Date.now() - day, size: 100, onRemove: [{ id: "a", at, undo }] })
  makeStore(root)
  return {
    ...made,
    go: go.open,
    /** Waits for it to begin, and gives its pid. */
    begun: Effect.map(Effect.promise(() => NFS.promises.readFile(begun, "utf8")), (text) => text.trim()),
    done: () => (NFS.existsSync(log) ? lines(log).length : 0)
  }
})

const prune = (root: string) => leasehold(root, ["prune", "--all", "--max-time", "5m"])

/** Without what comes and goes as it is claimed. */
const whole = (dir: string) => everything(`${dir}/artifacts`)

describe("who removes a run, and is killed while something of it is undone,", () => {
  it.live("leaves it whole; nobody has it while that goes on alone; and the next pass finishes", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const one = yield* waiting(root)
        const was = whole(one.dir)
        const killed = yield* prune(root)
        const pid = yield* one.begun
        yield* killed.kill("SIGKILL")
        yield* killed.exit
        assert.deepStrictEqual([whole(one.dir), names(`${root}/trash`)], [was, []])
        assert.strictEqual((yield* run(root, ["resume", one.id, "--", "true"])).code, 4)
        assert.strictEqual((yield* run(root, ["rm", one.id])).code, 4)
        const report = yield* json(root, ["prune", "--all"])
        assert.deepStrictEqual([report.kept, report.removed], [{ live: 1 }, []])
        yield* one.go
        yield* untilGone(pid)
        assert.strictEqual(one.done(), 1)
        assert.isUndefined(recordAt(one.dir).onRemove?.[0]?.doneAt)
        assert.deepStrictEqual(whole(one.dir), was)
        const next = yield* prune(root)
        yield* one.begun
        yield* one.go
        assert.strictEqual((yield* next.exit).code, 0)
        assert.deepStrictEqual([one.done(), bundles(root), names(`${root}/trash`)], [2, [], []])
      })
    ))

  it.live("the same with rm, and a run that is gone on with instead", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const one = yield* waiting(root)
        const killed = yield* leasehold(root, ["rm", one.id])
        const pid = yield* one.begun
        yield* killed.kill("SIGKILL")
        yield* killed.exit
        yield* one.go
        yield* untilGone(pid)
        const resumed = yield* run(root, ["resume", one.id, "--retention", "off", "--", "echo", "at-work"])
        assert.deepStrictEqual([resumed.code, resumed.stdout], [0, "at-work\n"])
        assert.strictEqual(recordAt(one.dir).onRemove?.length, 1)
      })
    ))
})

describe("a pass that is told to stop while something is undone", () => {
  it.live("waits for it, writes down what came of it, and ends as the signal says", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const one = yield* waiting(root)
        const later = bundle(root, { startedAt: Date.now() - 1000 })
        const stopped = yield* prune(root)
        yield* one.begun
        yield* stopped.kill("SIGTERM")
        yield* one.go
        const exit = yield* stopped.exit
        assert.strictEqual(exit.code, 143)
        assert.strictEqual(one.done(), 1)
        assert.deepStrictEqual(bundles(root), [later.dir])
      })
    ))

  it.live("twice leaves at once, and takes it along", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const one = yield* waiting(root)
        const stopped = yield* prune(root)
        const pid = yield* one.begun
        yield* stopped.kill("SIGTERM")
        yield* stopped.kill("SIGINT")
        assert.include([130, 143], (yield* stopped.exit).code)
        yield* untilGone(pid)
        assert.deepStrictEqual([one.done(), bundles(root)], [0, [one.dir]])
      })
    ))
})
