/**
 * What the start and the end of a run cost in one process, with an empty program, beside a script that makes by hand
 * the system calls that the design asks for and no others (`Lifecycles.ts`).
 *
 * npm run build && npm run bench:lifecycle -- 31   (rounds)
 *
 * One run after another, 8 at once and 64 at once; each figure is the time for one of them. Retention is off: passes
 * have a bench of their own. There is no option to do without flushes, and `no fsync` is measured through the door to the
 * disk: it shows what is left when the disk does not count.
 */
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import { type Batch, byHand, type Options, ours } from "./Lifecycles.ts"
import { type Figure, inTurn, report } from "./Table.ts"

const perMeasure = 64

const [rounds = 31] = process.argv.slice(2).map(Number)
const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)

const figure = (name: string, batch: Batch, atOnce: number): Figure<never, never> => ({
  name,
  measure: Effect.promise(async () => {
    const begun = performance.now()
    for (let done = 0; done < perMeasure; done += atOnce) await batch(atOnce)
    return (performance.now() - begun) / perMeasure
  })
})

const measure = async (atOnce: number, fsync: boolean) => {
  const root = (name: string) => `${base}/${name.replaceAll(" ", "-")}-${atOnce}-${fsync}`
  const options = (telemetry: boolean): Options => ({ telemetry, fsync })
  const rows = await Effect.runPromise(inTurn([
    figure("by hand", byHand(root("by hand"), options(false)), atOnce),
    figure("a run", await ours(root("a run"), options(false)), atOnce),
    figure("a run with telemetry", await ours(root("telemetry"), options(true)), atOnce)
  ], rounds))
  report(`Lifecycle, ${atOnce} at once${fsync ? "" : ", no fsync"}`, rows, "by hand", { aim: "1.5 without telemetry" })
}

try {
  for (const fsync of [true, false]) for (const atOnce of [1, 8, 64]) await measure(atOnce, fsync)
} finally {
  NFS.rmSync(base, { recursive: true, force: true })
}
