import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Run from "../../src/Run.ts"
import { bundles, json, names, withRoot } from "../support/CommandLine.ts"
import { watch } from "../support/Doors.ts"
import { bundle } from "../support/Fabricate.ts"
import { inStore } from "../support/Stores.ts"
import { struck } from "../support/Strike.ts"
import { hour } from "../support/Time.ts"
import { run } from "../support/Worker.ts"

const points = 8

const job = ["run", "--retention", "off", "--no-inherit-lease", "--name", "job", "--", "echo", "hi"]

describe("after an owner that was killed", () => {
  it.live(
    `bug 24: at ${points} of its calls, from the first to the last, everything works at once and by itself`,
    () =>
      withRoot((uninterrupted) =>
        Effect.gen(function*() {
          const whole = yield* struck(uninterrupted, job, { STRIKE_COUNT: `${uninterrupted}-count` })
          assert.strictEqual(whole.code, 0)
          const calls = Number(NFS.readFileSync(`${uninterrupted}-count`, "utf8"))
          assert.isAbove(calls, 20)
          for (let point = 0; point < points; point++) {
            const at = 1 + Math.round((point / (points - 1)) * (calls - 2))
            const where = `at call ${at} of ${calls}`
            yield* withRoot((root) =>
              Effect.gen(function*() {
                const killed = yield* struck(root, job, { STRIKE_AT: String(at), STRIKE_SIGNAL: "SIGKILL" })
                assert.strictEqual(killed.signal, "SIGKILL", where)
                assert.strictEqual((yield* run(root, ["run", "--name", "next", "--", "true"])).code, 0, where)
                const { runs } = yield* json(root, ["ls"])
                const left = runs.find(({ name }: { readonly name: string }) => name === "job")
                assert.strictEqual(left !== undefined, bundles(root).length === 2, where)
                if (left !== undefined) {
                  assert.notProperty(left, "problem", where)
                  assert.isFalse(left.live, where)
                  const resumed = yield* run(root, ["resume", left.id, "--", "true"])
                  assert.strictEqual(resumed.code, 0, `${where}\n${resumed.stderr}`)
                }
                const pruned = yield* run(root, ["prune", "--all", "--all-the-way"])
                assert.strictEqual(pruned.code, 0, `${where}\n${pruned.stdout}${pruned.stderr}`)
                assert.deepStrictEqual([bundles(root), names(`${root}/staging`), names(`${root}/trash`)], [[], [], []])
              })
            )
          }
        })
      )
  )
})

/** How many calls to the disk and to the locks a run makes with a pass in front of it. */
const callsOfRun = Effect.gen(function*() {
  let calls = 0
  yield* watch(() => Effect.sync(() => void calls++))(
    Effect.void.pipe(
      Run.scoped({ name: "next", retention: { when: "before", policy: { maxBundles: 5000, maxAge: "52w" } } })
    )
  )
  return calls
})

describe("a run with retention in front of it", () => {
  it.live("bug 58: makes as many calls in a store of 2,000 bundles as in one of 20", () =>
    Effect.gen(function*() {
      const callsAt = (bundles: number) =>
        inStore((root) =>
          Effect.gen(function*() {
            // In as many days, and long enough ago that no day counts as just moved.
            for (let nth = 0; nth < bundles; nth++) bundle(root, { startedAt: Date.now() - (30 + nth % 10) * hour })
            for (const day of NFS.readdirSync(`${root}/runs`)) NFS.utimesSync(`${root}/runs/${day}`, 1e9, 1e9)
            for (let passes = 0; passes < 10; passes++) yield* callsOfRun
            return yield* callsOfRun
          })
        )
      const [few, many] = yield* Effect.all([callsAt(20), callsAt(2000)])
      assert.isAbove(few, 20)
      assert.isAtMost(many, few * 1.1, `${few} calls at 20 bundles and ${many} at 2,000`)
    }), 120_000)
})
