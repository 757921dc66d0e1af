/** What is done while calls are made to fail, or the process to end: ordinary work, each with what it has to come to. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as NFS from "node:fs"
import * as Child from "../../src/Child.ts"
import type { Lease } from "../../src/Lease.ts"
import * as Retention from "../../src/Retention.ts"
import * as Run from "../../src/Run.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import * as RunId from "../../src/RunId.ts"
import type { RunIndex } from "../../src/RunIndex.ts"
import * as RunRemoval from "../../src/RunRemoval.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as RunTrim from "../../src/RunTrim.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import type { StoreError } from "../../src/StoreError.ts"
import * as TrashSweep from "../../src/TrashSweep.ts"
import { bundle, type Made } from "../support/Fabricate.ts"

export type World = RunStore.RunStore | Lease | RunIndex

/** A store as the scenarios have it. What it would log is not asked for. */
export const world = (root: string): Layer.Layer<World, StoreError> =>
  Layer.mergeAll(
    SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true }))),
    Logger.layer([])
  )

export interface Scenario {
  /** Makes what is there before, the same each time. */
  readonly prepare: (root: string) => Effect.Effect<ReadonlyArray<Made>, unknown, World>
  readonly act: (made: ReadonlyArray<Made>) => Effect.Effect<unknown, unknown, World>
  /** What is wrong with the store after it said that it had done what it was to do. */
  readonly missing: (root: string, made: ReadonlyArray<Made>) => string | undefined
}

const hour = 3_600_000

/** The time of everything that was there before. */
const then = Date.parse("2026-11-01T12:00:00Z")

const ended = (root: string, nth = 0, status: "ok" | "running" = "ok") =>
  Effect.sync(() => {
    const made = bundle(root, { startedAt: then + nth * hour, status, size: 5000 })
    NFS.mkdirSync(`${made.dir}/temp/deep`, { recursive: true })
    NFS.writeFileSync(`${made.dir}/temp/deep/scratch`, "scratch")
    NFS.writeFileSync(`${made.dir}/temp/more`, "more")
    return made
  })

const quiet = { retention: "off" } as const

const recordIn = (dir: string): unknown => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

const statuses = (root: string): ReadonlyArray<string> =>
  NFS.globSync(`${root}/runs/*/*/run.json`).map((path) => {
    const { status } = JSON.parse(NFS.readFileSync(path, "utf8")) as { readonly status: string }
    return status
  }).sort()

const has = (record: unknown, key: string) => typeof record === "object" && record !== null && key in record

const nothing = () => Effect.succeed<ReadonlyArray<Made>>([])

const firstOf = (made: ReadonlyArray<Made>) => made[0]!

const unless = (holds: boolean, what: string) => holds ? undefined : what

export const scenarios: Readonly<Record<string, Scenario>> = {
  "a run": {
    prepare: nothing,
    act: () => Effect.flatMap(Run.Run, (run) => run.artifact("report")).pipe(Run.scoped({ name: "job", ...quiet })),
    missing: (root) => unless(statuses(root).join() === "ok", `the records say ${statuses(root)}`)
  },
  "a run with a hook and a child": {
    prepare: nothing,
    act: () =>
      Effect.addFinalizer(() => Effect.ignore(Child.run({ argv: ["true"], output: "keep" }))).pipe(
        Effect.andThen(Child.run({ argv: ["true"], output: "keep" })),
        Run.scoped({ name: "job", ...quiet })
      ),
    missing: (root) => unless(statuses(root).join() === "ok", `the records say ${statuses(root)}`)
  },
  "a pass": {
    prepare: (root) =>
      Effect.all([ended(root), ended(root, 1, "running"), ended(root, 2), ended(root, 3, "running"), ended(root, 4)]),
    act: () => Retention.run({ policy: { maxBundles: 2 } }),
    missing: () => undefined
  },
  "a pin": {
    prepare: (root) => Effect.all([ended(root)]),
    act: (made) => Effect.flatMap(RunStore.RunStore, (store) => store.pin(firstOf(made).id, "keep")),
    missing: (_, made) => unless(has(recordIn(firstOf(made).dir), "pin"), "there is no pin")
  },
  "a resume": {
    prepare: (root) => Effect.all([ended(root, 0, "running")]),
    act: (made) => Effect.void.pipe(Run.resume(firstOf(made).id, quiet)),
    missing: (root) => unless(statuses(root).join() === "ok", `the records say ${statuses(root)}`)
  },
  "a trim": {
    prepare: (root) => Effect.all([ended(root)]),
    act: (made) => RunTrim.trim(firstOf(made).id),
    missing: (_, made) => unless(NFS.readdirSync(`${firstOf(made).dir}/temp`).length === 0, "temp is not empty")
  },
  "an archiving": {
    prepare: (root) => Effect.all([ended(root)]),
    act: (made) => RunArchive.archive(firstOf(made).id),
    missing: (root, made) => {
      const { dir, id } = firstOf(made)
      const archive = `${root}/archive/${RunId.day(id)}/${id}.tar.zst`
      return unless(NFS.existsSync(archive) && !NFS.existsSync(dir), "it is not in the archive alone")
    }
  },
  "a restoring": {
    prepare: (root) =>
      Effect.flatMap(
        ended(root),
        (made) => Effect.as(Effect.andThen(RunArchive.archive(made.id), TrashSweep.sweepAll(root)), [made])
      ),
    act: (made) => RunArchive.restore(firstOf(made).id),
    missing: (root, made) => {
      const { dir, id } = firstOf(made)
      return unless(
        NFS.existsSync(`${dir}/artifacts/data`) && NFS.existsSync(`${dir}/temp/deep/scratch`),
        `${id} is not whole in ${root}`
      )
    }
  },
  "a removal": {
    prepare: (root) => Effect.all([ended(root)]),
    act: (made) => RunRemoval.remove(firstOf(made).id),
    missing: (_, made) => unless(!NFS.existsSync(firstOf(made).dir), "it is still there")
  },
  "a new index": {
    prepare: (root) => Effect.all([ended(root), ended(root, 1), ended(root, 2)]),
    act: () => Retention.run({ policy: { maxBundles: 100 } }),
    missing: (root) => unless(statuses(root).length === 3, "bundles have gone")
  }
}
