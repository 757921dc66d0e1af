/**
 * What it costs to delete what lies in the trash, beside `rm -rf` on equal trees: many small files, bundles as programs
 * leave them, and few large files.
 *
 * npm run build && npm run bench:delete -- 20000 2000 4 256 5   (small files, bundles, large files, MiB of each, rounds)
 *
 * All trees of a round are made before it begins, so that nobody makes anything while others delete, and the disk is
 * quiet. Each has its turn first as often as last. Ours is timed in a process of its own, as it is shipped, with its
 * start-up left out; rm from its start to its end. `TMPDIR` says on which file system.
 */
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { bundle } from "../test/support/Fabricate.ts"
import { report, rowOf } from "./Table.ts"

const doOnly = `
  import * as Effect from "effect/Effect"
  import * as TrashSweep from "leasehold/TrashSweep"
  const start = performance.now()
  const { failures, finished, left } = await Effect.runPromise(
    TrashSweep.sweep(process.argv[1], { maxUnlinked: Number.POSITIVE_INFINITY })
  )
  if (!finished || left > 0 || failures > 0) process.exit(1)
  console.log(performance.now() - start)
`

const ours = (root: string): number => {
  const { status, stdout } = NodeChildProcess.spawnSync(process.execPath, ["--input-type=module", "-e", doOnly, root], {
    cwd: NodePath.join(import.meta.dirname, ".."),
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(`a sweep ended with ${status}`)
  return Number(stdout)
}

const theirs = (root: string): number => {
  const start = performance.now()
  NodeChildProcess.execFileSync("rm", ["-rf", `${root}/trash`])
  return performance.now() - start
}

// == trees

const fillSmall = (trash: string, count: number): void => {
  for (let index = 0; index < count; index++) {
    const below = `${trash}/entry/${Math.floor(index / 200)}`
    if (index % 200 === 0) NFS.mkdirSync(below, { recursive: true })
    NFS.writeFileSync(`${below}/file-${index}.txt`, Buffer.alloc(index * 37 % 2000))
  }
}

const fillBundles = (trash: string, count: number): void => {
  for (let index = 0; index < count; index++) {
    const { dir, id } = bundle(trash, { startedAt: Date.now() - index * 1000, size: 1000 })
    for (const part of ["logs", "telemetry", "temp"]) NFS.mkdirSync(`${dir}/${part}`)
    for (const log of ["stdout.log", "stderr.log"]) NFS.writeFileSync(`${dir}/logs/${log}`, "done\n")
    NFS.renameSync(dir, `${trash}/${id}-made00`)
  }
  NFS.rmSync(`${trash}/runs`, { recursive: true })
}

const fillLarge = (trash: string, count: number, size: number): void => {
  const block = Buffer.alloc(4 * 1024 * 1024, 1)
  NFS.mkdirSync(`${trash}/entry`)
  for (let index = 0; index < count; index++) {
    const fd = NFS.openSync(`${trash}/entry/${index}`, "w")
    for (let written = 0; written < size; written += 4) NFS.writeSync(fd, block)
    NFS.closeSync(fd)
  }
}

// == rounds

const measure = (name: string, fill: (trash: string) => void, base: string, rounds: number): void => {
  const taken: Record<"sweep" | "rm -rf", Array<number>> = { "rm -rf": [], sweep: [] }
  for (let round = 0; round <= rounds; round++) {
    const turns = round % 2 === 0 ? ["sweep", "rm -rf"] as const : ["rm -rf", "sweep"] as const
    const roots = turns.map((turn, index) => {
      const root = `${base}/${name.replaceAll(" ", "-")}-${round}-${index}`
      NFS.mkdirSync(`${root}/trash`, { recursive: true })
      fill(`${root}/trash`)
      return { turn, root }
    })
    for (const { root, turn } of roots) {
      NodeChildProcess.execFileSync("sync", ["-f", root])
      const millis = turn === "sweep" ? ours(root) : theirs(root)
      // The first round warms up.
      if (round > 0) taken[turn].push(millis)
    }
  }
  const rows = Object.entries(taken).map(([turn, values]) => rowOf(turn, values))
  report(`Delete ${name}`, rows, "rm -rf", { aim: "1.3" })
}

const [small = 20_000, bundles = 2000, large = 4, size = 256, rounds = 5] = process.argv.slice(2).map(Number)
const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
try {
  measure(`${small} small files`, (trash) => fillSmall(trash, small), base, rounds)
  measure(`${bundles} bundles`, (trash) => fillBundles(trash, bundles), base, rounds)
  measure(`${large} files of ${size} MiB`, (trash) => fillLarge(trash, large, size), base, rounds)
} finally {
  NFS.rmSync(base, { recursive: true, force: true })
}
