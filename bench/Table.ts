/** Figures side by side: every round measures each of them once, in turn, so that a drift of the machine hits all alike. */
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodePath from "node:path"

export interface Figure<E, R> {
  readonly name: string
  /** One measurement, in milliseconds. */
  readonly measure: Effect.Effect<number, E, R>
}

export interface Row {
  readonly name: string
  readonly median: number
  readonly min: number
  readonly max: number
  /** The most memory that the process had which did only this, in MiB. */
  readonly peak?: number
}

export const rowOf = (name: string, values: ReadonlyArray<number>): Row => {
  const sorted = values.toSorted((left, right) => left - right)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { name, median: at(0.5), min: at(0), max: at(1) }
}

/** How long an effect takes, in milliseconds. */
export const timed = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.suspend(() => {
    const start = performance.now()
    return Effect.map(effect, () => performance.now() - start)
  })

export const inTurn = Effect.fnUntraced(function*<E, R>(figures: ReadonlyArray<Figure<E, R>>, rounds: number) {
  const taken = new Map<string, Array<number>>(figures.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const { measure, name } of figures) {
      const millis = yield* measure
      // The first round warms up.
      if (round > 0) taken.get(name)?.push(millis)
    }
  }
  return [...taken].map(([name, values]) => rowOf(name, values))
})

const ratioTo = (rows: ReadonlyArray<Row>, baseline: string) => {
  const base = rows.find(({ name }) => name === baseline)?.median ?? Number.NaN
  return (row: Row) => row.median / base
}

/** Prints the table and keeps it as JSON in `bench/results/`. */
export const report = (title: string, rows: ReadonlyArray<Row>, baseline: string): void => {
  const ratio = ratioTo(rows, baseline)
  const width = Math.max(...rows.map(({ name }) => name.length))
  console.log(`\n${title} (milliseconds; ratio to ${baseline})`)
  for (const row of rows) {
    const cells = [row.median, row.min, row.max].map((value) => value.toFixed(2).padStart(10)).join("")
    const peak = row.peak === undefined ? "" : `${row.peak.toFixed(0).padStart(8)} MiB`
    console.log(`${row.name.padEnd(width)}${cells}${ratio(row).toFixed(2).padStart(9)}${peak}`)
  }
  const directory = NodePath.join(import.meta.dirname, "results")
  NFS.mkdirSync(directory, { recursive: true })
  const file = NodePath.join(directory, `${title.replaceAll(/\W+/g, "-").toLowerCase()}.json`)
  const document = { title, baseline, node: process.version, rows: rows.map((row) => ({ ...row, ratio: ratio(row) })) }
  NFS.writeFileSync(file, `${JSON.stringify(document, undefined, 2)}\n`)
}
