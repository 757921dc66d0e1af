/**
 * What it costs to archive a bundle (with reading back and flushing) and to restore it, beside the system's `tar --zstd`
 * (which does neither) on a twin of the same tree: one bundle of many small files, one of a file of 64 MiB, and one of a
 * large file.
 *
 * npm run build && npm run bench:archive -- 10000 1024 3   (small files, MiB of the large one, rounds)
 *
 * In each round both have their turn, each time in the other order, and the disk is quiet when either begins. Ours is
 * timed inside a process of its own that does only this, tar from its start to its end, once with a flush of all it has
 * made (`+ sync`). Peaks are what the kernel says of that process; of tar and its compressor together. What comes back
 * is compared with what went in, names, modes, times and hashes: the bench fails if anything differs.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import type { RunId } from "../src/RunId.ts"
import * as RunStore from "../src/RunStore.ts"
import { bundle } from "../test/support/Fabricate.ts"
import { below } from "../test/support/Snapshot.ts"
import { day } from "../test/support/Time.ts"
import { report, type Row, rowOf } from "./Table.ts"

interface Taken {
  readonly millis: number
  /** In MiB. */
  readonly peak: number
}

const mebi = 1024 * 1024

const peakIn = (status: string): number => Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024

const peakOf = (pid: number): number => {
  try {
    return peakIn(NFS.readFileSync(`/proc/${pid}/status`, "utf8"))
  } catch {
    return 0
  }
}

// == ours, in a process that does only this, with the library as it is shipped

const doOnly = `
  import * as Effect from "effect/Effect"
  import * as RunArchive from "leasehold/RunArchive"
  import * as RunStore from "leasehold/RunStore"
  import * as NFS from "node:fs"
  const [verb, root, id] = process.argv.slice(1)
  const timed = Effect.gen(function*() {
    const start = performance.now()
    yield* RunArchive[verb](id)
    return performance.now() - start
  })
  const millis = await Effect.runPromise(Effect.provide(timed, RunStore.layer({ root, allowTemp: true })))
  console.log(JSON.stringify({ millis, status: NFS.readFileSync("/proc/self/status", "utf8") }))
`

const ours = (verb: "archive" | "restore", root: string, id: RunId): Taken => {
  const args = ["--input-type=module", "-e", doOnly, verb, root, id]
  const { status, stdout } = NodeChildProcess.spawnSync(process.execPath, args, {
    cwd: NodePath.join(import.meta.dirname, ".."),
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(`${verb} ended with ${status}`)
  const said = JSON.parse(stdout)
  return { millis: said.millis, peak: peakIn(said.status) }
}

// == the other one

const childrenOf = (pid: number): ReadonlyArray<number> => {
  try {
    return NFS.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number)
  } catch {
    return []
  }
}

const run = (command: string, ...args: ReadonlyArray<string>): Promise<Taken> =>
  new Promise((resolve, reject) => {
    const start = performance.now()
    const child = NodeChildProcess.spawn(command, args, { stdio: ["ignore", "ignore", "inherit"] })
    // A peak only grows, so the last look is as good as the end.
    const peaks = new Map<number, number>()
    const sample = () => {
      const pid = child.pid ?? 0
      for (const one of [pid, ...childrenOf(pid)]) peaks.set(one, Math.max(peaks.get(one) ?? 0, peakOf(one)))
    }
    const timer = setInterval(sample, 10)
    child.on("exit", (code) => {
      const millis = performance.now() - start
      clearInterval(timer)
      if (code === 0) resolve({ millis, peak: [...peaks.values()].reduce((sum, peak) => sum + peak, 0) })
      else reject(new Error(`${command} ended with ${code}`))
    })
  })

const followedBy = async (first: Promise<Taken>, command: string, ...args: ReadonlyArray<string>) => {
  const taken = await first
  const { millis } = await run(command, ...args)
  return { plain: taken, synced: { ...taken, millis: taken.millis + millis } }
}

// == trees

/** Lines as logs have them, with something in each that nobody could guess. */
const textOf = (bytes: number, seed: string): Buffer => {
  const lines: Array<string> = []
  for (let length = 0, index = 0; length < bytes; index++) {
    const salt = NodeCrypto.createHash("sha1").update(`${seed}${index}`).digest("hex").slice(0, 12)
    const line = `2026-11-30T14:22:33.${String(index).padStart(9, "0")}Z info worker ${salt} has done a step\n`
    lines.push(line)
    length += line.length
  }
  return Buffer.from(lines.join("")).subarray(0, bytes)
}

const fillSmall = (dir: string, count: number): void => {
  for (let index = 0; index < count; index++) {
    const below = `${dir}/artifacts/${String(Math.floor(index / 200)).padStart(5, "0")}`
    if (index % 200 === 0) NFS.mkdirSync(below, { recursive: true })
    NFS.writeFileSync(`${below}/file-${index}.txt`, textOf(index * 37 % 2000, `${index}-`))
  }
}

const fillLarge = (dir: string, size: number): void => {
  const block = textOf(32 * mebi, "large")
  const fd = NFS.openSync(`${dir}/artifacts/large.log`, "w")
  for (let left = size * mebi; left > 0; left -= block.length) NFS.writeSync(fd, block.subarray(0, left))
  NFS.closeSync(fd)
}

const hashOf = (path: string): string => {
  const hash = NodeCrypto.createHash("sha256")
  const fd = NFS.openSync(path, "r")
  const piece = Buffer.allocUnsafe(4 * mebi)
  for (let count = NFS.readSync(fd, piece); count > 0; count = NFS.readSync(fd, piece)) {
    hash.update(piece.subarray(0, count))
  }
  NFS.closeSync(fd)
  return hash.digest("hex")
}

interface Tree {
  /** Of names, modes and contents. */
  readonly hash: string
  readonly times: ReadonlyArray<bigint>
}

/** Everything in a tree but the lease. */
const look = (dir: string): Tree => {
  const hash = NodeCrypto.createHash("sha256")
  const times: Array<bigint> = []
  for (const name of below(dir)) {
    if (name === "lease" || name.split("/")[0] === "holders") continue
    const info = NFS.lstatSync(`${dir}/${name}`, { bigint: true })
    hash.update(`${name} ${info.mode} ${info.isFile() ? hashOf(`${dir}/${name}`) : ""}\n`)
    times.push(info.mtimeNs)
  }
  return { hash: hash.digest("hex"), times }
}

/** Times come back as exactly as node can set them. */
const isSame = (left: Tree, right: Tree): boolean =>
  left.hash === right.hash &&
  left.times.every((time, index) => {
    const apart = time - (right.times[index] ?? 0n)
    return apart < 1000n && apart > -1000n
  })

// == rounds

interface Case {
  readonly name: string
  /** Then what is left of a round goes at once; of many files at the end, since for minutes ext4 makes new ones slowly. */
  readonly isLarge: boolean
  readonly fill: (dir: string) => void
}

const measure = async ({ fill, isLarge, name }: Case, base: string, rounds: number): Promise<void> => {
  const root = `${base}/store`
  const twin = `${base}/twin`
  const packed = `${base}/twin.tar.zst`
  await Effect.runPromise(Effect.provide(Effect.void, RunStore.layer({ root, allowTemp: true })))
  const { dir, id } = bundle(root, { startedAt: Date.now() - day })
  fill(dir)
  NodeChildProcess.execFileSync("cp", ["-a", dir, twin])
  const expected = look(dir)

  const taken = new Map<string, Array<Taken>>()
  const keep = (row: string, one: Taken) => taken.set(row, [...taken.get(row) ?? [], one])
  const inTurn = async (ourTurn: () => Promise<void>, theirTurn: () => Promise<void>, round: number) => {
    for (const turn of round % 2 === 0 ? [ourTurn, theirTurn] : [theirTurn, ourTurn]) {
      NodeChildProcess.execFileSync("sync")
      await turn()
    }
  }
  const keepTheirs = (verb: string, { plain, synced }: { readonly plain: Taken; readonly synced: Taken }) => {
    keep(`tar --zstd ${verb}`, plain)
    keep(`tar --zstd ${verb} + sync`, synced)
  }
  for (let round = 0; round < rounds; round++) {
    const unpacked = `${base}/unpacked-${round}`
    await inTurn(
      async () => void keep("archive", ours("archive", root, id)),
      async () =>
        keepTheirs(
          "create",
          await followedBy(run("tar", "--zstd", "-cf", packed, "-C", twin, "."), "sync", packed)
        ),
      round
    )
    await inTurn(
      async () => void keep("restore", ours("restore", root, id)),
      async () => {
        NFS.mkdirSync(unpacked)
        keepTheirs(
          "extract",
          await followedBy(run("tar", "--zstd", "-xf", packed, "-C", unpacked), "sync", "-f", base)
        )
      },
      round
    )
    if (!isSame(look(dir), expected)) throw new Error(`${name}: what came back is not what went in`)
    if (isLarge) { for (const left of [unpacked, `${root}/trash`]) NFS.rmSync(left, { recursive: true }) }
  }

  const rows = [...taken].map(([row, all]): Row => ({
    ...rowOf(row, all.map(({ millis }) => millis)),
    peak: Math.max(...all.map(({ peak }) => peak))
  })).toSorted((left, right) => Number(right.name.startsWith("tar")) - Number(left.name.startsWith("tar")))
  const of = (...verbs: ReadonlyArray<string>) => rows.filter((row) => verbs.some((verb) => row.name.includes(verb)))
  report(`Archive ${name}`, of("archive", "create"), "tar --zstd create")
  report(`Restore ${name}`, of("restore", "extract"), "tar --zstd extract")
}

const bench = async (): Promise<void> => {
  const [small = 10_000, large = 1024, rounds = 3] = process.argv.slice(2).map(Number)
  const cases: ReadonlyArray<Case> = [
    { name: `${small} small files`, isLarge: false, fill: (dir) => fillSmall(dir, small) },
    { name: "one file of 64 MiB", isLarge: true, fill: (dir) => fillLarge(dir, 64) },
    { name: `one file of ${large} MiB`, isLarge: true, fill: (dir) => fillLarge(dir, large) }
  ]
  const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
  try {
    for (const [index, one] of cases.entries()) {
      NFS.mkdirSync(`${base}/${index}`)
      await measure(one, `${base}/${index}`, rounds)
    }
  } finally {
    NFS.rmSync(base, { recursive: true, force: true })
  }
}

await bench()
