/**
 * What the command costs to start, beside Node that does the same without it, and what a listing of the newest runs costs
 * in a small store and in a large one.
 *
 * npm run build && npm run bench:startup
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import * as RunStore from "../src/RunStore.ts"
import { series } from "../test/support/Fabricate.ts"
import { day, minute } from "../test/support/Time.ts"
import { type Figure, inTurn, report, timed } from "./Table.ts"

const root = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
const command = NodePath.join(import.meta.dirname, "../dist/leasehold.js")
const storeAt = (path: string) => ["--root", path, "--allow-temp"]
const store = storeAt(`${root}/store`)

const node = (name: string, ...args: ReadonlyArray<string>): Figure<never, never> => ({
  name,
  measure: timed(Effect.sync(() => NodeChildProcess.spawnSync(process.execPath, args, { stdio: "ignore" })))
})

const spawning = "require('node:child_process').spawn('true', [], { stdio: 'inherit' }).on('exit', process.exit)"

/** As `exports` has them. */
const modules = [
  ...NFS.readdirSync(`${import.meta.dirname}/../src`).filter((name) => name.endsWith(".ts") && name !== "RunMain.ts")
    .map(
      (name) => name.slice(0, -3)
    ),
  "testing"
]

const importing = (name: string) =>
  node(`import leasehold/${name}`, "--input-type=module", "-e", `await import("leasehold/${name}")`)

/** A store of so many runs, three hundred a day. */
const fill = Effect.fnUntraced(function*(size: number) {
  const path = `${root}/${size}`
  yield* Effect.provide(Effect.void, RunStore.layer({ root: path, allowTemp: true }))
  const now = Date.now()
  for (let made = 0, ago = 2; made < size; ago++) {
    const count = Math.min(300, size - made)
    series(path, count, now - ago * day + count * minute / 2)
    made += count
  }
  return node(`leasehold ls, the newest 20 of ${size}`, command, "ls", ...storeAt(path))
})

const bench = Effect.gen(function*() {
  const figures = [
    node("node", "-e", "0"),
    node("node spawning true", "-e", spawning),
    node("leasehold --version", command, "--version"),
    node("leasehold ls", command, "ls", ...store),
    node("leasehold run -- true", command, "run", ...store, "--", "true"),
    node("leasehold run --retention off -- true", command, "run", "--retention", "off", ...store, "--", "true")
  ]
  report("Start-up", yield* inTurn(figures, 15), "node spawning true")
  const listings = [yield* fill(20), yield* fill(10_000)]
  report("Listing", yield* inTurn(listings, 11), "leasehold ls, the newest 20 of 20")
  report("Import", yield* inTurn([node("node", "-e", "0"), ...modules.map(importing)], 5), "node")
})

await Effect.runPromise(bench).finally(() => NFS.rmSync(root, { recursive: true, force: true }))
