import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import type { RunId } from "../../src/RunId.ts"
import { json, plant, recordAt, records, shell, withRoot } from "../support/CommandLine.ts"
import { command, run } from "../support/Worker.ts"

const minute = 60_000

const idOf = (dir: string) => NodePath.basename(dir) as RunId

/** A run of a name, below another. */
const below = (root: string, ago: number, name: string, parent?: string) =>
  idOf(plant(root, ago * minute, { name, ...(parent === undefined ? {} : { parent: parent as RunId }) }))

/** The first two columns of the lines, with the name in the place of the id. */
const drawn = (stdout: string) =>
  stdout.trimEnd().split("\n").slice(1).map((line) => line.replace(/\d{8}T\d{9}Z-\w{8} +(\S+).*$/, "$1"))

const tree = (root: string, ...flags: ReadonlyArray<string>) =>
  Effect.map(run(root, ["ls", "--tree", ...flags]), ({ stdout }) => drawn(stdout))

const rewrite = (dir: string, change: object) =>
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...recordAt(dir), ...change }))

/** Three trees: one of three levels, one that is a leaf, and one whose top has gone. */
const grove = (root: string) => {
  const old = below(root, 90, "old")
  const middle = below(root, 60, "middle", old)
  const top = below(root, 50, "top")
  const orphan = below(root, 45, "orphan", "20200101T000000000Z-aaaaaaaa")
  below(root, 40, "late", old)
  below(root, 30, "deep", middle)
  below(root, 20, "deeper", middle)
  return { old, middle, top, orphan }
}

describe("ls --tree", () => {
  it.live("draws runs below their parents, newest trees first, and one whose parent has gone at the top", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        grove(root)
        assert.deepStrictEqual(yield* tree(root), [
          "orphan",
          "top",
          "old",
          "├─ late",
          "└─ middle",
          "   ├─ deeper",
          "   └─ deep"
        ])
      })
    ))

  it.live("keeps the columns in line, and shows what a flat listing shows", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        grove(root)
        const lines = (yield* run(root, ["ls", "--tree"])).stdout.trimEnd().split("\n")
        const at = lines[0]?.indexOf("NAME")
        for (const name of ["orphan", "late", "deeper"]) {
          assert.strictEqual(lines.find((line) => line.includes(name))?.indexOf(name), at)
        }
        assert.match(lines.find((line) => line.includes("deeper")) ?? "", /deeper +ok +20m ago +1s$/)
      })
    ))

  it.live("shows the ancestors of what was asked for, and no others", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        grove(root)
        assert.deepStrictEqual(yield* tree(root, "--name", "deep"), ["old", "└─ middle", "   └─ deep"])
        assert.deepStrictEqual(yield* tree(root, "--limit", "1"), ["old", "└─ middle", "   └─ deeper"])
        assert.deepStrictEqual(yield* tree(root, "--since", "35 minutes"), [
          "old",
          "└─ middle",
          "   ├─ deeper",
          "   └─ deep"
        ])
        assert.deepStrictEqual(yield* tree(root, "--name", "top"), ["top"])
        assert.match((yield* run(root, ["ls", "--tree", "--name", "nobody"])).stderr, /no runs to list/)
      })
    ))

  it.live("comes to an end where damaged records go round in circles", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dirs = [50, 40, 30].map((ago) => plant(root, ago * minute, { name: `n${ago}` }))
        const [first, second, third] = dirs.map(idOf)
        for (const [index, dir] of dirs.entries()) rewrite(dir, { parent: [third, first, second][index] })
        const own = plant(root, 20 * minute, { name: "own" })
        rewrite(own, { parent: idOf(own) })
        below(root, 10, "child", idOf(own))
        const shown = ["own", "└─ child", "n50", "└─ n40", "   └─ n30"]
        assert.deepStrictEqual(yield* tree(root), shown)
        assert.deepStrictEqual(yield* tree(root, "--name", "n40"), shown.slice(2))
      })
    ))

  it.live("gives programs the parent of each run, and under --tree its depth", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const { middle, old, orphan } = grove(root)
        const flat: ReadonlyArray<{ name: string; parent: string | null }> = (yield* json(root, ["ls"])).runs
        assert.deepStrictEqual(
          flat.map(({ name, parent }) => [name, parent]),
          [
            ["deeper", middle],
            ["deep", middle],
            ["late", old],
            ["orphan", "20200101T000000000Z-aaaaaaaa"],
            ["top", null],
            ["middle", old],
            ["old", null]
          ]
        )
        assert.isFalse(flat.some((each) => "depth" in each))
        const nested: ReadonlyArray<{ id: string; name: string; depth: number }> =
          (yield* json(root, ["ls", "--tree"])).runs
        assert.deepStrictEqual(nested.map(({ depth, name }) => `${depth} ${name}`), [
          "0 orphan",
          "0 top",
          "0 old",
          "1 late",
          "1 middle",
          "2 deeper",
          "2 deep"
        ])
        assert.strictEqual(nested[0]?.id, orphan)
      })
    ))

  it.live("shows what nested runs of real programs leave", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const inner = `'${process.execPath}' '${command}' run --retention off --allow-temp --name inner -- true`
        yield* run(root, ["run", "--retention", "off", "--name", "outer", ...shell(inner)])
        assert.strictEqual(records(root).length, 2)
        assert.deepStrictEqual(yield* tree(root), ["outer", "└─ inner"])
      })
    ))
})
