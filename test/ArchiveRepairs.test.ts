/** Repairs and passes that come at any moment of an archiving or a restoring: neither may cost the run. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as Place from "../src/internal/ArchivePlace.ts"
import * as Retention from "../src/Retention.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import * as Verification from "../src/Verification.ts"
import { isOpenProblem } from "../src/VerificationFinding.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, makeStore } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

const text = "what must not be lost"

const repair = Stream.runCollect(Verification.check({ repair: true, archives: true }))

/** Where a run is, by the files. The bundle counts where it is in both. */
const placeOf = (root: string, { dir, id }: { readonly dir: string; readonly id: RunId }) => {
  if (NFS.existsSync(dir)) {
    assert.strictEqual(NFS.readFileSync(`${dir}/artifacts/text`, "utf8"), text)
    return "store"
  }
  return NFS.existsSync(Place.pathOf(root, id)) ? "archive" : "nowhere"
}

/** What somebody else can see, or that sees what somebody else has done. */
const telling: ReadonlySet<string> = new Set(["open", "tryExclusive", "rename", "unlink", "mkdir", "rmdir"])

/** Does something again and again, with a step before its first call, its second and so on, until it has no more. */
const atEveryCall = Effect.fnUntraced(function*<A, E, R, R2>(
  doing: Effect.Effect<A, E, R>,
  step: Effect.Effect<void>,
  after: (succeeded: boolean) => Effect.Effect<void, never, R2>
) {
  for (let nth = 0;; nth++) {
    let calls = 0
    let came = false
    const come = Effect.suspend(() => {
      came = true
      return step
    })
    const succeeded = yield* doing.pipe(
      watch(once((call) => telling.has(call) && calls++ === nth, come)),
      Effect.match({ onSuccess: () => true, onFailure: () => false })
    )
    yield* after(succeeded)
    if (!came) return nth
  }
})

/** A store with one run in it, and what somebody else does at any moment. */
const world = (root: string) =>
  Effect.gen(function*() {
    makeStore(root)
    const made = bundle(root, { startedAt: Date.now() - day })
    NFS.writeFileSync(`${made.dir}/artifacts/text`, text)
    const context = yield* Effect.context<Effect.Services<typeof repair>>()
    const step = Effect.gen(function*() {
      assert.deepStrictEqual((yield* repair).filter(isOpenProblem), [])
      yield* Effect.orDie(Retention.run({ policy: {} }))
    })
    return { made, step: Effect.provideContext(step, context) }
  })

describe("a repair and a pass", () => {
  it.live("at any moment of an archiving cost no run", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { made, step } = yield* world(root)
        const steps = yield* atEveryCall(RunArchive.archive(made.id), step, (succeeded) =>
          Effect.gen(function*() {
            assert.strictEqual(placeOf(root, made), succeeded ? "archive" : "store")
            if (succeeded) yield* Effect.orDie(RunArchive.restore(made.id))
            assert.strictEqual(placeOf(root, made), "store")
            yield* TrashSweep.sweepAll(root)
          }))
        assert.isAbove(steps, 20)
      })
    ), 60_000)

  it.live("at any moment of a restoring cost no run", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { made, step } = yield* world(root)
        yield* RunArchive.archive(made.id)
        const steps = yield* atEveryCall(RunArchive.restore(made.id), step, (succeeded) =>
          Effect.gen(function*() {
            assert.strictEqual(placeOf(root, made), succeeded ? "store" : "archive")
            if (succeeded) yield* Effect.orDie(RunArchive.archive(made.id))
            assert.strictEqual(placeOf(root, made), "archive")
            yield* TrashSweep.sweepAll(root)
          }))
        assert.isAbove(steps, 20)
      })
    ), 60_000)
})
