import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as DiskUsage from "../src/DiskUsage.ts"
import { node } from "../src/internal/Files.ts"
import type { Lease } from "../src/Lease.ts"
import * as Run from "../src/Run.ts"
import type { RunRecord } from "../src/RunRecord.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { bothWays, failing, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"
import { bundles, names } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { below, everything } from "./support/Snapshot.ts"
import { hour } from "./support/Time.ts"

const inStore = <A, E>(test: (root: string) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Effect.flatMap(RunStore.RunStore, ({ root }) => test(root)).pipe(
    Effect.provide([Logger.layer([]), TestLayers.layerStore])
  )

const recordAt = (dir: string): RunRecord => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

const quiet = { retention: "off" } as const

/** A finished run, whose artifacts a test fills. */
const old = (root: string, fill: (artifacts: string) => void): Made => {
  const made = bundle(root, { startedAt: Date.now() - hour, tags: { branch: "main" } })
  fill(`${made.dir}/artifacts`)
  return made
}

/** Forks a run, and gives what the new one is and what its program finds. */
const fork = (from: string, more: Partial<Run.Options> = {}) =>
  Effect.map(Run.Run, (run) => ({ run, found: below(run.paths.artifacts) })).pipe(
    Run.scoped({ name: "fork", from, ...quiet, ...more })
  )

/** Nothing is left of a fork that failed, and the old run is as free as it was. */
const isUndone = Effect.fnUntraced(function*(root: string, { dir, id }: Made) {
  const store = yield* RunStore.RunStore
  assert.deepStrictEqual([names(`${root}/staging`), names(`${root}/trash`)], [[], []])
  assert.deepStrictEqual(bundles(root), [dir])
  assert.strictEqual((yield* store.liveness(yield* store.get(id)))._tag, "Dead")
})

const outsideOf = (root: string) => {
  NFS.mkdirSync(`${root}/outside`)
  NFS.writeFileSync(`${root}/outside/secret`, "not yours")
  return `${root}/outside`
}

/** Something of everything. */
const motley = (artifacts: string) => {
  NFS.mkdirSync(`${artifacts}/deep/er`, { recursive: true })
  NFS.writeFileSync(`${artifacts}/deep/er/report`, "content", { mode: 0o640 })
  NFS.writeFileSync(`${artifacts}/tool`, "#!/bin/sh")
  NFS.chmodSync(`${artifacts}/tool`, 0o755)
  NFS.symlinkSync("deep/er/report", `${artifacts}/inside`)
  NFS.symlinkSync("../../../../outside", `${artifacts}/outside`)
  NFS.symlinkSync("/nowhere/at all", `${artifacts}/broken`)
  NFS.mkdirSync(`${artifacts}/sealed`)
  NFS.writeFileSync(`${artifacts}/sealed/file`, "read only", { mode: 0o400 })
  NodeChildProcess.execFileSync("mkfifo", [`${artifacts}/fifo`])
  for (const name of ["deep/er/report", "deep/er", "deep", "inside", "sealed"]) {
    NFS.lutimesSync(`${artifacts}/${name}`, 1_000_000_000.25, 1_000_000_000.25)
  }
  NFS.chmodSync(`${artifacts}/sealed`, 0o500)
}

const described = (artifacts: string) =>
  below(artifacts).map((name) => {
    const path = `${artifacts}/${name}`
    const info = NFS.lstatSync(path)
    const content = info.isFile() ? NFS.readFileSync(path, "utf8") : info.isSymbolicLink() ? NFS.readlinkSync(path) : ""
    return `${name} ${info.mode.toString(8)} ${Math.round(info.mtimeMs)} ${content}`
  })

describe("forking a run", () => {
  it.live.each(bothWays)(
    "copies names, contents, modes, links and times, and leaves FIFOs out (by %s)",
    ([_, files]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = old(root, motley)
          const before = everything(made.dir)
          const { run } = yield* fork(made.id).pipe(withFiles(files))
          const source = described(`${made.dir}/artifacts`).filter((line) => !line.startsWith("fifo "))
          assert.deepStrictEqual(described(run.paths.artifacts), source)
          // The lease of the copying came and went in `holders/`.
          const isOurs = (line: string) => !line.startsWith("holders ")
          assert.deepStrictEqual(everything(made.dir).filter(isOurs), before.filter(isOurs))
          NFS.chmodSync(`${run.paths.artifacts}/sealed`, 0o700)
          NFS.chmodSync(`${made.dir}/artifacts/sealed`, 0o700)
        })
      )
  )

  it.live.skipIf(process.platform !== "linux")(
    "takes names that are no UTF-8, and trees deeper than a path can be",
    () =>
      inStore((root) =>
        Effect.gen(function*() {
          const odd = (artifacts: string) =>
            Buffer.concat([Buffer.from(`${artifacts}/`), Buffer.from([0x66, 0xff, 0x0a])])
          const made = old(root, (artifacts) => {
            NFS.writeFileSync(odd(artifacts), "odd")
            Trees.well(`${artifacts}/well`, 3000)
          })
          const { run } = yield* Run.Run.pipe(
            Effect.map((run) => ({ run })),
            Run.scoped({ name: "fork", from: made.id, ...quiet })
          )
          assert.strictEqual(NFS.readFileSync(odd(run.paths.artifacts), "utf8"), "odd")
          const entries = (dir: string) =>
            Effect.map(DiskUsage.measure(`${dir}/artifacts`), ({ entries, unreadable }) => [entries, unreadable])
          assert.deepStrictEqual(yield* entries(run.dir), yield* entries(made.dir))
          for (const { id } of [made, run]) yield* RunRemoval.remove(id)
          assert.strictEqual((yield* TrashSweep.sweepAll(root)).left, 0)
        })
      )
  )

  it.live("starts a new run that says where it comes from, and takes over what is not given", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, (artifacts) => NFS.writeFileSync(`${artifacts}/data`, "1"))
        const command = { argv: ["make", "test"], cwd: "/src" }
        NFS.writeFileSync(`${made.dir}/run.json`, JSON.stringify({ ...recordAt(made.dir), command }))
        const { found, run } = yield* fork(made.id.slice(0, -1))
        assert.deepStrictEqual(found, ["data"])
        assert.notStrictEqual(run.id, made.id)
        const { attempts, command: taken, forkedFrom, name, parent, status, tags } = recordAt(run.dir)
        assert.deepStrictEqual([forkedFrom, name, status, parent, taken], [made.id, "fork", "ok", undefined, command])
        assert.deepStrictEqual(tags, { branch: "main" })
        assert.strictEqual(attempts.length, 1)
        const other = yield* fork("latest", { tags: { mine: "yes" }, command: { argv: ["true"], cwd: "/" } })
        assert.deepStrictEqual(recordAt(other.run.dir).tags, { mine: "yes" })
        assert.deepStrictEqual(recordAt(other.run.dir).command?.argv, ["true"])
        assert.strictEqual(recordAt(other.run.dir).forkedFrom, run.id)
      })
    ))

  it.live("inside another run has that one for parent; as a layer it does the same", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, (artifacts) => NFS.writeFileSync(`${artifacts}/data`, "1"))
        const nested = Effect.gen(function*() {
          const outer = yield* Run.Run
          const inner = yield* Effect.provide(Run.Run, Run.layerInStore({ name: "inner", from: made.id, ...quiet }))
          return [outer.id, recordAt(inner.dir).parent, recordAt(inner.dir).forkedFrom, below(inner.paths.artifacts)]
        })
        const [outer, parent, forkedFrom, found] = yield* Run.scoped({ name: "outer", ...quiet })(nested)
        assert.deepStrictEqual([parent, forkedFrom, found], [outer, made.id, ["data"]])
      })
    ))

  it.live("of a live run takes its artifacts as they are, and neither disturbs the other", () =>
    inStore(() =>
      Effect.gen(function*() {
        const copies = yield* Effect.gen(function*() {
          const owner = yield* Run.Run
          NFS.writeFileSync(yield* owner.artifact("data"), "so far")
          const { run } = yield* fork(owner.id)
          NFS.writeFileSync(yield* owner.artifact("data"), "later")
          assert.strictEqual(recordAt(owner.dir).status, "running")
          assert.strictEqual(recordAt(run.dir).status, "ok")
          return run
        }).pipe(Run.scoped({ name: "live", ...quiet }))
        assert.strictEqual(NFS.readFileSync(`${copies.paths.artifacts}/data`, "utf8"), "so far")
      })
    ))

  it.live("of a run without artifacts begins with none", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, (artifacts) => NFS.rmdirSync(artifacts))
        assert.deepStrictEqual((yield* fork(made.id)).found, [])
      })
    ))
})

describe("while it is copied", () => {
  it.live("the old run cannot be removed, and nobody sees the new one", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const made = old(root, (artifacts) => NFS.writeFileSync(`${artifacts}/data`, "1"))
        let seen: ReadonlyArray<unknown> = []
        const look = Effect.gen(function*() {
          const refused = yield* Effect.flip(RunRemoval.remove(made.id))
          const listed = yield* Stream.runCollect(store.list)
          seen = [refused.reason._tag, listed.map(({ id }) => id)]
        })
        const context = yield* Effect.context<RunStore.RunStore | Lease>()
        const looking = Effect.provideContext(Effect.orDie(look), context)
        yield* fork(made.id).pipe(watch(once((call) => call === "cloneAt", looking)))
        assert.deepStrictEqual(seen, ["Held", [made.id]])
        yield* RunRemoval.remove(made.id)
      })
    ))

  it.live("a directory that is swapped for a link leads nowhere else", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const outside = outsideOf(root)
        const made = old(root, (artifacts) => {
          NFS.mkdirSync(`${artifacts}/deep`)
          NFS.writeFileSync(`${artifacts}/file`, "1")
          NFS.writeFileSync(`${artifacts}/deep/file`, "2")
        })
        // What is listed as a file is copied before what is listed as a directory is entered.
        const swap = Effect.sync(() => {
          NFS.renameSync(`${made.dir}/artifacts/deep`, `${root}/elsewhere`)
          NFS.symlinkSync(outside, `${made.dir}/artifacts/deep`)
        })
        const { found } = yield* fork(made.id).pipe(watch(once((call) => call === "cloneAt", swap)))
        assert.deepStrictEqual(found, ["file"])
      })
    ))

  it.live("a file that is swapped for a link is not followed, and one that vanishes was not there", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const outside = outsideOf(root)
        const made = old(root, (artifacts) => {
          for (const name of ["a", "b", "c"]) NFS.writeFileSync(`${artifacts}/${name}`, name)
        })
        const others = ["a", "b", "c"].map((name) => `${made.dir}/artifacts/${name}`)
        let copied = ""
        const swap = Effect.sync(() => {
          const [first = "", second = "", third = ""] = others
          for (const path of others) NFS.rmSync(path)
          NFS.symlinkSync(`${outside}/secret`, first)
          NFS.symlinkSync(`${outside}/secret`, second)
          copied = third
        })
        // Each has been looked at as a file when it is opened.
        yield* fork(made.id).pipe(
          watch(once((call) => call === "openAt", swap)),
          Effect.map(({ run }) => {
            assert.isFalse(NFS.existsSync(`${run.paths.artifacts}/${copied.slice(-1)}`))
            for (const name of below(run.paths.artifacts)) {
              assert.isTrue(NFS.lstatSync(`${run.paths.artifacts}/${name}`).isSymbolicLink(), name)
            }
          })
        )
      })
    ))

  it.live.each(bothWays)(
    "a directory that vanishes was not there, or what was not copied yet (by %s)",
    ([_, files]) =>
      inStore((root) =>
        Effect.gen(function*() {
          for (
            const call of ["mkdirAt", "listAt", "lstatAt", "openAt", "cloneAt", "readlinkAt", "symlinkAt", "chmodAt"]
          ) {
            const made = old(root, (artifacts) => {
              NFS.mkdirSync(`${artifacts}/deep/er`, { recursive: true })
              NFS.writeFileSync(`${artifacts}/deep/er/file`, "1")
              NFS.symlinkSync("file", `${artifacts}/deep/er/link`)
              NFS.writeFileSync(`${artifacts}/file`, "2")
            })
            let isInside = false
            const isTheOne = (each: string) => {
              // The file beside it is copied before it is entered.
              isInside ||= each === "mkdirAt"
              return isInside && each === call
            }
            const vanish = Effect.sync(() => NFS.rmSync(`${made.dir}/artifacts/deep`, { recursive: true }))
            const { found } = yield* fork(made.id).pipe(watch(once(isTheOne, vanish), files))
            assert.isFalse(NFS.existsSync(`${made.dir}/artifacts/deep`), call)
            assert.deepStrictEqual(found.filter((name) => !name.startsWith("deep")), ["file"], call)
          }
        })
      )
  )

  it.live.skipIf(process.platform !== "linux")(
    "a file that is swapped for a FIFO is not waited for",
    () =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = old(root, (artifacts) => NFS.writeFileSync(`${artifacts}/file`, "1"))
          const swap = Effect.sync(() => {
            NFS.rmSync(`${made.dir}/artifacts/file`)
            NodeChildProcess.execFileSync("mkfifo", [`${made.dir}/artifacts/file`])
          })
          const { found } = yield* fork(made.id).pipe(watch(once((call) => call === "openAt", swap)))
          assert.deepStrictEqual(found, [])
        })
      )
  )

  it.live("an interruption ends it and leaves nothing", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, (artifacts) => {
          for (let index = 0; index < 200; index++) NFS.writeFileSync(`${artifacts}/${index}`, "x")
        })
        const reached = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const wait = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(goOn))
        const forking = yield* Effect.forkChild(fork(made.id).pipe(watch(once((call) => call === "cloneAt", wait))))
        yield* Deferred.await(reached)
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(forking), { startImmediately: true })
        yield* Deferred.succeed(goOn, undefined)
        yield* Fiber.join(interrupting)
        yield* isUndone(root, made)
      })
    ))
})

describe("a fork that cannot be", () => {
  it.live("of a run that is not there makes nothing, also when it goes at the last moment", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(fork("20200101T000000000Z-aaaaaaaa"))
        assert.strictEqual(error._tag === "StoreError" ? error.reason._tag : error._tag, "NoSuchRun")
        const made = old(root, () => {})
        const remove = Effect.sync(() => NFS.rmSync(made.dir, { recursive: true }))
        const isStaging = (call: string, paths: ReadonlyArray<string>) =>
          call === "mkdir" && paths.some((path) => path.endsWith("/artifacts"))
        const late = yield* Effect.flip(fork(made.id)).pipe(watch(once(isStaging, remove)))
        assert.strictEqual(late._tag === "LeaseError" ? late.reason._tag : late._tag, "RunGone")
        assert.deepStrictEqual([names(`${root}/staging`), bundles(root)], [[], []])
      })
    ))

  it.live("on a disk that is full says so, and takes away what it has", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, motley)
        let copied = 0
        const full = withFiles({
          cloneAt: (...args) => ++copied > 2 ? failing("ENOSPC", "copyfile") : node.cloneAt(...args)
        })
        const error = yield* Effect.flip(fork(made.id)).pipe(full)
        assert.strictEqual(error._tag === "StoreError" ? error.reason._tag : error._tag, "NotCopied")
        assert.match(error.message, /artifacts of \S+ could not be copied: artifacts\/.*the disk is full/)
        assert.deepStrictEqual(names(`${root}/staging`), [])
        yield* isUndone(root, made)
      })
    ))

  it.live.skipIf(!Trees.canMount)(
    "on a disk that really is full does the same",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const place = yield* Trees.place
        yield* Effect.acquireRelease(
          Effect.sync(() =>
            NodeChildProcess.execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", place.outside])
          ),
          () => Effect.sync(() => NodeChildProcess.execFileSync("umount", [place.outside]))
        )
        yield* Effect.gen(function*() {
          const { root } = yield* RunStore.RunStore
          const made = bundle(root, { startedAt: Date.now() - hour, size: 3 * 1024 * 1024 })
          const error = yield* Effect.flip(fork(made.id))
          assert.include(error.message, "artifacts/data: the disk is full")
          yield* isUndone(root, made)
        }).pipe(Effect.provide(RunStore.layer({ root: `${place.outside}/store`, allowTemp: true })))
      }))
  )

  it.live("does not look behind a link in the place of the artifacts", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const outside = outsideOf(root)
        const made = old(root, (artifacts) => {
          NFS.rmdirSync(artifacts)
          NFS.symlinkSync(outside, artifacts)
        })
        assert.match((yield* Effect.flip(fork(made.id))).message, /is not a directory/)
        yield* isUndone(root, made)
      })
    ))

  it.live("of a run whose record cannot be read is refused", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = old(root, () => {})
        NFS.writeFileSync(`${made.dir}/run.json`, "{")
        assert.include((yield* Effect.flip(fork(made.id))).message, "malformed")
        assert.deepStrictEqual(bundles(root), [made.dir])
      })
    ))
})
