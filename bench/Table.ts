/**
 * Figures side by side: every round measures each of them once, in turn, so that a drift of the machine hits all alike.
 * What counts is the ratio within a round, its median and the middle half of it; absolute times are those of a day.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"

export interface Figure<E, R> {
  readonly name: string
  /** One measurement, in milliseconds. */
  readonly measure: Effect.Effect<number, E, R>
}

export interface Row {
  readonly name: string
  /** One of each round, in order. */
  readonly values: ReadonlyArray<number>
  readonly median: number
  readonly min: number
  readonly max: number
  /** The most memory that the process had which did only this, in MiB. */
  readonly peak?: number
}

const at = (values: ReadonlyArray<number>, share: number): number => {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export const rowOf = (name: string, values: ReadonlyArray<number>): Row => ({
  name,
  values,
  median: at(values, 0.5),
  min: at(values, 0),
  max: at(values, 1)
})

/** How long an effect takes, in milliseconds. */
export const timed = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const start = performance.now()
    return Effect.map(effect, () => performance.now() - start)
  })

export const inTurn = Effect.fnUntraced(function*<E, R>(figures: ReadonlyArray<Figure<E, R>>, rounds: number) {
  const taken = new Map<string, Array<number>>(figures.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    // Each as often before another as behind it.
    for (const { measure, name } of round % 2 === 0 ? figures : figures.toReversed()) {
      const millis = yield* measure
      // The first round warms up.
      if (round > 0) taken.get(name)?.push(millis)
    }
  }
  return [...taken].map(([name, values]) => rowOf(name, values))
})

/** The ratio of each round, where both took part in the same ones; else that of the medians. */
const ratiosTo = (base: Row | undefined, row: Row): ReadonlyArray<number> =>
  base === undefined || base.values.length !== row.values.length
    ? [row.median / (base?.median ?? Number.NaN)]
    : row.values.map((value, round) => value / (base.values[round] ?? Number.NaN))

const machine = {
  node: process.version,
  processors: NodeOs.availableParallelism(),
  memory: `${Math.round(NodeOs.totalmem() / 2 ** 30)} GiB`,
  fileSystem: (() => {
    try {
      return NodeChildProcess.execFileSync("df", ["--output=fstype", NodeOs.tmpdir()], { encoding: "utf8" })
        .split("\n")[1] ?? "unknown"
    } catch {
      return "unknown"
    }
  })()
}

const tables: Array<object> = []

export interface Reading {
  /** What is measured, milliseconds unless said. */
  readonly unit?: string
  /** What the ratio should not exceed, or not fall below where more is better. */
  readonly aim?: string
}

/** Prints the table, and keeps all that this bench has printed as one JSON document in `bench/results/`. */
export const report = (title: string, rows: ReadonlyArray<Row>, baseline: string, reading: Reading = {}): void => {
  const { aim, unit = "milliseconds" } = reading
  const base = rows.find(({ name }) => name === baseline)
  const width = Math.max(...rows.map(({ name }) => name.length))
  console.log(`\n${title} (${unit}; ratio to ${baseline}${aim === undefined ? "" : `, aim ${aim}`})`)
  console.log("".padEnd(width) + ["median", "min", "max", "ratio"].map((head) => head.padStart(10)).join(""))
  const told = rows.map((row) => {
    const ratios = ratiosTo(base, row)
    return { ...row, ratio: at(ratios, 0.5), ratioFrom: at(ratios, 0.25), ratioTo: at(ratios, 0.75) }
  })
  for (const { max, median, min, name, peak, ratio, ratioFrom, ratioTo } of told) {
    const cells = [median, min, max, ratio].map((value) => value.toFixed(2).padStart(10)).join("")
    const spread = `  (${ratioFrom.toFixed(2)} to ${ratioTo.toFixed(2)})`
    console.log(name.padEnd(width) + cells + spread + (peak === undefined ? "" : `${peak.toFixed(0).padStart(8)} MiB`))
  }
  tables.push({ title, unit, baseline, ...(aim === undefined ? {} : { aim }), rows: told })
  const directory = NodePath.join(import.meta.dirname, "results")
  const bench = NodePath.basename(process.argv[1] ?? "bench", ".ts")
  NFS.mkdirSync(directory, { recursive: true })
  NFS.writeFileSync(
    NodePath.join(directory, `${bench}.json`),
    `${JSON.stringify({ bench, machine, tables }, undefined, 2)}\n`
  )
}
