import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, node, type Place } from "../src/internal/Files.ts"
import { LeaseError } from "../src/Lease.ts"
import * as Run from "../src/Run.ts"
import type { RunRecord } from "../src/RunRecord.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { directory } from "./support/Worker.ts"

const recordAt = (dir: string): RunRecord => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

const inStore = Effect.provide(TestLayers.layerStore)

const theRun = Run.Run

const withEnvironment = (env: Readonly<Record<string, string>>) =>
  Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))

/** The record of the newest run, once its program has ended. */
const newest = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  return recordAt((yield* store.latest()).dir)
})

/** Files that write down the order in which things that matter to it reach the disk. */
const recordingFiles = (events: Array<string>) => ({
  ...node,
  openAt: (place: Place, name: Buffer, flags: number, mode?: number) => {
    if (String(name) === "events.jsonl") events.push("logs flushed")
    if (String(name) === "spans.jsonl") events.push("spans flushed")
    return node.openAt(place, name, flags, mode)
  },
  rename: (from: string, to: string) =>
    Effect.tap(node.rename(from, to), () =>
      Effect.sync(() => {
        if (!to.endsWith("run.json")) return
        const { releasedAt, status } = recordAt(to.slice(0, -"/run.json".length))
        events.push(releasedAt === undefined ? `outcome ${status}` : "final record")
      })),
  unlink: (path: string) => {
    if (path.includes("/holders/")) events.push("holder file gone")
    return node.unlink(path)
  }
})

const leaseState = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  return (yield* store.liveness(yield* store.latest()))._tag
})

describe("the order of release", () => {
  it.live("is hooks, telemetry, final record, holder file, lease, with hooks that fail, die and take long", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const hook = (name: string, then: Effect.Effect<void, never, RunStore.RunStore>) =>
        Effect.addFinalizer(() =>
          Effect.gen(function*() {
            events.push(`${name} begins, lease ${yield* Effect.orDie(leaseState)}`)
            yield* then
          })
        )
      const exit = yield* Effect.gen(function*() {
        yield* hook("last hook", Effect.void)
        yield* hook("dying hook", Effect.die(new Error("hook")))
        yield* hook("long hook", Effect.sleep("50 millis"))
        yield* Effect.log("at work")
        events.push("program ends")
      }).pipe(
        Run.scoped({ name: "ordered" }),
        Effect.provideService(Files, recordingFiles(events)),
        Effect.exit
      )
      assert.isTrue(Exit.isSuccess(exit))
      assert.deepStrictEqual(events.filter((event) => !event.endsWith("flushed")), [
        "program ends",
        "outcome ok",
        "long hook begins, lease Live",
        "dying hook begins, lease Live",
        "last hook begins, lease Live",
        "final record",
        "holder file gone"
      ])
      const last = events.findLastIndex((event) => event.endsWith("flushed"))
      assert.isAbove(last, events.indexOf("last hook begins, lease Live"))
      assert.isBelow(last, events.indexOf("final record"))
      assert.strictEqual(yield* leaseState, "Dead")
      const record = yield* newest
      assert.strictEqual(record.status, "ok")
      assert.strictEqual(record.attempts[0]?.status, "ok")
    }).pipe(Effect.provide(Logger.layer([])), inStore))

  it.live("holds for a layer too, for as long as the layer lives", () =>
    Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      yield* Effect.gen(function*() {
        yield* Effect.addFinalizer(() => Effect.map(Effect.orDie(leaseState), (tag) => assert.strictEqual(tag, "Live")))
        yield* theRun
      }).pipe(Effect.scoped, Effect.provide(Run.layerInStore({ name: "layered" })))
      const entry = yield* store.latest()
      assert.strictEqual((yield* store.liveness(entry))._tag, "Dead")
      assert.strictEqual((yield* newest).status, "ok")
    }).pipe(inStore))

  it.live(
    "an exporter that is down changes neither the outcome nor the order, and is bounded in time",
    () =>
      Effect.gen(function*() {
        const result = yield* Effect.succeed("done").pipe(
          Effect.withSpan("work"),
          Run.scoped({ name: "exporting" }),
          withEnvironment({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" })
        )
        assert.strictEqual(result, "done")
        assert.strictEqual((yield* newest).status, "ok")
      }).pipe(Effect.scoped, Effect.provide(Logger.layer([])), inStore),
    30_000
  )
})

describe("the outcome", () => {
  it.live("of a failure is on the disk before clean-up starts, with a redacted message", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const exit = yield* Effect.gen(function*() {
        const run = yield* theRun
        yield* Effect.addFinalizer(() => Effect.sync(() => void seen.push(recordAt(run.dir).status)))
        return yield* Effect.fail("login failed for https://me:hunter2@example.org/")
      }).pipe(Run.scoped({ name: "failing" }), Effect.exit)
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(seen, ["error"])
      const { exit: recorded, status } = yield* newest
      assert.strictEqual(status, "error")
      assert.strictEqual(recorded?.code, 1)
      assert.include(recorded?.message, "login failed")
      assert.notInclude(recorded?.message, "hunter2")
    }).pipe(inStore))

  it.live("keeps the program's typed error when a hook dies", () =>
    Effect.gen(function*() {
      const error = yield* Effect.gen(function*() {
        yield* Effect.addFinalizer(() => Effect.die("hook"))
        return yield* Effect.fail("typed" as const)
      }).pipe(Run.scoped({ name: "both" }), Effect.flip)
      assert.strictEqual(error, "typed")
    }).pipe(Effect.provide(Logger.layer([])), inStore))

  it.live("of an interruption is written before hooks run", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const cleaned = yield* Deferred.make<string>()
      const fiber = yield* Effect.gen(function*() {
        const run = yield* theRun
        yield* Effect.addFinalizer(() => Deferred.succeed(cleaned, recordAt(run.dir).status))
        yield* Deferred.succeed(begun, undefined)
        return yield* Effect.never
      }).pipe(Run.scoped({ name: "stopped" }), Effect.forkChild)
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(yield* Deferred.await(cleaned), "interrupted")
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    }).pipe(inStore))

  const circular: Record<string, unknown> = {}
  circular["self"] = circular
  it.live.each([{ _tag: "TooBig", size: 10n }, circular, Object.create(null), Symbol("odd"), undefined])(
    "of a program that failed with something odd is written, and its hooks run",
    (odd) =>
      Effect.gen(function*() {
        let cleaned = false
        const error = yield* Effect.gen(function*() {
          yield* Effect.addFinalizer(() => Effect.sync(() => void (cleaned = true)))
          return yield* Effect.fail(odd)
        }).pipe(Run.scoped({ name: "odd" }), Effect.flip)
        assert.strictEqual(error, odd)
        assert.isTrue(cleaned)
        assert.strictEqual((yield* newest).status, "error")
        assert.strictEqual(yield* leaseState, "Dead")
      }).pipe(inStore)
  )

  it.live("keeps no secret, in a message of the program's own, a span, or an error", () =>
    Effect.gen(function*() {
      const secret = "https://me:hunter2@example.org/"
      const dir = yield* Effect.gen(function*() {
        const run = yield* theRun
        yield* run.conclude({ status: "error", exit: { message: `cannot reach ${secret}` } })
        yield* Effect.ignore(Effect.withSpan(Effect.fail(`no answer from ${secret}`), "asking"))
        return run.dir
      }).pipe(Run.scoped({ name: "secretive" }))
      for (const path of ["run.json", "telemetry/spans.jsonl"]) {
        const text = NFS.readFileSync(`${dir}/${path}`, "utf8")
        assert.include(text, "example.org")
        assert.notInclude(text, "hunter2")
      }
    }).pipe(inStore))

  it.live("stands as the program said it first", () =>
    Effect.gen(function*() {
      yield* Effect.gen(function*() {
        const run = yield* theRun
        yield* run.conclude({ status: "error", exit: { code: 7 } })
        yield* run.conclude({ status: "ok", exit: { code: 0 } })
      }).pipe(Run.scoped({ name: "said" }))
      const { exit, status } = yield* newest
      assert.deepStrictEqual([status, exit?.code], ["error", 7])
    }).pipe(inStore))

  it.live("bug 45: that could not be written is what a successful program answers", () =>
    Effect.gen(function*() {
      const full = {
        ...node,
        rename: (from: string, to: string) =>
          to.endsWith("run.json")
            ? Effect.fail(new Errno({ code: "ENOSPC", call: "rename", path: to, cause: undefined }))
            : node.rename(from, to)
      }
      const error = yield* Effect.void.pipe(
        Run.scoped({ name: "full" }),
        Effect.provideService(Files, full),
        Effect.flip
      )
      assert.match(error.message, /disk is full/)
      assert.strictEqual((yield* newest).status, "running")
    }).pipe(Effect.provide(Logger.layer([])), inStore))
})

describe("the current run", () => {
  it.live("gives paths for artifacts and keeps them where they belong", () =>
    Effect.gen(function*() {
      const run = yield* theRun
      const path = yield* run.artifact("coverage/index.html")
      NFS.writeFileSync(path, "x")
      assert.isTrue(path.startsWith(run.paths.artifacts))
      for (
        const name of ["", "/etc/passwd", "../../run.json", "a/../b", "a//b", "a\0b", ".", "a\\b", "n".repeat(256)]
      ) {
        const error = yield* Effect.flip(run.artifact(name))
        assert.strictEqual(error._tag, "BadArtifactName", name)
        // Under which it is printed; a field could stand in its way.
        assert.strictEqual(error.name, "BadArtifactName", name)
      }
    }).pipe(Run.scoped({ name: "artifacts" }), inStore))

  it.live("writes tags and pins at once, and redacts its command", () =>
    Effect.gen(function*() {
      const run = yield* theRun
      yield* run.annotate({ branch: "main" })
      yield* run.pin("release")
      const record = recordAt(run.dir)
      assert.deepStrictEqual(record.tags, { kind: "test", branch: "main" })
      assert.strictEqual(record.pin?.reason, "release")
      assert.deepStrictEqual(record.command?.argv, ["curl", "--token", "[redacted]", "ticket [redacted]"])
    }).pipe(
      Run.scoped({
        name: "tagged",
        tags: { kind: "test" },
        redact: [/T-\d+/],
        command: { argv: ["curl", "--token", "abc", "ticket T-123"], cwd: "/" }
      }),
      inStore
    ))

  it.live("bug 05: learns by a typed error that somebody took its lease away", () =>
    Effect.gen(function*() {
      const error = yield* Effect.gen(function*() {
        const run = yield* theRun
        NFS.rmSync(`${run.dir}/lease`)
        assert.strictEqual((yield* Effect.flip(run.check)).reason._tag, "LeaseLost")
        const refused = yield* Effect.flip(run.artifact("late.txt"))
        assert.strictEqual(refused._tag, "LeaseError")
      }).pipe(Run.scoped({ name: "robbed" }), Effect.flip)
      assert.isTrue(error instanceof LeaseError && error.reason._tag === "LeaseLost")
    }).pipe(Effect.provide(Logger.layer([])), inStore))

  it.live("nested in another gets a bundle of its own, also from the very same layer value", () =>
    Effect.scoped(Effect.gen(function*() {
      const root = `${yield* directory}/store`
      const RunLayer = Run.layer({ name: "same", store: { root, allowTemp: true } })
      const ids = yield* Effect.gen(function*() {
        const outer = yield* theRun
        const inner = yield* Effect.provide(theRun, RunLayer)
        const both = yield* Effect.forEach([1, 2], () => Effect.provide(theRun, RunLayer), { concurrency: 2 })
        for (const run of [inner, ...both]) assert.strictEqual(run.parent, outer.id)
        return [outer.id, inner.id, ...both.map((run) => run.id)]
      }).pipe(Effect.provide(RunLayer))
      assert.strictEqual(new Set(ids).size, 4)
    })))

  it.live("is a child of the run named by the environment, in the same store only", () =>
    Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      const parent = yield* Effect.map(theRun, (run) => run.environment).pipe(Run.scoped({ name: "outer" }))
      const inEnvironment = (environment: Readonly<Record<string, string>>) =>
        Effect.map(theRun, (run) => run.parent).pipe(Run.scoped({ name: "inner" }), withEnvironment(environment))
      assert.strictEqual(yield* inEnvironment(parent), parent["LEASEHOLD_RUN_ID"])
      assert.isUndefined(yield* inEnvironment({ ...parent, LEASEHOLD_ROOT: "/elsewhere" }))
      assert.isUndefined(yield* inEnvironment({ LEASEHOLD_ROOT: store.root, LEASEHOLD_RUN_ID: "../../etc" }))
    }).pipe(inStore))
})

describe("telemetry", () => {
  it.live("keeps log events and spans as JSON lines, beside the loggers that are there", () =>
    Effect.gen(function*() {
      const beside: Array<unknown> = []
      const dir = yield* Effect.gen(function*() {
        const run = yield* theRun
        yield* Effect.log("hello").pipe(
          Effect.annotateLogs({ step: 3 }),
          Effect.withSpan("inner", { attributes: { n: 1n } })
        )
        return run.dir
      }).pipe(
        Run.scoped({ name: "told" }),
        Effect.provide(Logger.layer([Logger.make(({ message }) => void beside.push(message))]))
      )
      const lines = (path: string) =>
        NFS.readFileSync(`${dir}/${path}`, "utf8").trim().split("\n").map((line) => JSON.parse(line))
      assert.deepInclude(lines("logs/events.jsonl")[0], { message: "hello", annotations: { step: 3 } })
      const spans = lines("telemetry/spans.jsonl")
      assert.deepStrictEqual(spans.map((span) => span.name), ["inner", "told"])
      assert.strictEqual(spans[0].parentSpanId, spans[1].spanId)
      assert.strictEqual(spans[0].status, "ok")
      assert.strictEqual(beside.length, 1)
    }).pipe(inStore))

  it.live("of an attribute that JSON cannot say, and of settings that are malformed, changes nothing", () =>
    Effect.gen(function*() {
      const circular: Record<string, unknown> = {}
      circular["self"] = circular
      const result = yield* Effect.succeed("fine").pipe(
        Effect.withSpan("inner", { attributes: { circular, call: () => 1, big: 1n } }),
        Run.scoped({ name: "odd" }),
        withEnvironment({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT: "abc" })
      )
      assert.strictEqual(result, "fine")
      const { dir, status } = yield* Effect.map(
        Effect.flatMap(RunStore.RunStore, (store) => store.latest()),
        ({ dir }) => ({ dir, status: recordAt(dir).status })
      )
      assert.strictEqual(status, "ok")
      assert.strictEqual(NFS.readFileSync(`${dir}/telemetry/spans.jsonl`, "utf8").trim().split("\n").length, 2)
    }).pipe(Effect.provide(Logger.layer([])), inStore))

  it.live("that cannot be written is said once and changes nothing", () =>
    Effect.gen(function*() {
      const warnings: Array<unknown> = []
      const failing = {
        ...node,
        openAt: (place: Place, name: Buffer, flags: number, mode?: number) =>
          String(name).endsWith(".jsonl")
            ? Effect.fail(new Errno({ code: "EIO", call: "open", path: String(name), cause: undefined }))
            : node.openAt(place, name, flags, mode)
      }
      const result = yield* Effect.gen(function*() {
        for (let index = 0; index < 3; index++) {
          yield* Effect.log("line")
          yield* Effect.sleep("120 millis")
        }
        return "fine"
      }).pipe(
        Run.scoped({ name: "mute", telemetry: { spans: false } }),
        Effect.provideService(Files, failing),
        Effect.provide(Logger.layer([Logger.make(({ logLevel, message }) => {
          if (logLevel === "Warn") warnings.push(message)
        })]))
      )
      assert.strictEqual(result, "fine")
      assert.strictEqual((yield* newest).status, "ok")
      assert.strictEqual(warnings.length, 1)
    }).pipe(inStore))
})

describe("a run without a disk", () => {
  it.effect("tells what it was told", () =>
    Effect.gen(function*() {
      const current = yield* theRun
      const told = yield* TestLayers.TestRun
      yield* current.annotate({ a: "b" })
      assert.include(yield* current.artifact("x/y.txt"), "/artifacts/x/y.txt")
      assert.strictEqual((yield* Effect.flip(current.artifact("../x")))._tag, "BadArtifactName")
      yield* current.conclude({ status: "error", exit: { code: 2 } })
      const record = yield* told.record
      assert.deepStrictEqual(record.tags, { a: "b" })
      assert.strictEqual(record.status, "error")
      assert.deepStrictEqual(yield* told.artifacts, ["x/y.txt"])
      assert.isFalse(NFS.existsSync(current.dir))
    }).pipe(Effect.provide(TestLayers.layerRun())))
})
