/** Stores for tests of retention, and what there is in them by the files. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import type { Lease } from "../../src/Lease.ts"
import type { Report } from "../../src/RetentionReport.ts"
import type { RunIndex } from "../../src/RunIndex.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import { bundles, names } from "./CommandLine.ts"
import type { Made } from "./Fabricate.ts"

export type World = RunStore.RunStore | Lease | RunIndex

/** In memory where the system has a place for that: whole stores are made anew again and again. */
const place = NFS.existsSync("/dev/shm") ? "/dev/shm" : "/tmp"

/** A directory that goes with the scope. */
export const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => NFS.mkdtempSync(`${place}/leasehold-test-`)),
  (path) => Effect.sync(() => NFS.rmSync(path, { recursive: true, force: true }))
)

export const withRoot = <A, E>(test: (root: string) => Effect.Effect<A, E, Scope.Scope>): Effect.Effect<A, E> =>
  Effect.scoped(Effect.flatMap(directory, (dir) => test(`${dir}/store`)))

/** Makes a store of a directory that was filled by hand, as the first run would have. */
export const makeStore = (root: string): void => {
  NFS.mkdirSync(`${root}/trash`, { recursive: true })
  NFS.chmodSync(root, 0o700)
  const format = { version: 1, id: "made-by-hand", createdAt: "2026-01-01T00:00:00.000Z" }
  NFS.writeFileSync(`${root}/store.json`, JSON.stringify(format), { mode: 0o600 })
}

/** A store with its index, as a process of its own would have it. */
export const world = (root: string): Layer.Layer<World> =>
  Layer.fresh(
    SqliteIndex.layer.pipe(Layer.provideMerge(Layer.orDie(RunStore.layer({ root, allowTemp: true }))))
  )

export const inStore = <A, E>(test: (root: string) => Effect.Effect<A, E, World | Scope.Scope>): Effect.Effect<A, E> =>
  withRoot((root) => Effect.provide(test(root), world(root)))

export const removedBy = (report: Report): Array<string> => report.removed.map(({ id }) => id)

export const ids = (made: ReadonlyArray<Made>): Array<string> => made.map(({ id }) => id)

/** The ids of all bundles, oldest first. */
export const present = (root: string): ReadonlyArray<string> =>
  bundles(root).map((dir) => dir.slice(dir.lastIndexOf("/") + 1))

/** The ids of all runs for which the archive has a file with this ending, oldest first. */
export const filed = (root: string, ending: ".tar.zst" | ".restored"): ReadonlyArray<string> =>
  [...names(`${root}/archive`)].sort().flatMap((day) =>
    [...names(`${root}/archive/${day}`)].sort().flatMap((name) =>
      name.endsWith(ending) ? [name.slice(0, -ending.length)] : []
    )
  )

/** Everything about a bundle that would show that something has been at it. */
export const traces = (dir: string): ReadonlyArray<string> =>
  NFS.readdirSync(dir, { recursive: true }).map(String).sort().map((name) => {
    const { ino, mtimeMs, size } = NFS.lstatSync(`${dir}/${name}`)
    return `${name} ${ino} ${size} ${mtimeMs}`
  })

/** What there is in every bundle. */
export const parts = ["artifacts", "holders", "lease", "logs", "run.json", "telemetry", "temp"]

/** Nothing is left on the way in or on the way out. */
export const isSwept = (root: string): void =>
  assert.deepStrictEqual([names(`${root}/staging`), names(`${root}/trash`)], [[], []])
