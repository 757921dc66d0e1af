/**
 * How often Leasehold goes to the disk. A clock would not tell of one call more, on a machine with other things to do; a
 * count does, when it comes in. The budgets leave a little room; whoever needs more says what for.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { FilesApi } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as Run from "../src/Run.ts"
import { withFiles } from "./fixtures/sweeps.ts"
import { bundles } from "./support/CommandLine.ts"
import { hourAgo, watch } from "./support/Doors.ts"
import { series } from "./support/Fabricate.ts"
import { inStore } from "./support/Stores.ts"
import { day, hour, minute } from "./support/Time.ts"

/** The calls that an effect makes at the doors to the disk and to the locks, by name. */
const callsOf = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>, changed?: Partial<FilesApi>) {
  const calls = new Map<string, number>()
  yield* watch((call) => Effect.sync(() => void calls.set(call, (calls.get(call) ?? 0) + 1)), changed)(effect)
  return calls
})

const sum = (calls: ReadonlyMap<string, number>) => [...calls.values()].reduce((all, count) => all + count, 0)

const shown = (calls: ReadonlyMap<string, number>) => [...calls].map(([call, count]) => `${count} ${call}`).join(", ")

const assertWithin = (calls: ReadonlyMap<string, number>, budget: number) =>
  assert.isAtMost(sum(calls), budget, shown(calls))

describe("calls to the disk", () => {
  const noSinks = { events: false, spans: false, otlp: false }

  const life = (telemetry: Run.Options["telemetry"]) =>
    Effect.void.pipe(Run.scoped({ name: "one", retention: "off", telemetry }))

  // On the way to what is written each directory is looked at that might be a link.
  it.live.each([["without telemetry", noSinks, 56], ["with telemetry", {}, 65]] as const)(
    "of a run from its start to its end, %s",
    ([, telemetry, budget]) =>
      inStore(() =>
        Effect.gen(function*() {
          // The day is made by the first.
          yield* life(telemetry)
          const calls = yield* callsOf(life(telemetry))
          assertWithin(calls, budget)
          // The final record and its name.
          assert.strictEqual(calls.get("fsync"), 2)
        })
      )
  )

  const policy = { maxBundles: 5000, maxAge: "3650 days", keepLast: 10 } as const

  const large = { maxLooked: 10_000, maxTime: "1 minute" } as const

  /** Of so many bundles, in as many days, all of which a pass knows and none of which has moved for an hour. */
  const settled = Effect.fnUntraced(function*(root: string, days: number, perDay: number) {
    const today = Math.floor(Date.now() / day) * day
    for (let ago = 2; ago < days + 2; ago++) series(root, perDay, today - ago * day + 23 * hour)
    const then = new Date(Date.now() - 60 * minute)
    for (const name of NFS.readdirSync(`${root}/runs`)) NFS.utimesSync(`${root}/runs/${name}`, then, then)
    yield* untilPaid({ policy, budget: large })
  })

  it.live("of a pass with nothing to do: one for each day, and none for a bundle", () =>
    Effect.gen(function*() {
      const counted = (days: number, perDay: number) =>
        inStore((root) =>
          Effect.gen(function*() {
            yield* settled(root, days, perDay)
            const calls = yield* callsOf(Retention.run({ policy }))
            assertWithin(calls, 32 + days)
            return sum(calls)
          })
        )
      assert.strictEqual(yield* counted(2, 10), yield* counted(2, 1000))
      assert.strictEqual((yield* counted(12, 10)) - (yield* counted(2, 10)), 10)
    }))

  it.live("of a pass with nothing to do where records are torn or gone: one look at each, and nothing is written", () =>
    Effect.gen(function*() {
      const counted = (torn: number) =>
        inStore((root) =>
          Effect.gen(function*() {
            yield* settled(root, 2, 100)
            const dirs = bundles(root)
            for (const dir of dirs.slice(0, torn)) NFS.writeFileSync(`${dir}/run.json`, "{")
            for (const dir of dirs.slice(torn, 2 * torn)) NFS.rmSync(`${dir}/run.json`)
            NFS.rmSync(`${root}/index.db`)
            yield* untilPaid({ policy, budget: large }).pipe(withFiles(hourAgo))
            const calls = yield* callsOf(Retention.run({ policy }), hourAgo)
            assert.isUndefined(calls.get("fsync"))
            return sum(calls)
          })
        )
      assert.isAtMost((yield* counted(20)) - (yield* counted(0)), 3 * 20)
    }))
})
