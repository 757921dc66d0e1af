/** What does not belong to a store though it can be reached through it: files with a name elsewhere, and others' bundles. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Retention from "../src/Retention.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import * as RunStore from "../src/RunStore.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { giveToNobody, isRoot } from "./fixtures/trees.ts"
import { bundles } from "./support/CommandLine.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, removedBy, traces, type World } from "./support/Stores.ts"
import { hour } from "./support/Time.ts"

const quiet = { retention: "off" } as const

type Made = ReturnType<typeof bundle>

/** All that changes a bundle, or takes it away. */
const verbs: ReadonlyArray<readonly [string, (root: string, made: Made) => Effect.Effect<unknown, unknown, World>]> = [
  ["a removal", (root, { id }) => Effect.andThen(RunRemoval.remove(id), TrashSweep.sweepAll(root))],
  ["a trim", (root, { id }) => Effect.andThen(RunTrim.trim(id), TrashSweep.sweepAll(root))],
  ["archiving and restoring", (root, { id }) =>
    Effect.gen(function*() {
      yield* RunArchive.archive(id)
      yield* TrashSweep.sweepAll(root)
      yield* RunArchive.restore(id)
    })],
  ["a resume", (_, { id }) => Effect.void.pipe(Run.resume(id, quiet))],
  ["a run that begins from it", (_, { id }) => Effect.void.pipe(Run.scoped({ name: "from", from: id, ...quiet }))],
  ["a pin", (_, { id }) => Effect.flatMap(RunStore.RunStore, (store) => store.pin(id, "keep"))]
]

describe("files that have a name in a bundle and another outside", () => {
  it.live.each(verbs)("are as they were after %s", ([_, verb]) =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = bundle(root, { startedAt: Date.now() - hour })
        const outside = `${root}-outside`
        NFS.mkdirSync(outside)
        NFS.mkdirSync(`${made.dir}/temp`)
        const places = ["temp/file", "artifacts/file", "run.json"]
        for (const place of places) {
          const path = `${outside}/${place.replace("/", "-")}`
          if (place === "run.json") NFS.copyFileSync(`${made.dir}/run.json`, path)
          else NFS.writeFileSync(path, place)
          NFS.chmodSync(path, 0o444)
          NFS.utimesSync(path, 1_600_000_000, 1_600_000_000)
          NFS.rmSync(`${made.dir}/${place}`, { force: true })
          NFS.linkSync(path, `${made.dir}/${place}`)
        }
        const what = () =>
          NFS.readdirSync(outside).map((name) => {
            const { ino, mode, mtimeMs, size } = NFS.statSync(`${outside}/${name}`)
            return [name, ino, mode, mtimeMs, size, NFS.readFileSync(`${outside}/${name}`, "utf8")]
          })
        const before = what()
        yield* verb(root, made)
        assert.deepStrictEqual(what(), before)
      })
    ))
})

describe("a bundle of another user", () => {
  it.live.skipIf(!isRoot)(
    "is kept as unknown, and nothing in it is touched",
    () =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = bundle(root, { startedAt: Date.now() - hour, status: "running" })
          for (const name of ["", ...NFS.readdirSync(dir)]) giveToNobody(`${dir}/${name}`)
          const before = traces(dir)
          const report = yield* Retention.run({ policy: { all: true } })
          assert.deepStrictEqual([removedBy(report), report.recovered, report.kept], [[], [], { unknown: 1 }])
          const refused = yield* Effect.flip(RunRemoval.remove(id))
          assert.include(refused.message, "belongs to another user")
          assert.deepStrictEqual([traces(dir), bundles(root)], [before, [dir]])
        })
      )
  )
})
