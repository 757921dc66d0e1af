/**
 * What each step does, to the bundles, to the kernel's locks and to who makes it; and what must never be. Everybody may
 * die between any two steps, and with him his locks.
 */
import { child, type Step, type Verb, type VerbName, verbs } from "./Steps.ts"

export interface Bundle {
  readonly place: "nowhere" | "staging" | "runs" | "trash"
  /** The file at the path of the lease; 0 for none. */
  readonly lease: number
  readonly status: "none" | "running" | "ended" | "released" | "crashed"
  readonly pinned: boolean
  /** Who has the lock of the record; -1 for nobody. */
  readonly lockedBy: number
}

export interface Process {
  readonly verb: VerbName | "child"
  readonly run: number
  /** The next step, or where it has got to when it is over. */
  readonly at: number
  readonly state: "alive" | "over" | "dead"
  /** The lease that it has open, and its lock on that. */
  readonly open: number
  readonly lock: "" | "shared" | "exclusive"
  /** What the record said when it was read last. */
  readonly saw: Bundle["status"] | "pinned"
  readonly written: number
  /** For a child: who started it. */
  readonly parent: number
}

export interface State {
  readonly bundles: ReadonlyArray<Bundle>
  readonly processes: ReadonlyArray<Process>
  readonly crashes: number
}

/** The verbs of a protocol, the right one or one with a fault in it. */
export type Protocol = Readonly<Record<VerbName, Verb>>

export interface Move {
  readonly name: string
  readonly next: State
  /** What was done that must not be. */
  readonly violation?: string | undefined
}

const verbOf = (protocol: Protocol, { verb }: Process): Verb => verb === "child" ? child : protocol[verb]

const stepOf = (protocol: Protocol, process: Process): Step | undefined => verbOf(protocol, process).steps[process.at]

// == who works

const lastWork = ({ steps }: Verb) =>
  Math.max(steps.lastIndexOf("work"), steps.lastIndexOf("hooks"), steps.lastIndexOf("write record"))

/** From when it has been told that it may to when it has nothing left to do there, whatever it has locked. */
const isAtWork = (protocol: Protocol, process: Process): boolean => {
  const verb = verbOf(protocol, process)
  if (verb.role === "none" || process.state !== "alive" || process.at > lastWork(verb)) return false
  const { steps } = verb
  const told = Math.max(steps.indexOf("downgrade"), steps.indexOf("write holder"), -1)
  return process.at > told
}

const othersAtWork = (protocol: Protocol, { processes }: State, index: number) => {
  const run = processes[index]?.run
  return processes.some((other, nth) => nth !== index && other.run === run && isAtWork(protocol, other))
}

// == what must never be

const faultOf = (protocol: Protocol, { bundles, processes }: State): string | undefined => {
  for (const [run, { lease, place, status }] of bundles.entries()) {
    if (place === "runs" && lease === 0) return `run ${run} is visible and has no lease`
    if (place === "runs" && status === "none") return `run ${run} is visible and has no record`
  }
  for (const [nth, process] of processes.entries()) {
    if (!isAtWork(protocol, process)) continue
    const { place } = bundles[process.run]!
    const isBuilding = process.verb === "start" && place === "staging"
    if (place !== "runs" && !isBuilding) return `process ${nth} works in run ${process.run}, which is in ${place}`
    if (verbOf(protocol, process).role !== "owner") continue
    for (const [other, its] of processes.entries()) {
      if (other === nth || its.run !== process.run || !isAtWork(protocol, its)) continue
      if (verbOf(protocol, its).role === "owner") return `processes ${nth} and ${other} both own run ${process.run}`
      if (its.verb === "child" && its.parent !== nth) {
        return `process ${nth} owns run ${process.run} beside the child of an earlier owner`
      }
    }
  }
  return undefined
}

// == steps

const replaceAt = <A>(all: ReadonlyArray<A>, index: number, value: A) =>
  all.map((each, nth) => nth === index ? value : each)

const isLocked = ({ processes }: State, lease: number, by: number, exclusive: boolean) =>
  processes.some((process, nth) =>
    nth !== by && process.state === "alive" && process.open === lease && process.lock !== "" &&
    (exclusive || process.lock === "exclusive")
  )

/** Lets go of everything. */
const end = (state: State, index: number, how: "over" | "dead"): State => {
  const process = state.processes[index]!
  return {
    ...state,
    crashes: state.crashes + (how === "dead" ? 1 : 0),
    bundles: state.bundles.map((bundle) => bundle.lockedBy === index ? { ...bundle, lockedBy: -1 } : bundle),
    processes: replaceAt(state.processes, index, { ...process, state: how, open: 0, lock: "", saw: "none" })
  }
}

const write = (bundle: Bundle, process: Process, verb: Verb): Bundle => {
  const text = verb.writes[process.written]
  // The lock was on the file that has been replaced.
  const open = { ...bundle, lockedBy: -1 }
  switch (text) {
    case "pinned":
      return { ...open, pinned: true }
    case "crashed":
      return process.saw === "running" ? { ...open, status: "crashed" } : open
    case undefined:
      return open
    default:
      return { ...open, status: text }
  }
}

/** What comes of the next step of a process; nothing while it has to wait. */
const perform = (protocol: Protocol, state: State, index: number): Move | undefined => {
  const process = state.processes[index]!
  const verb = verbOf(protocol, process)
  const step = verb.steps[process.at]!
  const bundle = state.bundles[process.run]!
  const name = `${index}: ${process.verb} ${process.run}: ${step}`
  const go = (change: Partial<Process> = {}, its: Bundle = bundle, violation?: string): Move => {
    const moved = { ...process, ...change, at: change.at ?? process.at + 1 }
    const next = {
      ...state,
      bundles: replaceAt(state.bundles, process.run, its),
      processes: replaceAt(state.processes, index, moved)
    }
    return { name, next: moved.at >= verb.steps.length ? end(next, index, "over") : next, violation }
  }
  const stop = (why: string): Move => ({ name: `${name}: ${why}`, next: end(state, index, "over") })
  switch (step) {
    case "make staging":
      return go({}, { ...bundle, place: "staging" })
    case "make lease":
      return go({ open: process.run + 1 }, { ...bundle, lease: process.run + 1 })
    case "open lease":
      return bundle.place === "runs" ? go({ open: bundle.lease }) : stop("gone")
    case "lock shared":
      // Whoever waits begins anew.
      return isLocked(state, process.open, index, false)
        ? go({ at: verb.steps.indexOf("open lease"), open: 0 })
        : go({ lock: "shared" })
    case "lock exclusive":
      return isLocked(state, process.open, index, true) ? stop("held") : go({ lock: "exclusive" })
    case "check inode":
      return bundle.place === "trash" ? stop("gone") : go()
    case "downgrade":
      return go({ lock: "shared" })
    case "lock record":
      if (bundle.place !== "runs") return stop("gone")
      return bundle.lockedBy === -1 ? go({}, { ...bundle, lockedBy: index }) : undefined
    case "unlock record":
      return go({}, bundle.lockedBy === index ? { ...bundle, lockedBy: -1 } : bundle)
    case "read record": {
      if (bundle.place !== "runs") return stop("gone")
      const isLast = !verb.steps.slice(process.at + 1).includes("read record")
      if (process.verb === "remove" && isLast && bundle.pinned) return stop("pinned")
      return go({ saw: bundle.pinned ? "pinned" : bundle.status })
    }
    case "write record": {
      const its = write(bundle, process, verb)
      const isCrash = its.status === "crashed" && bundle.status !== "crashed"
      const violation = isCrash && othersAtWork(protocol, state, index) ? "a run at work is called crashed" : undefined
      return go({ written: process.written + 1 }, its, violation)
    }
    case "publish":
      return go({}, { ...bundle, place: "runs" })
    case "trash": {
      const violation = bundle.place !== "runs"
        ? "what has gone is removed"
        : bundle.pinned
        ? "a pinned run is removed"
        : othersAtWork(protocol, state, index)
        ? "a run at work is removed"
        : undefined
      return go({}, { ...bundle, place: "trash" }, violation)
    }
    case "hand on": {
      const moved = go()
      const made: Process = { ...process, verb: "child", at: 0, lock: "shared", saw: "none", written: 0, parent: index }
      return { ...moved, next: { ...moved.next, processes: [...moved.next.processes, made] } }
    }
    case "unlock":
      return go({ lock: "", open: 0 })
    default:
      return go()
  }
}

/** Everything that can happen next, with what is wrong with it. */
export const moves = (protocol: Protocol, state: State, maxCrashes: number): ReadonlyArray<Move> =>
  state.processes.flatMap((process, index) => {
    if (process.state !== "alive" || stepOf(protocol, process) === undefined) return []
    const performed = perform(protocol, state, index)
    const all = performed === undefined ? [] : [performed]
    if (state.crashes < maxCrashes) all.push({ name: `${index}: dies`, next: end(state, index, "dead") })
    return all.map((move) => ({ ...move, violation: move.violation ?? faultOf(protocol, move.next) }))
  })

// == beginnings

const bundles = {
  none: { place: "nowhere", lease: 0, status: "none", pinned: false, lockedBy: -1 },
  released: { place: "runs", status: "released", pinned: false, lockedBy: -1 },
  crashed: { place: "runs", status: "running", pinned: false, lockedBy: -1 }
} as const

export type Beginning = keyof typeof bundles

/** Runs as they are at the beginning, and who sets about what in which of them. */
export const begin = (
  runs: ReadonlyArray<Beginning>,
  set: ReadonlyArray<{ readonly verb: VerbName; readonly run: number }>
): State => ({
  crashes: 0,
  bundles: runs.map((kind, run) => kind === "none" ? bundles.none : { ...bundles[kind], lease: run + 1 }),
  processes: set.map(({ run, verb }): Process => ({
    verb,
    run,
    at: 0,
    state: "alive",
    open: 0,
    lock: "",
    saw: "none",
    written: 0,
    parent: -1
  }))
})

export const right: Protocol = verbs
