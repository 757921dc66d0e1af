/** A store of its own for each test of a pass. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import type { Lease } from "../../src/Lease.ts"
import * as Retention from "../../src/Retention.ts"
import type { PolicyInput } from "../../src/RetentionPolicy.ts"
import type { Report } from "../../src/RetentionReport.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import type { RunIndex } from "../../src/RunIndex.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import * as TestLayers from "../../src/testing/TestLayers.ts"
import { bundle, type Made, type Spec } from "./Fabricate.ts"
import { day } from "./Time.ts"

type World = RunStore.RunStore | Lease | RunIndex

const layers = SqliteIndex.layer.pipe(Layer.provideMerge(TestLayers.layerStore))

export const inStore = <A, E>(test: (root: string, now: number) => Effect.Effect<A, E, World>) =>
  Effect.gen(function*() {
    const store = yield* RunStore.RunStore
    return yield* test(store.root, yield* Clock.currentTimeMillis)
  }).pipe(Effect.provide(layers))

export const ids = (bundles: ReadonlyArray<Made>) => bundles.map(({ id }) => id)

export const prune = (policy: PolicyInput, more: Partial<Retention.Options> = {}) => Retention.run({ policy, ...more })

/** Why a pass left what it left, and how often. */
export const reasons = (report: Report) => report.debt?.reasons ?? {}

/** The archived runs, newest first. */
export const listed = Effect.map(Stream.runCollect(RunArchive.list), (entries) => entries.map(({ id }) => id))

/** A finished bundle of some days ago with a file in `temp` and random bytes elsewhere, so that sizes mean something. */
export const aged = (root: string, now: number, daysAgo: number, spec: Partial<Spec> = {}): Made => {
  const made = bundle(root, { startedAt: now - daysAgo * day, size: 1000, ...spec })
  NFS.mkdirSync(`${made.dir}/temp`)
  NFS.writeFileSync(`${made.dir}/temp/0`, "x".repeat(4096))
  return made
}
