import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import { timestamp } from "../src/RunRecord.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { at } from "./support/Time.ts"
import { filled, inStore, refusal } from "./support/Trims.ts"

describe("going on with a run that was trimmed", () => {
  const goOn = (id: string, rebuilds?: boolean) =>
    Effect.void.pipe(
      Run.resume(id, { retention: "off", telemetry: { events: false, spans: false, otlp: false }, rebuilds }),
      Effect.catchTags({ BudgetError: Effect.die, PolicyError: Effect.die })
    )

  it.live("takes the word that it can be made again, once for each time that it was trimmed", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        yield* RunTrim.trim(id, { paths: ["temp/**", "logs/*"] })
        const before = recordAt(dir)
        const why = /^Trimmed: .*temp\/\*\*, logs\/\* was trimmed.*--rebuilds \(rebuilds: true\)$/
        assert.match(yield* refusal(goOn(id)), why)
        assert.match(yield* refusal(goOn(id, false)), why)
        assert.deepStrictEqual([recordAt(dir), NFS.readdirSync(`${dir}/holders`)], [before, []])
        yield* Effect.gen(function*() {
          // The clock moves on, so that the next attempt starts after the trim.
          while ((yield* DateTime.now).epochMilliseconds <= Date.parse(before.trimmed![0]!.at));
        })
        yield* goOn(id, true)
        yield* goOn(id)
        assert.deepStrictEqual(recordAt(dir).attempts.length, 3)
        assert.deepStrictEqual(recordAt(dir).trimmed, before.trimmed)
        yield* RunTrim.trim(id)
        // Nothing was there to be trimmed, so nothing is missing.
        yield* goOn(id)
        NFS.writeFileSync(`${dir}/temp/again`, "x")
        yield* RunTrim.trim(id)
        assert.match(yield* refusal(goOn(id)), /^Trimmed: [^ ]+: temp\/\*\* was trimmed/)
      })
    ))

  it.live("also where the trim did not come to its end, and a refusal lets go of the lease", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        yield* each.update(id, (record) => ({
          ...record,
          trimmed: [{ at: timestamp(at(Date.now())), paths: ["temp/**"], entries: 1, bytes: 0, pending: true }]
        }))
        yield* Effect.scoped(Effect.gen(function*() {
          assert.match(yield* refusal(each.resume(id)), /^Trimmed/)
          assert.strictEqual((yield* each.liveness(yield* each.get(id)))._tag, "Dead")
        }))
        assert.strictEqual((yield* RunTrim.trim(id)).entries, 1)
        assert.isUndefined(recordAt(dir).trimmed?.[0]?.pending)
      })
    ))

  it.live("also where that was in the moment before its archive was locked", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        yield* RunArchive.archive(id)
        const elsewhere = Effect.gen(function*() {
          yield* RunArchive.restore(id)
          yield* RunTrim.trim(id)
          yield* RunArchive.archive(id)
        })
        const context = yield* Effect.context<Effect.Services<typeof elsewhere>>()
        const isLock = (call: string, [path]: ReadonlyArray<string>) =>
          call === "tryExclusive" && path === Archives.pathOf(each.root, id)
        const step = Effect.provideContext(Effect.orDie(elsewhere), context)
        assert.match(yield* refusal(watch(once(isLock, step))(goOn(id))), /^Trimmed/)
        assert.deepStrictEqual([NFS.existsSync(dir), names(`${each.root}/staging`)], [false, []])
        yield* goOn(id, true)
      })
    ))
})
