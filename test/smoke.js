/** The built command and library on whichever Node runs this file: everything works, and nothing is said on stderr. */
import assert from "node:assert/strict"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = mkdtempSync(join(tmpdir(), "leasehold-smoke-"))
const command = join(import.meta.dirname, "../dist/leasehold.js")

const run = (expected, ...args) => {
  const end = args.indexOf("--")
  const split = end === -1 ? args.length : end
  const flags = ["--root", join(root, "store"), "--allow-temp"]
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    [command, ...args.slice(0, split), ...flags, ...args.slice(split)],
    { encoding: "utf8" }
  )
  assert.equal(status, expected, `${args.join(" ")}: ${stderr}`)
  return { stdout, stderr }
}

const quietly = (expected, ...args) => {
  const { stderr, stdout } = run(expected, ...args)
  assert.equal(stderr, "", args.join(" "))
  return stdout
}

try {
  assert.equal(quietly(0, "run", "--", "echo", "hello"), "hello\n")
  quietly(3, "run", "--name", "failing", "--", process.execPath, "-e", "process.exit(3)")
  assert.equal(JSON.parse(quietly(0, "ls", "--json")).runs.length, 2)
  assert.equal(JSON.parse(quietly(0, "show", "latest:error", "--json")).run.name, "failing")
  assert.equal(quietly(0, "logs", "latest:ok"), "hello\n")
  quietly(0, "pin", "latest:ok")
  assert.equal(JSON.parse(quietly(0, "prune", "--all", "--json")).removed.length, 1)
  const RunId = await import("leasehold/RunId")
  assert.equal(RunId.isRunId("20261130T142233123Z-k3f9x2mq"), true)
  console.log(`smoke test passed on Node ${process.version}`)
} finally {
  rmSync(root, { recursive: true, force: true })
}
