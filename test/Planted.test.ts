/** What somebody has put in the place of what a run writes, or of the directories that it writes in. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as Child from "../src/Child.ts"
import { mark } from "../src/cli/Mark.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import * as RunStore from "../src/RunStore.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as Verification from "../src/Verification.ts"
import { giveToNobody, isRoot } from "./fixtures/trees.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { inStore, makeStore, traces, withRoot, type World } from "./support/Stores.ts"
import { hour } from "./support/Time.ts"

interface Place extends Made {
  readonly root: string
  readonly outside: string
}

/** A store with one run, beside a directory that has to stay as it is. */
const beside = <A, E>(test: (place: Place) => Effect.Effect<A, E, World | Scope.Scope>) =>
  inStore((root) =>
    Effect.gen(function*() {
      const made = bundle(root, { startedAt: Date.now() - hour })
      for (const part of ["logs", "telemetry", "temp"]) NFS.mkdirSync(`${made.dir}/${part}`)
      const outside = `${root}-outside`
      NFS.mkdirSync(`${outside}/directory`, { recursive: true })
      NFS.writeFileSync(`${outside}/file`, "sings")
      yield* test({ ...made, root, outside })
    })
  )

const unchanged = <A, E, R>({ outside }: Place, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const before = traces(outside)
    const result = yield* effect
    assert.deepStrictEqual(traces(outside), before)
    return result
  })

/** Writes to everything that is kept of a run. */
const work = Effect.gen(function*() {
  yield* Effect.logInfo("said").pipe(Effect.withSpan("spanned"))
  yield* mark(["stdout.log"], "marked")
  const { exitCode } = yield* Child.run({ argv: ["sh", "-c", "echo out; echo err >&2"], output: "keep" })
  assert.strictEqual(exitCode, 0)
})

const quiet = { retention: "off" } as const

const goOn = ({ id }: Place) => work.pipe(Run.resume(id, quiet))

const written = {
  "logs/events.jsonl": "said",
  "telemetry/spans.jsonl": "spanned",
  "logs/stdout.log": "--- marked ---\nout\n",
  "logs/stderr.log": "err\n"
}

const socket = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"

const make = (command: string, ...args: ReadonlyArray<string>) => void NodeChildProcess.execFileSync(command, args)

const inPlaceOfFiles: ReadonlyArray<readonly [string, (path: string, outside: string) => void, boolean?]> = [
  ["a second name of a file outside", (path, outside) => NFS.linkSync(`${outside}/file`, path)],
  ["a link to a file", (path, outside) => NFS.symlinkSync(`${outside}/file`, path)],
  ["a link to nothing", (path, outside) => NFS.symlinkSync(`${outside}/new`, path)],
  ["a link to a directory", (path, outside) => NFS.symlinkSync(`${outside}/directory`, path)],
  ["a directory", (path) => NFS.mkdirSync(path)],
  ["a FIFO", (path) => make("mkfifo", path)],
  ["a socket", (path) => make("python3", "-c", socket, path)],
  ["a device", (path) => make("mknod", path, "c", "1", "7"), isRoot],
  [
    "a file of another user",
    (path) => {
      NFS.writeFileSync(path, "theirs")
      giveToNobody(path)
    },
    isRoot
  ]
]

describe("in the place of a file that a run writes", () => {
  it.live.each(inPlaceOfFiles.filter(([_, __, can = true]) => can))(
    "%s is set aside",
    ([_, plant]) =>
      beside((place) =>
        Effect.gen(function*() {
          for (const name of Object.keys(written)) plant(`${place.dir}/${name}`, place.outside)
          yield* unchanged(place, goOn(place))
          for (const [name, text] of Object.entries(written)) {
            const path = `${place.dir}/${name}`
            assert.isTrue(NFS.lstatSync(path).isFile())
            assert.include(NFS.readFileSync(path, "utf8"), text)
            const [directory = "", last = ""] = name.split("/")
            const aside = names(`${place.dir}/${directory}`).filter((each) => each.startsWith(`${last}.`))
            assert.match(aside.join(), /^\S+\.[0-9a-z]{6}\.aside$/)
          }
        })
      )
  )

  it.live("a file of the run's own is written on", () =>
    beside((place) =>
      Effect.gen(function*() {
        NFS.writeFileSync(`${place.dir}/logs/stdout.log`, "half a line")
        yield* goOn(place)
        yield* goOn(place)
        const text = "half a line\n--- marked ---\nout\n--- marked ---\nout\n"
        assert.strictEqual(NFS.readFileSync(`${place.dir}/logs/stdout.log`, "utf8"), text)
        assert.deepStrictEqual(names(`${place.dir}/logs`).toSorted(), ["events.jsonl", "stderr.log", "stdout.log"])
      })
    ))
})

const linked = (place: Place, name: string) => {
  NFS.rmSync(`${place.dir}/${name}`, { recursive: true })
  NFS.symlinkSync(`${place.outside}/directory`, `${place.dir}/${name}`)
}

describe("a link in the place of a directory of a bundle", () => {
  it.live.each(["logs", "telemetry", "temp"])(
    "%s: nothing is written behind it",
    (name) =>
      beside((place) =>
        Effect.gen(function*() {
          linked(place, name)
          yield* unchanged(place, Effect.ignore(goOn(place)))
          assert.isDefined(recordAt(place.dir).releasedAt)
        })
      )
  )

  it.live("logs: nothing that lies behind it tells when a run crashed", () =>
    beside((place) =>
      Effect.gen(function*() {
        const then = new Date(Date.now() - 60_000).toISOString()
        NFS.writeFileSync(`${place.outside}/directory/events.jsonl`, `{"timestamp":"${then}"}\n`)
        linked(place, "logs")
        NFS.writeFileSync(
          `${place.dir}/run.json`,
          JSON.stringify({ ...recordAt(place.dir), status: "running", endedAt: undefined })
        )
        yield* Retention.run({ policy: {} })
        assert.strictEqual(recordAt(place.dir).status, "crashed")
        assert.notStrictEqual(recordAt(place.dir).endedAt, then)
      })
    ))

  it.live("holders: nothing behind it is read, written or deleted, and the run is kept as unknown", () =>
    beside((place) =>
      Effect.gen(function*() {
        NFS.writeFileSync(`${place.outside}/directory/left.json.abcdef.tmp`, "")
        linked(place, "holders")
        yield* unchanged(
          place,
          Effect.gen(function*() {
            const store = yield* RunStore.RunStore
            assert.strictEqual((yield* store.liveness(yield* store.get(place.id)))._tag, "Unknown")
            yield* Stream.runDrain(Verification.check({ repair: true }))
            assert.include((yield* Effect.flip(goOn(place))).message, "holders: is not a directory")
            const hold = Run.attach({ run: place.id })(Effect.void)
            assert.include((yield* Effect.flip(hold)).message, "holders: is not a directory")
          })
        )
      })
    ))

  it.live("one below artifacts: no artifact is made behind it", () =>
    beside((place) =>
      Effect.gen(function*() {
        NFS.symlinkSync(`${place.outside}/directory`, `${place.dir}/artifacts/led`)
        const artifact = (name: string) =>
          Effect.flatMap(Run.Run, (run) => run.artifact(name)).pipe(Run.resume(place.id, quiet))
        yield* unchanged(
          place,
          Effect.gen(function*() {
            for (const name of ["led/out", "led/below/out"]) {
              assert.include((yield* Effect.flip(artifact(name))).message, "artifacts/led: is not a directory")
            }
          })
        )
        NFS.writeFileSync(yield* artifact("plain/below/out"), "made")
      })
    ))
})

describe("what passes write in the root", () => {
  it.live.each(["retention.lock", "index.db"])(
    "%s: a second name of a file outside is not written to",
    (name) =>
      beside((place) =>
        Effect.gen(function*() {
          const index = () => NFS.statSync(`${place.root}/index.db`).mtimeMs
          const pass = Retention.run({ policy: { maxBundles: 5 } })
          yield* pass
          const first = index()
          NFS.linkSync(`${place.root}/${name}`, `${place.outside}/${name}`)
          bundle(place.root, { startedAt: Date.now() - hour })
          yield* unchanged(place, pass)
          assert.notStrictEqual(index(), first)
          // It is of use again.
          const before = traces(place.root)
          yield* pass
          assert.deepStrictEqual(traces(place.root), before)
        })
      )
  )
})

describe("a link in the place of a directory of the store", () => {
  const ofRun: ReadonlyArray<readonly [string, (id: RunId) => Effect.Effect<unknown, unknown, World>]> = [
    ["a look", (id) => Effect.flatMap(RunStore.RunStore, (store) => store.get(id))],
    ["a search", (id) => Effect.flatMap(RunStore.RunStore, (store) => store.find(id.slice(0, 12)))],
    ["a listing", () => Effect.flatMap(RunStore.RunStore, (store) => Stream.runCollect(store.list))],
    ["a pin", (id) => Effect.flatMap(RunStore.RunStore, (store) => store.pin(id, "keep"))],
    ["a resume", (id) => Effect.void.pipe(Run.resume(id, quiet))],
    ["an attach", (id) => Effect.void.pipe(Run.attach({ run: id }))],
    ["a restoring", (id) => RunArchive.restore(id)],
    ["a run", () => Effect.void.pipe(Run.scoped({ name: "new", ...quiet }))],
    ["a fork", (id) => Effect.void.pipe(Run.scoped({ name: "new", from: id, ...quiet }))],
    ["archiving", (id) => RunArchive.archive(id)],
    ["a removal", (id) => RunRemoval.remove(id)],
    ["a trim", (id) => RunTrim.trim(id)]
  ]
  it.live.each(ofRun)(
    "runs: nothing is read or written behind it by %s",
    ([_, verb]) =>
      beside((place) =>
        Effect.gen(function*() {
          NFS.renameSync(`${place.root}/runs`, `${place.outside}/runs`)
          NFS.symlinkSync(`${place.outside}/runs`, `${place.root}/runs`)
          const answer = yield* unchanged(place, Effect.result(verb(place.id)))
          const said = Result.isSuccess(answer) ? answer.success : String(answer.failure)
          // A look says what it has seen in the place of the bundle.
          assert.match(
            JSON.stringify(said),
            /(is|lies) a link|"kind":"link"|runs: is not a directory|not archived|in the store/
          )
        })
      )
  )

  it.live("staging: nothing is made behind it", () =>
    beside((place) =>
      Effect.gen(function*() {
        NFS.rmSync(`${place.root}/staging`, { recursive: true, force: true })
        NFS.symlinkSync(`${place.outside}/directory`, `${place.root}/staging`)
        const run = Effect.void.pipe(Run.scoped({ name: "new", ...quiet }))
        assert.include((yield* unchanged(place, Effect.flip(run))).message, "staging: is not a directory")
      })
    ))
})

describe("in the place of a file that is read", () => {
  const sparse = (path: string) => {
    NFS.writeFileSync(path, "")
    NFS.truncateSync(path, 10 * 1024 ** 3)
  }
  const large: ReadonlyArray<readonly [string, (path: string) => void, boolean?]> = [
    ["200 MB", (path) => NFS.writeFileSync(path, Buffer.alloc(200_000_000, "{"))],
    ["a hole of 10 GB", sparse],
    ["a FIFO", (path) => make("mkfifo", path)],
    ["a directory", (path) => NFS.mkdirSync(path)],
    ["a socket", (path) => make("python3", "-c", socket, path)],
    ["a device without an end", (path) => make("mknod", path, "c", "1", "5"), isRoot]
  ]
  const readable = ["run.json", "holders/one.json", "lease", "logs/events.jsonl"]

  it.live.each(large.filter(([_, __, can = true]) => can))(
    "%s is not read whole, nor waited for",
    ([_, plant]) =>
      beside((place) =>
        Effect.gen(function*() {
          let bytes = 0
          // A lease may be as large as it likes, since nothing of it is read.
          let isFile = false
          const counting: FilesApi = {
            ...node,
            read: (...args) => Effect.tap(node.read(...args), (count) => Effect.sync(() => void (bytes += count)))
          }
          const made = readable.map((name) => {
            const { dir, id } = bundle(place.root, { startedAt: Date.now() - hour, status: "running" })
            NFS.mkdirSync(`${dir}/logs`)
            NFS.rmSync(`${dir}/${name}`, { force: true })
            plant(`${dir}/${name}`)
            isFile = NFS.lstatSync(`${dir}/${name}`).isFile()
            return id
          })
          const states = yield* Effect.gen(function*() {
            const store = yield* RunStore.RunStore
            yield* Stream.runDrain(Verification.check())
            yield* Retention.run({ policy: { all: true } })
            return yield* Effect.forEach(made, (id) => Effect.result(Effect.flatMap(store.get(id), store.liveness)))
          }).pipe(Effect.provideService(Files, counting))
          // What is in a log keeps nothing from going.
          const tags = states.map((state) => Result.isSuccess(state) ? state.success._tag : "gone")
          assert.deepStrictEqual(tags, ["Unknown", "Unknown", isFile ? "gone" : "Unknown", "gone"])
          assert.isBelow(bytes, 3 * 1024 ** 2)
        })
      )
  )

  it.live.each(large.filter(([_, __, can = true]) => can))(
    "%s for a store.json: the store is refused",
    ([_, plant]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          makeStore(root)
          NFS.rmSync(`${root}/store.json`)
          plant(`${root}/store.json`)
          const opened = Effect.scoped(Layer.build(RunStore.layer({ root, allowTemp: true })))
          assert.strictEqual((yield* Effect.flip(opened)).reason._tag, "IllegibleFormat")
        })
      )
  )
})
