/** A store of its own for each test of a pass. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Lease } from "../../src/Lease.ts"
import * as Retention from "../../src/Retention.ts"
import type { PolicyInput } from "../../src/RetentionPolicy.ts"
import type { RunIndex } from "../../src/RunIndex.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import * as TestLayers from "../../src/testing/TestLayers.ts"
import type { Made } from "./Fabricate.ts"

type World = RunStore.RunStore | Lease | RunIndex

const layers = SqliteIndex.layer.pipe(Layer.provideMerge(TestLayers.layerStore))

export const inStore = <A, E>(test: (root: string, now: number) => Effect.Effect<A, E, World>) =>
  Effect.gen(function*() {
    const store = yield* RunStore.RunStore
    return yield* test(store.root, yield* Clock.currentTimeMillis)
  }).pipe(Effect.provide(layers))

export const ids = (bundles: ReadonlyArray<Made>) => bundles.map(({ id }) => id)

export const prune = (policy: PolicyInput, more: Partial<Retention.Options> = {}) => Retention.run({ policy, ...more })
