import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { bundles, onlyRecord, recordAt, withRoot } from "../support/CommandLine.ts"
import { gate, leasehold, run } from "../support/Worker.ts"

const runs = (root: string, ...args: ReadonlyArray<string>) => run(root, ["run", "--retention", "off", ...args])

/** A run whose program has begun, and works until the gate opens. */
const atWork = Effect.fnUntraced(function*(root: string, end: { readonly wait: string }) {
  const argv = ["sh", "-c", `echo at-work; ${end.wait}`]
  const owner = yield* leasehold(root, ["run", "--retention", "off", "--", ...argv])
  yield* owner.line("at-work")
  return owner
})

describe("leasehold resume", () => {
  it.live("goes on with the recorded command in its directory, keeps both outputs, and exits as it does", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, "--", "sh", "-c", "echo attempt; exit 3")
        const again = yield* run(root, ["resume", "latest", "--retention", "off"])
        assert.deepStrictEqual([again.code, again.stdout], [3, "attempt\n"])
        const record = onlyRecord(root)
        assert.deepStrictEqual(record.attempts.map(({ status }) => status), ["error", "error"])
        const kept = NFS.readFileSync(`${bundles(root)[0]}/logs/stdout.log`, "utf8")
        assert.match(kept, /^attempt\n--- resumed [^\n]+ ---\nattempt\n$/)
      })
    ))

  it.live("marks an attempt in a line of its own, also where the one before ended within a line", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, "--", "printf", "unfinished")
        yield* run(root, ["resume", "latest", "--retention", "off"])
        const kept = NFS.readFileSync(`${bundles(root)[0]}/logs/stdout.log`, "utf8")
        assert.match(kept, /^unfinished\n--- resumed [^\n]+ ---\nunfinished$/)
      })
    ))

  it.live("of a run whose owner was killed is refused until the child that it left has gone", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* atWork(root, end)
        yield* owner.kill("SIGKILL")
        yield* owner.exit
        const early = yield* run(root, ["resume", "latest", "--retention", "off", "--", "true"])
        assert.strictEqual(early.code, 4)
        assert.match(early.stderr, /\(child\)/)
        yield* end.open
        let code: number | null = 4
        while (code === 4) code = (yield* run(root, ["resume", "latest", "--retention", "off", "--", "true"])).code
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(onlyRecord(root).attempts.map(({ status }) => status), ["crashed", "ok"])
      })
    ))

  it.live("says of a removed run that there is none, and does not guess at a redacted command", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, "--", "sh", "-c", "true", "--password=hunter2")
        const hidden = yield* run(root, ["resume", "latest"])
        assert.strictEqual(hidden.code, 2)
        assert.include(hidden.stderr, "had secrets in it")
        const id = onlyRecord(root).id
        yield* run(root, ["rm", id])
        assert.strictEqual((yield* run(root, ["resume", id])).code, 5)
      })
    ))
})

describe("leasehold attach", () => {
  it.live("runs in a run that another process owns, and leaves its outcome to it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* atWork(root, end)
        const leave = yield* gate(`${root}-leave`)
        const script = `echo "in $LEASEHOLD_RUN_ID"; ${leave.wait}; exit 7`
        const joined = yield* leasehold(root, ["attach", "latest", "--", "sh", "-c", script])
        const id = yield* joined.line("in ")
        yield* end.open
        assert.strictEqual((yield* owner.exit).code, 0)
        assert.strictEqual((yield* run(root, ["rm", id])).code, 4)
        yield* leave.open
        assert.strictEqual((yield* joined.exit).code, 7)
        assert.strictEqual(recordAt(bundles(root)[0] ?? "").status, "ok")
        assert.strictEqual((yield* run(root, ["rm", id])).code, 0)
      })
    ))
})
