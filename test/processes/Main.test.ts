import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { bundles, json, names, onlyRecord, withRoot } from "../support/CommandLine.ts"
import { fixture } from "../support/Worker.ts"

const signals = [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129], ["SIGQUIT", 131]] as const

describe.each(signals)("a program that %s tells to end", (signal, exitCode) => {
  it.live("runs its finalizers, exits as shells expect, and is on record as interrupted", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const worker = yield* fixture("own.ts", [root])
        yield* worker.line("at-work")
        yield* worker.kill(signal)
        const exit = yield* worker.exit
        assert.deepStrictEqual(exit, { code: exitCode, signal: null, stdout: "at-work\ncleaned-up\n", stderr: "" })
        const record = onlyRecord(root)
        assert.deepInclude(record, { status: "interrupted", exit: { signal } })
        assert.isString(record.releasedAt)
        assert.deepStrictEqual(names(`${bundles(root)[0]}/holders`), [])
      })
    ))

  it.live("leaves at once when it is told a second time, though a finalizer hangs", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const worker = yield* fixture("hang.ts", [root])
        yield* worker.line("at-work")
        yield* worker.kill("SIGTERM")
        yield* worker.line("cleaning-up")
        assert.deepInclude(onlyRecord(root), { status: "interrupted", exit: { signal: "SIGTERM" } })
        assert.deepInclude((yield* json(root, ["ls"])).runs[0], { status: "interrupted", live: true })
        yield* worker.kill(signal)
        assert.strictEqual((yield* worker.exit).code, exitCode)
        assert.isUndefined(onlyRecord(root).releasedAt)
        assert.deepInclude((yield* json(root, ["ls"])).runs[0], { status: "interrupted", live: false })
      })
    ))
})

describe("a program that fails", () => {
  it.live.each([["error", 1], ["code", 3], ["defect", 1]] as const)(
    "by %s exits with %i and says so on standard error alone",
    ([how, code]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const exit = yield* Effect.flatMap(fixture("fail.ts", [root, how]), (worker) => worker.exit)
          assert.deepStrictEqual([exit.code, exit.stdout], [code, ""])
          assert.match(exit.stderr, /at work/)
          assert.match(exit.stderr, /it went wrong/)
          assert.deepInclude(onlyRecord(root), { status: "error", exit: { code, message: "it went wrong" } })
        })
      )
  )

  it.live("only in a hook has not failed; standard output is the program's own", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const hook = yield* Effect.flatMap(fixture("fail.ts", [root, "hook"]), (worker) => worker.exit)
        assert.deepStrictEqual([hook.code, hook.stdout], [0, ""])
        assert.match(hook.stderr, /it went wrong/)
        assert.strictEqual(onlyRecord(root).status, "ok")
        const none = yield* Effect.flatMap(fixture("fail.ts", [root, "none"]), (worker) => worker.exit)
        assert.deepStrictEqual([none.code, none.stdout], [0, "fine\n"])
      })
    ))
})

describe("a program with two children", () => {
  it.live("passes a signal on to both, and goes on itself", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const worker = yield* fixture("two.ts", [root])
        yield* worker.line("first-ready")
        yield* worker.line("second-ready")
        yield* worker.kill("SIGTERM")
        const { code, stdout } = yield* worker.exit
        assert.strictEqual(code, 0)
        for (const line of ["first-told", "second-told", "program-goes-on"]) assert.include(stdout, line)
        assert.deepInclude(onlyRecord(root), { status: "ok" })
      })
    ))
})
