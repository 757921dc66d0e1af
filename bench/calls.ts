/**
 * Which system calls a run makes from its start to its end, and how many of each, beside those by hand.
 *
 * npm run build && npm run bench:calls -- 200   (runs; needs strace)
 *
 * Two processes that make a different number of runs are counted, and what they have in common is left out: the start
 * of node. Calls of node and its threads among themselves are not shown; what they do to the disk is.
 */
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import { byHand, ours } from "./Lifecycles.ts"
import { report, rowOf } from "./Table.ts"

const ways = ["by hand", "a run", "a run with telemetry"] as const

type Way = typeof ways[number]

const toTheDisk = [
  "openat",
  "close",
  "statx",
  "fcntl",
  "mkdir",
  "read",
  "write",
  "rename",
  "unlink",
  "fsync",
  "getdents64"
]

const act = async (way: string, root: string, count: number): Promise<void> => {
  const options = { telemetry: way === "a run with telemetry", fsync: true }
  const batch = way === "by hand" ? byHand(root, options) : await ours(root, options)
  for (let done = 0; done < count; done++) await batch(1)
}

/** Only calls on what lies in the store, by the paths that strace has for descriptors. */
const count = (way: Way, base: string, runs: number): Map<string, number> => {
  const log = `${base}/log`
  const root = `${base}/store`
  const args = ["-f", "-y", "-s", "300", "-o", log, "-e", `trace=${toTheDisk.join()}`]
  NodeChildProcess.execFileSync("strace", [
    ...args,
    process.execPath,
    import.meta.filename,
    "act",
    way,
    root,
    String(runs)
  ])
  const counts = new Map<string, number>()
  for (const line of NFS.readFileSync(log, "utf8").split("\n")) {
    const name = /^\d+ +([a-z0-9]+)\(/.exec(line)?.[1]
    if (name !== undefined && line.includes(root)) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  NFS.rmSync(root, { recursive: true })
  return counts
}

const measure = (runs: number): void => {
  const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
  try {
    const perRun = new Map(ways.map((way) => {
      const [few, many] = [count(way, base, 10), count(way, base, 10 + runs)]
      return [way, (name: string) => ((many.get(name) ?? 0) - (few.get(name) ?? 0)) / runs]
    }))
    const sums = ways.map((way) => {
      const of = perRun.get(way)!
      console.log(`${way}: ${toTheDisk.map((name) => `${of(name).toFixed(1)} ${name}`).join(", ")}`)
      return rowOf(way, [toTheDisk.reduce((sum, name) => sum + of(name), 0)])
    })
    report("System calls of a run", sums, "by hand", { unit: "calls on the store" })
  } finally {
    NFS.rmSync(base, { recursive: true, force: true })
  }
}

const [first = "200", way = "", root = "", runs = ""] = process.argv.slice(2)
if (first === "act") await act(way, root, Number(runs))
else measure(Number(first))
