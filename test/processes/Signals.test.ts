import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { bundles, kept, names, onlyRecord, records, shell, withRoot } from "../support/CommandLine.ts"
import { fixture, gate, leasehold, type Worker } from "../support/Worker.ts"

const signals = [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129], ["SIGQUIT", 131]] as const

/** A program that says which signals it hears and exits with a code at the first, if one is given. */
const handler = (code = "") => `'${process.execPath}' '${import.meta.dirname}/fixtures/handler.mjs' ${code}`

describe.each(signals)("%s", (signal, exitCode) => {
  it.live("ends a command that does not handle it, which is then on record as interrupted by it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const never = yield* gate(`${root}-never`)
        const worker = yield* leasehold(root, [
          "run",
          "--cleanup",
          "echo hook",
          ...shell(`echo at-work; ${never.wait}`)
        ])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        const exit = yield* worker.exit
        assert.deepStrictEqual([exit.code, exit.signal, exit.stdout], [exitCode, null, "at-work\nhook\n"])
        const record = onlyRecord(root)
        assert.deepInclude(record, { status: "interrupted", exit: { signal } })
        assert.strictEqual(record.attempts[0]?.status, "interrupted")
        assert.isString(record.releasedAt)
      })
    ))

  it.live("reaches everybody in the command's group, and is no interruption when the command ends well", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const script = `trap 'echo the shell heard it' ${signal.slice(3)}; ${handler("0")} & wait; wait; exit 0`
        const worker = yield* leasehold(root, ["run", ...shell(script)])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        yield* worker.line("the shell heard it")
        const exit = yield* worker.exit
        assert.strictEqual(exit.code, 0)
        assert.include(exit.stdout, `heard ${signal}\n`)
        assert.deepInclude(onlyRecord(root), { status: "ok", exit: { code: 0 } })
      })
    ))

  it.live("goes to a clean-up hook while that runs, and changes nothing of the outcome", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const hooks = ["--cleanup", "echo the other hook", "--cleanup", `exec ${handler("9")}`]
        const worker = yield* leasehold(root, ["run", ...hooks, ...shell("exit 5")])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        const exit = yield* worker.exit
        assert.deepStrictEqual([exit.code, exit.stdout], [5, `at-work\nheard ${signal}\nthe other hook\n`])
        assert.include(exit.stderr, "clean-up ended with 9")
        assert.deepInclude(onlyRecord(root), { status: "error", exit: { code: 5 } })
      })
    ))
})

describe.each(["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGCONT"] as const)("%s", (signal) => {
  it.live("reaches everybody in the command's group, and ends nothing of ours", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const script = `trap 'echo the shell heard it' ${signal.slice(3)}; ${handler("0")} & wait; wait`
        const worker = yield* leasehold(root, ["run", "--cleanup", "echo hook", ...shell(script)])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        yield* worker.line("the shell heard it")
        yield* worker.line(`heard ${signal}`)
        assert.deepInclude(onlyRecord(root), { status: "running" })
        yield* worker.kill("SIGTERM")
        const exit = yield* worker.exit
        assert.deepStrictEqual([exit.code, exit.stderr], [143, ""])
        assert.match(exit.stdout, /\nhook\n$/)
      })
    ))

  it.live("ends nothing either when the command has ended", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const worker = yield* fixture("own.ts", [root, "true"])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        yield* worker.kill("SIGTERM")
        assert.deepStrictEqual(yield* worker.exit, {
          code: 143,
          signal: null,
          stdout: "at-work\ncleaned-up\n",
          stderr: ""
        })
      })
    ))
})

describe("a command that is told to end", () => {
  it.live("may answer by the code of its own", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (const [code, status] of [["143", "interrupted"], ["3", "error"]] as const) {
          const worker = yield* leasehold(root, ["run", ...shell(`exec ${handler(code)}`)])
          yield* worker.line("at-work")
          yield* worker.kill("SIGTERM")
          assert.strictEqual((yield* worker.exit).code, Number(code))
          assert.deepInclude(records(root).at(-1), { status, exit: { code: Number(code) } })
        }
      })
    ))

  it.live("hears every signal, also the second, and is waited for", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const worker = yield* leasehold(root, ["run", ...shell(`echo $$; exec ${handler()}`)])
        const pid = Number(yield* worker.line(""))
        yield* worker.line("at-work")
        for (const [signal] of signals) {
          yield* worker.kill(signal)
          yield* worker.line(`heard ${signal}`)
        }
        process.kill(pid, "SIGKILL")
        assert.strictEqual((yield* worker.exit).code, 137)
        assert.deepInclude(onlyRecord(root), { status: "interrupted", exit: { signal: "SIGKILL" } })
        assert.strictEqual(
          String(kept(root, "stdout.log")).split("\n").filter((line) => line.startsWith("heard")).length,
          4
        )
      })
    ))

  it.live("has ended or never begun, at whatever moment of the start the signal comes", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const never = yield* gate(`${root}-never`)
        const begin = leasehold(root, ["run", ...shell(`echo at-work; ${never.wait}`)])
        const toldAfter = Effect.fnUntraced(function*(wait: (worker: Worker) => Effect.Effect<unknown>) {
          const worker = yield* begin
          yield* wait(worker)
          yield* worker.kill("SIGTERM")
          const exit = yield* worker.exit
          assert.isTrue(exit.code === 143 || exit.signal === "SIGTERM", JSON.stringify(exit))
        }, Effect.scoped)
        const [usual] = yield* Effect.timed(toldAfter((worker) => worker.line("at-work")))
        // Not to wait for anything, but to come at all moments.
        const moments = Array.from({ length: 20 }, (_, index) => Duration.times(usual, 0.5 + index * 0.07))
        yield* Effect.forEach(moments, (moment) => toldAfter(() => Effect.sleep(moment)), { concurrency: 2 })
        for (const record of records(root)) {
          assert.deepInclude(record, { status: "interrupted", exit: { signal: "SIGTERM" } })
          assert.isString(record.releasedAt)
        }
        assert.deepStrictEqual(names(`${root}/staging`), [])
        for (const bundle of bundles(root)) assert.deepStrictEqual(names(`${bundle}/holders`), [])
      })
    ))
})
