/** Bundles to be trimmed, in a store of their own. */
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Lease } from "../../src/Lease.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as TestLayers from "../../src/testing/TestLayers.ts"
import { bundle, type Spec } from "./Fabricate.ts"
import { hour } from "./Time.ts"

export type Store = RunStore.RunStore["Service"]

export const inStore = <A, E>(test: (store: Store) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Effect.flatMap(RunStore.RunStore, test).pipe(Effect.provide(TestLayers.layerStore))

export const trash = (root: string) => NFS.readdirSync(`${root}/trash`).map((name) => `${root}/trash/${name}`)

/** Why nothing came of it. */
export const refusal = <A, E extends { readonly reason: { readonly _tag: string }; readonly message: string }, R>(
  trim: Effect.Effect<A, E, R>
) => Effect.map(Effect.flip(trim), (error) => `${error.reason._tag}: ${error.message}`)

/** A finished bundle with so many files of a block in `temp`. */
export const filled = ({ root }: Store, files: number, spec: Partial<Spec> = {}) => {
  const made = bundle(root, { startedAt: Date.now() - hour, ...spec })
  NFS.mkdirSync(`${made.dir}/temp`)
  for (let nth = 0; nth < files; nth++) NFS.writeFileSync(`${made.dir}/temp/${nth}`, "x".repeat(4096))
  return made
}
