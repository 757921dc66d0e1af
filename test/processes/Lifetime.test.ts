import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Lease } from "../../src/Lease.ts"
import * as RunStore from "../../src/RunStore.ts"
import { can } from "../fixtures/trees.ts"
import { directory, fixture, gate, leasehold, run, start } from "../support/Worker.ts"

/** What another process that wants to change the newest run is told. */
const claimed = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  const lease = yield* Lease
  const entry = yield* store.latest()
  const claim = yield* Effect.result(Effect.scoped(lease.claim(entry)))
  return Result.isSuccess(claim) ? "Dead" : claim.failure.reason._tag
})

const statusOnDisk = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  const { record } = yield* store.latest()
  return Result.isSuccess(record) ? record.success.status : record.failure.message
})

const inStore = <A, E>(
  test: (root: string) => Effect.Effect<A, E, RunStore.RunStore | Lease | Scope.Scope>
) =>
  Effect.scoped(Effect.flatMap(directory, (dir) => {
    const root = `${dir}/store`
    return Effect.provide(test(root), RunStore.layer({ root, allowTemp: true }))
  }))

describe("a lease lasts as long as anybody works in the bundle", () => {
  it.live("bug 06: an outcome on the disk does not license deletion while a clean-up hook runs", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const first = yield* gate(`${root}-first`)
        const second = yield* gate(`${root}-second`)
        const hook = (name: string, wait: string) => ["--cleanup", `echo ${name}-begun; ${wait}; echo ${name}-done`]
        const worker = yield* leasehold(root, [
          "run",
          ...hook("late", second.wait),
          ...hook("early", first.wait),
          "--",
          "sh",
          "-c",
          "echo at-work"
        ])
        yield* worker.line("early-begun")
        assert.strictEqual(yield* statusOnDisk, "ok")
        assert.strictEqual(yield* claimed, "Held")
        yield* first.open
        yield* worker.line("late-begun")
        assert.strictEqual(yield* claimed, "Held")
        const shown = JSON.parse((yield* run(root, ["ls", "--json"])).stdout)
        assert.deepInclude(shown.runs[0], { status: "ok", live: true })
        assert.include((yield* run(root, ["ls"])).stdout, "closing")
        yield* second.open
        const exit = yield* worker.exit
        assert.strictEqual(exit.code, 0)
        assert.strictEqual(yield* claimed, "Dead")
      })
    ))

  it.live("a process that joined the run keeps it after the owner has let go", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* leasehold(root, ["run", "--", "sh", "-c", `echo at-work; ${end.wait}`])
        yield* owner.line("at-work")
        const leave = yield* gate(`${root}-leave`)
        const joined = yield* start([
          "sh",
          "-c",
          `{ ${leave.wait}; } | ${process.execPath} ${import.meta.dirname}/fixtures/join.ts ${root} latest`
        ])
        yield* joined.line("joined")
        yield* end.open
        assert.strictEqual((yield* owner.exit).code, 0)
        assert.strictEqual(yield* statusOnDisk, "ok")
        assert.strictEqual(yield* claimed, "Held")
        yield* leave.open
        yield* joined.exit
        assert.strictEqual(yield* claimed, "Dead")
      })
    ))

  it.live("bug 13: a killed owner's child keeps the run for as long as it works there", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const left = yield* gate(`${root}-left`)
        const script =
          `echo at-work; ${end.wait}; echo done > "$LEASEHOLD_RUN_DIR/artifacts/done"; exec 3>&-; ${left.wait}`
        const owner = yield* leasehold(root, ["run", "--", "sh", "-c", script])
        yield* owner.line("at-work")
        yield* owner.kill("SIGKILL")
        yield* owner.exit
        assert.strictEqual(yield* statusOnDisk, "running")
        assert.strictEqual(yield* claimed, "Held")
        const shown = JSON.parse((yield* run(root, ["show", "latest", "--json"])).stdout)
        assert.strictEqual(shown.liveness.state, "live")
        assert.deepStrictEqual(shown.liveness.holders.map((holder: { role: string }) => holder.role), ["child"])
        yield* end.open
        // The child waits once more, having closed its lease: from here on it holds nothing.
        yield* left.open
        assert.strictEqual(yield* claimed, "Dead")
      })
    ))

  it.live("bug 30: a child that was handed no lease does not keep a crashed run alive", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* leasehold(root, [
          "run",
          "--no-inherit-lease",
          "--",
          "sh",
          "-c",
          `echo at-work; ${end.wait}`
        ])
        yield* owner.line("at-work")
        assert.strictEqual(yield* claimed, "Held")
        yield* owner.kill("SIGKILL")
        yield* owner.exit
        assert.strictEqual(yield* claimed, "Dead")
        yield* end.open
      })
    ))

  it.live("bug 31: a child that unlocks and closes its lease takes nothing from its parent", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const script = `exec 3>&-; echo closed; ${end.wait}`
        const owner = yield* leasehold(root, ["run", "--", "sh", "-c", script])
        yield* owner.line("closed")
        assert.strictEqual(yield* claimed, "Held")
        yield* end.open
        yield* owner.exit
        assert.strictEqual(yield* claimed, "Dead")
      })
    ))

  it.live("bug 26: a suspended owner keeps its lease and goes on without an error", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* leasehold(root, ["run", "--", "sh", "-c", `echo at-work; ${end.wait}`])
        yield* owner.line("at-work")
        yield* owner.kill("SIGSTOP")
        assert.strictEqual(yield* claimed, "Held")
        yield* owner.kill("SIGCONT")
        yield* end.open
        assert.strictEqual((yield* owner.exit).code, 0)
      })
    ))

  it.live("bug 25: a killed run is listed as crashed at once and can be claimed without any wait", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const worker = yield* fixture("own.ts", [root])
        yield* worker.line("at-work")
        yield* worker.kill("SIGKILL")
        yield* worker.exit
        assert.strictEqual(yield* claimed, "Dead")
        assert.include((yield* run(root, ["ls"])).stdout, "crashed")
      })
    ))

  it.live.skipIf(!can("python3", "-c", "import fcntl"))(
    "a child that unlocks its lease takes nothing from whoever started it",
    () =>
      inStore((root) =>
        Effect.gen(function*() {
          const end = yield* gate(`${root}-end`)
          // F_OFD_SETLK with F_UNLCK, for the whole file.
          const unlock = "import fcntl, struct; fcntl.fcntl(3, 37, struct.pack('hhqqi4x', fcntl.F_UNLCK, 0, 0, 0, 0))"
          const script = `python3 -c "${unlock}" && echo unlocked; ${end.wait}`
          const worker = yield* leasehold(root, ["run", "--retention=off", "--", "sh", "-c", script])
          yield* worker.line("unlocked")
          assert.strictEqual(yield* claimed, "Held")
          yield* end.open
          assert.strictEqual((yield* worker.exit).code, 0)
        })
      )
  )
})
