import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import * as NFS from "node:fs"
import { Locks, native } from "../src/internal/Locks.ts"
import type { Lease } from "../src/Lease.ts"
import * as Run from "../src/Run.ts"
import type { RunRecord } from "../src/RunRecord.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { bundle } from "./support/Fabricate.ts"
import { hour } from "./support/Time.ts"

const inStore = <A, E>(test: (root: string) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Effect.flatMap(RunStore.RunStore, ({ root }) => test(root)).pipe(
    Effect.provide([Logger.layer([]), TestLayers.layerStore])
  )

const recordAt = (dir: string): RunRecord => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

const quiet = { retention: "off" } as const

describe("resuming a run", () => {
  it.live("goes on in the same bundle with a new attempt, and ends with an outcome of its own", () =>
    inStore(() =>
      Effect.gen(function*() {
        const first = yield* Effect.flatMap(Run.Run, (run) => Effect.as(run.annotate({ step: "1" }), run)).pipe(
          Run.scoped({ name: "job", ...quiet })
        )
        const seen = yield* Effect.map(Run.Run, (run) => ({ run, record: recordAt(run.dir) })).pipe(
          Run.resume(first.id, quiet)
        )
        assert.strictEqual(seen.run.dir, first.dir)
        assert.strictEqual(seen.run.name, "job")
        assert.strictEqual(seen.record.status, "running")
        assert.isUndefined(seen.record.endedAt)
        const after = recordAt(first.dir)
        assert.deepStrictEqual(after.attempts.map(({ status }) => status), ["ok", "ok"])
        assert.strictEqual(after.status, "ok")
        assert.deepStrictEqual(after.tags, { step: "1" })
      })
    ))

  it.live("of one that crashed writes down that it had, as recovery does", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour, status: "running" })
        const error = yield* Effect.fail("again").pipe(Run.resume(id, quiet), Effect.flip)
        assert.strictEqual(error, "again")
        assert.deepStrictEqual(recordAt(dir).attempts.map(({ status }) => status), ["crashed", "error"])
      })
    ))

  it.live("bug 55: keeps a pin that comes while it is on its way", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour })
        // Everything that resume reads it has read when it turns its claim into a lease.
        const pinning = {
          ...native,
          tryDowngrade: (fd: number, path: string) =>
            Effect.andThen(Effect.orDie(store.pin(id, "in time")), native.tryDowngrade(fd, path))
        }
        yield* Effect.void.pipe(Run.resume(id, quiet), Effect.provideService(Locks, pinning))
        assert.strictEqual(recordAt(dir).pin?.reason, "in time")
      })
    ))

  it.live("bug 12: is refused while somebody works there, naming who, and of one that was removed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        yield* Effect.gen(function*() {
          const { id } = yield* Run.Run
          const error = yield* Effect.flip(Effect.void.pipe(Run.resume(id, quiet)))
          assert.include(error.message, `in use by pid ${process.pid}`)
        }).pipe(Run.scoped({ name: "live", ...quiet }))
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour })
        NFS.rmSync(dir, { recursive: true })
        const gone = yield* Effect.flip(Effect.void.pipe(Run.resume(id, quiet)))
        assert.include(gone.message, "no run")
      })
    ))

  it.live("with retention in the same command never considers the run being resumed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: Date.now() - 400 * 24 * hour })
        const other = bundle(root, { startedAt: Date.now() - 400 * 24 * hour })
        for (const when of ["before", "background", "after"] as const) {
          yield* Effect.void.pipe(Run.resume(id, { retention: { when, policy: { all: true } } }))
          assert.isTrue(NFS.existsSync(`${dir}/run.json`), when)
        }
        assert.isFalse(NFS.existsSync(other.dir))
      })
    ))
})

describe("joining a run", () => {
  const inEnvironment = (environment: Readonly<Record<string, string>>) =>
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: environment }))

  it.live("holds it, and leaves its outcome to its owner", () =>
    inStore(() =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const { dir } = yield* Effect.gen(function*() {
          const owner = yield* Run.Run
          const exit = yield* Effect.result(
            Effect.gen(function*() {
              const joined = yield* Run.Run
              assert.strictEqual(joined.id, owner.id)
              yield* joined.annotate({ joined: "yes" })
              yield* joined.conclude({ status: "error", exit: { code: 9 } })
              return yield* Effect.fail("mine")
            }).pipe(Run.attach(), inEnvironment(owner.environment))
          )
          assert.isTrue(Result.isFailure(exit))
          return owner
        }).pipe(Run.scoped({ name: "owner", ...quiet }))
        const record = recordAt(dir)
        assert.strictEqual(record.status, "ok")
        assert.deepStrictEqual(record.tags, { joined: "yes" })
        assert.strictEqual((yield* store.liveness(yield* store.latest()))._tag, "Dead")
      })
    ))

  it.live("bug 37: follows no link out of the store", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour })
        NFS.renameSync(dir, `${root}/trash/outside`)
        NFS.symlinkSync(`${root}/trash/outside`, dir)
        const before = NFS.readdirSync(`${root}/trash/outside`, { recursive: true })
        const { mtimeMs } = NFS.statSync(`${root}/trash/outside/holders`)
        const error = yield* Effect.flip(Effect.void.pipe(Run.attach({ run: id })))
        assert.include(error.message, "lies a link")
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash/outside`, { recursive: true }), before)
        assert.strictEqual(NFS.statSync(`${root}/trash/outside/holders`).mtimeMs, mtimeMs)
      })
    ))

  it.live("checks the environment before it comes near a path", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = bundle(root, { startedAt: Date.now() - hour })
        const attach = (environment: Readonly<Record<string, string>>) =>
          Effect.flip(Effect.void.pipe(Run.attach(), inEnvironment(environment))).pipe(
            Effect.map(({ message }) => message)
          )
        assert.include(yield* attach({}), "not set")
        assert.include(yield* attach({ LEASEHOLD_ROOT: "/elsewhere", LEASEHOLD_RUN_ID: id }), "/elsewhere")
        assert.include(yield* attach({ LEASEHOLD_ROOT: root, LEASEHOLD_RUN_ID: "../../etc" }), "not a run id")
        const missing = "20260101T000000000Z-aaaaaaaa"
        assert.include(yield* attach({ LEASEHOLD_ROOT: root, LEASEHOLD_RUN_ID: missing }), "no run")
      })
    ))
})
