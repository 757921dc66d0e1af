/**
 * What the command costs to start, beside Node that does the same without it.
 *
 * npm run build && npm run bench:startup
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { type Figure, inTurn, report, timed } from "./Table.ts"

const root = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
const command = NodePath.join(import.meta.dirname, "../dist/leasehold.js")
const store = ["--root", `${root}/store`, "--allow-temp"]

const node = (name: string, ...args: ReadonlyArray<string>): Figure<never, never> => ({
  name,
  measure: timed(Effect.sync(() => NodeChildProcess.spawnSync(process.execPath, args, { stdio: "ignore" })))
})

const spawning = "require('node:child_process').spawn('true', [], { stdio: 'inherit' }).on('exit', process.exit)"

const importing = (name: string) =>
  node(`import leasehold/${name}`, "--input-type=module", "-e", `await import("leasehold/${name}")`)

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
  const modules = ["RunId", "RunStore", "Run", "Retention", "testing"]
  report("Import", yield* inTurn([node("node", "-e", "0"), ...modules.map(importing)], 9), "node")
})

await Effect.runPromise(bench).finally(() => NFS.rmSync(root, { recursive: true, force: true }))
