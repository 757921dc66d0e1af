/** Programs under test that archive, restore and trim, with the layers that users have for that. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NFS from "node:fs"
import type { Lease } from "../src/Lease.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunStore from "../src/RunStore.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { withRoot } from "./support/Stores.ts"

/** What a user's test may do with a run. */
const program = Effect.gen(function*() {
  const { dir, get } = yield* RunStore.RunStore
  const id = yield* Effect.gen(function*() {
    const run = yield* Run.Run
    NFS.writeFileSync(yield* run.artifact("report.txt"), "a report")
    NFS.writeFileSync(`${run.paths.temp}/heavy`, "heavy")
    return run.id
  }).pipe(Run.scoped({ name: "under test" }))
  const trimmed = yield* RunTrim.trim(id)
  assert.deepStrictEqual([trimmed.entries, NFS.existsSync(`${dir(id)}/temp/heavy`)], [1, false])
  const { path } = yield* RunArchive.archive(id)
  assert.strictEqual((yield* RunArchive.verify(yield* RunArchive.get(id))).record.name, "under test")
  assert.deepStrictEqual([NFS.existsSync(path), NFS.existsSync(dir(id))], [true, false])
  const record = yield* RunArchive.restore(id)
  assert.strictEqual(record.status, "ok")
  assert.strictEqual(NFS.readFileSync(`${dir(id)}/artifacts/report.txt`, "utf8"), "a report")
  yield* RunArchive.archive(id)
  const again = yield* Effect.map(Run.Run, (run) => run.id).pipe(Run.resume(id, { rebuilds: true }))
  assert.strictEqual(again, id)
  assert.isTrue(NFS.existsSync((yield* get(id)).dir))
  yield* RunArchive.archive(id)
  assert.isAbove(yield* RunArchive.remove(id), 0)
  return id
})

/** A real store whose leases are those of the test. */
const withLease = <A, E>(
  test: Effect.Effect<A, E, RunStore.RunStore | Lease | TestLayers.TestLease>
): Effect.Effect<A, E> =>
  withRoot((root) =>
    Effect.provide(
      test,
      Layer.orDie(RunStore.layerWithoutLease({ root, allowTemp: true })).pipe(
        Layer.provideMerge(TestLayers.layerLease)
      )
    )
  )

describe("archiving, restoring, going on and trimming", () => {
  it.live("work with the store for tests", () => Effect.provide(program, TestLayers.layerStore))

  it.effect("work under a clock that stands still", () => Effect.provide(program, TestLayers.layerStore))

  it.live("work with a lease within the process", () => withLease(program))

  it.live("are refused when the lease is told to say that somebody works there", () =>
    withLease(Effect.gen(function*() {
      const { tell } = yield* TestLayers.TestLease
      const id = yield* Effect.map(Run.Run, (run) => run.id).pipe(Run.scoped({ name: "under test" }))
      yield* tell("held")
      const refused = [yield* Effect.flip(RunArchive.archive(id)), yield* Effect.flip(RunTrim.trim(id))]
      assert.deepStrictEqual(refused.map(({ reason }) => reason._tag), ["Held", "Held"])
      yield* tell(undefined)
      yield* RunArchive.archive(id)
    })))
})
