/**
 * The most memory that a pass and `ls` take in a store of many bundles, beside one of twenty.
 *
 * npm run build && npm run bench:memory -- 1000000 5   (bundles, rounds; LEASEHOLD_BENCH_STORES=<directory> keeps the store)
 *
 * Each has a process of its own, as it is shipped, and the kernel says what it took at most. `removing` goes through a
 * pass that takes ten bundles away; the store gets ten others for each.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { series } from "../test/support/Fabricate.ts"
import { day, hour } from "../test/support/Time.ts"
import { clear, make, wide } from "./Stores.ts"
import { report, rowOf } from "./Table.ts"

const home = NodePath.join(import.meta.dirname, "..")

const passOnly = `
  import * as Effect from "effect/Effect"
  import * as Layer from "effect/Layer"
  import * as Retention from "leasehold/Retention"
  import * as RunStore from "leasehold/RunStore"
  import * as SqliteIndex from "leasehold/SqliteIndex"
  const [root, policy] = process.argv.slice(1)
  const layer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true })))
  await Effect.runPromise(Effect.provide(Retention.run({ policy: JSON.parse(policy) }), layer))
`

/** At its end a process writes down what the kernel says of it. */
const telling = (file: string) => {
  const script = `import * as NFS from "node:fs"
    process.on("exit", () => NFS.writeFileSync(${JSON.stringify(file)}, NFS.readFileSync("/proc/self/status")))`
  return `data:text/javascript,${encodeURIComponent(script)}`
}

/** In MiB. */
const peakOf = (root: string, ...args: ReadonlyArray<string>): number => {
  const file = `${root}.status`
  const ended = NodeChildProcess.spawnSync(process.execPath, ["--import", telling(file), ...args], {
    cwd: home,
    stdio: ["ignore", "ignore", "inherit"]
  })
  if (ended.status !== 0) throw new Error(`${args.join(" ")} ended with ${ended.status}`)
  const status = NFS.readFileSync(file, "utf8")
  NFS.rmSync(file)
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) / 1024
}

const pass = (root: string, policy: object) =>
  peakOf(root, "--input-type=module", "-e", passOnly, root, JSON.stringify(policy))

const works: Record<string, (root: string, size: number) => number> = {
  "a steady pass": (root) => pass(root, wide),
  "a pass removing 10": (root) => {
    series(root, 10, Math.floor(Date.now() / day) * day - 3000 * day + 23 * hour)
    return pass(root, { maxAge: "2500 days" })
  },
  "ls": (root) => peakOf(root, "dist/leasehold.js", "ls", "--root", root, "--allow-temp")
}

const [size = 100_000, rounds = 5] = process.argv.slice(2).map(Number)
try {
  const few = await Effect.runPromise(make(20))
  const many = await Effect.runPromise(make(size))
  for (const [name, work] of Object.entries(works)) {
    const taken: Record<string, Array<number>> = { [`${name} at 20`]: [], [`${name} at ${size}`]: [] }
    for (let round = 0; round < rounds; round++) {
      taken[`${name} at 20`]?.push(work(few, 20))
      taken[`${name} at ${size}`]?.push(work(many, size))
    }
    const rows = Object.entries(taken).map(([row, values]) => rowOf(row, values))
    report(`Memory of ${name}`, rows, `${name} at 20`, { unit: "MiB at most", aim: "1.5" })
  }
} finally {
  clear()
}
