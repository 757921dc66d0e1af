/**
 * What it costs many processes to have one store: runs that start and end at once in 1, 10, 50 and 200 processes, with
 * and without a pass going on beside them.
 *
 * npm run build && npm run bench:contention -- 400 3 1 10 50 200   (runs in all, rounds, processes)
 *
 * The unit of work is one run from its start to its end, with an empty program. Without a store to share, a process does
 * the same work in a store of its own, or makes the system calls of the same work by hand in directories of its own
 * (`Lifecycles.ts`). The processes are there before the clock starts, all begin at one word, and the last to end ends
 * the measurement. A pass that goes on has a process of its own, and beside those who share nothing it goes on in a store
 * that nobody else has, so that the processor has as much to do. No run may fail: then the bench does.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Retention from "leasehold/Retention"
import * as RunStore from "leasehold/RunStore"
import * as SqliteIndex from "leasehold/SqliteIndex"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import { type Batch, byHand, ours } from "./Lifecycles.ts"
import { report, rowOf } from "./Table.ts"

type Work = "by hand" | "runs" | "passes"

type Order = { readonly prepare: Work; readonly root: string } | { readonly go: number } | { readonly stop: true }

// == a process that works

const options = { telemetry: false, fsync: true }

/** Passes one after another until it is told to stop. Where there are runs each has something to remove. */
const passes = (root: string) => {
  const layer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true })))
  const pass = Retention.run({ policy: { maxBundles: 20 } })
  const fiber = Effect.runFork(Effect.provide(Effect.forever(Effect.andThen(pass, Effect.yieldNow)), layer))
  return () => Effect.runPromise(Fiber.interrupt(fiber))
}

const serve = (say: (word: string) => void): void => {
  let batch: Batch = () => Promise.resolve()
  let stop: () => Promise<unknown> = () => Promise.resolve()
  const obey = async (order: Order): Promise<string> => {
    if ("prepare" in order) {
      if (order.prepare === "passes") stop = passes(order.root)
      else batch = order.prepare === "runs" ? await ours(order.root, options) : byHand(order.root, options)
      return "ready"
    }
    if ("stop" in order) await stop()
    else for (let done = 0; done < order.go; done++) await batch(1)
    return "done"
  }
  process.on("message", (order: Order) => {
    obey(order).then(say, (cause) => say(`failed: ${cause}`))
  })
}

// == the one that measures

class Worker {
  readonly #child = NodeChildProcess.fork(import.meta.filename, { stdio: ["ignore", "ignore", "inherit", "ipc"] })

  tell(order: Order): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#child.once("message", (word) => {
        if (word === "ready" || word === "done") resolve()
        else reject(new Error(String(word)))
      })
      this.#child.send(order)
    })
  }

  end(): void {
    this.#child.disconnect()
  }
}

interface Shape {
  readonly name: string
  readonly work: Work
  readonly shared: boolean
  readonly beside: boolean
}

const shapes: ReadonlyArray<Shape> = [
  { name: "by hand, nothing shared", work: "by hand", shared: false, beside: false },
  { name: "runs, a store each", work: "runs", shared: false, beside: false },
  { name: "runs, one store", work: "runs", shared: true, beside: false },
  { name: "by hand, nothing shared, a pass elsewhere", work: "by hand", shared: false, beside: true },
  { name: "runs, a store each, a pass elsewhere", work: "runs", shared: false, beside: true },
  { name: "runs, one store, a pass in it", work: "runs", shared: true, beside: true }
]

const once = async (workers: ReadonlyArray<Worker>, passer: Worker, shape: Shape, base: string, each: number) => {
  const rootOf = (index: number) => `${base}/${shape.shared ? "one" : `own-${index}`}`
  NFS.mkdirSync(base)
  await Promise.all(workers.map((worker, index) => worker.tell({ prepare: shape.work, root: rootOf(index) })))
  if (shape.beside) await passer.tell({ prepare: "passes", root: shape.shared ? rootOf(0) : `${base}/elsewhere` })
  const begun = performance.now()
  await Promise.all(workers.map((worker) => worker.tell({ go: each })))
  const millis = performance.now() - begun
  if (shape.beside) await passer.tell({ stop: true })
  NFS.rmSync(base, { recursive: true })
  return workers.length * each * 1000 / millis
}

const measure = async (base: string, count: number, runs: number, rounds: number): Promise<void> => {
  const workers = Array.from({ length: count }, () => new Worker())
  const passer = new Worker()
  const taken = new Map<string, Array<number>>(shapes.map(({ name }) => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const shape of round % 2 === 0 ? shapes : shapes.toReversed()) {
      const perSecond = await once(workers, passer, shape, `${base}/now`, Math.max(1, Math.round(runs / count)))
      // The first round warms up.
      if (round > 0) taken.get(shape.name)?.push(perSecond)
    }
  }
  for (const worker of [...workers, passer]) worker.end()
  const rows = [...taken].map(([name, values]) => rowOf(name, values))
  const reading = { unit: "runs a second", aim: "0.9 or more" }
  const title = `${count} ${count === 1 ? "process" : "processes"}`
  report(title, rows.slice(0, 3), "runs, a store each", reading)
  report(`${title}, a pass beside them`, rows.slice(3), "runs, a store each, a pass elsewhere", reading)
}

const bench = async (): Promise<void> => {
  const [runs = 400, rounds = 3, ...given] = process.argv.slice(2).map(Number)
  const base = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)
  try {
    for (const count of given.length > 0 ? given : [1, 10, 50, 200]) await measure(base, count, runs, rounds)
  } finally {
    NFS.rmSync(base, { recursive: true, force: true })
  }
}

if (process.send === undefined) await bench()
else serve((word) => void process.send?.(word))
