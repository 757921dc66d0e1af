/**
 * One of several processes that do one verb after another to the few runs of a store, until a file tells it to stop.
 * At some of its calls to the disk, as the seed has it, it kills itself, or stops itself until somebody lets it go on.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NFS from "node:fs"
import { Files, node } from "../../src/internal/Files.ts"
import { isRunId, type RunId } from "../../src/RunId.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as SqliteIndex from "../../src/SqliteIndex.ts"
import { by } from "../support/Doors.ts"
import * as Journal from "../support/Journal.ts"
import { mulberry } from "../support/Seed.ts"
import { filed, present } from "../support/Stores.ts"
import * as Verbs from "../support/Verbs.ts"

const [root = "", journal = "", stop = "", ...numbers] = process.argv.slice(2)
const [seed = 0, runs = 0, me = 0] = numbers.map(Number)

let nth = 0
let verb: Verbs.VerbName = "list"
const write = Journal.open(journal, me, () => nth)
const random = mulberry(seed + me * 7919)
const below = (limit: number) => Math.floor(random() * limit)

const actor: Verbs.Actor = { me, nth: () => nth, verb: () => verb, write, random, deadly: true }
const { verbs } = Verbs.make(actor)

const choices = Verbs.weighed({
  run: 3,
  resume: 6,
  attach: 6,
  trim: 4,
  archive: 6,
  restore: 6,
  rm: 2,
  prune: 3,
  pin: 2,
  unpin: 2,
  recover: 2,
  list: 1,
  verify: 1
})

// == striking itself

/** One verb in so many meets with something, at one of its first calls. */
const oneIn = 30
const firstCalls = 120

let calls = 0
let strike: { readonly at: number; readonly signal: "SIGKILL" | "SIGSTOP" } | undefined

const strikeAt = (call: string) => {
  if (strike === undefined || ++calls !== strike.at) return
  write(strike.signal === "SIGKILL" ? "killed" : "stopped", verb, "-", call)
  process.kill(process.pid, strike.signal)
}

const striking = by(node, (call, _, perform) => {
  strikeAt(call)
  return perform
})

// == one after another

/** As many as there are to be, or somewhat more. */
const choose = (): readonly [Verbs.VerbName, RunId] => {
  const ids = [...present(root), ...filed(root, ".tar.zst")].filter(isRunId)
  const id = ids[below(ids.length)]
  if (id === undefined || ids.length < runs / 2) return ["run", "-" as RunId]
  return ids.length > runs * 2 && below(2) === 0 ? ["rm", id] : [choices[below(choices.length)]!, id]
}

const step = Effect.gen(function*() {
  const [chosen, id] = choose()
  verb = chosen
  calls = 0
  strike = below(oneIn) === 0
    ? { at: 1 + below(firstCalls), signal: below(2) === 0 ? "SIGKILL" : "SIGSTOP" }
    : undefined
  yield* Verbs.perform(actor, verbs[verb], ["run", "list", "verify", "prune"].includes(verb) ? "-" as RunId : id)
  nth++
})

console.log("ready")
await Effect.runPromise(
  Effect.whileLoop({
    while: () => !NFS.existsSync(stop),
    body: () => step,
    step: () => {}
  }).pipe(
    Effect.provideService(Files, Verbs.observing(actor, striking)),
    Effect.provide(SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true }))))
  )
)
