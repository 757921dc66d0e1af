/**
 * What each step does, to the bundles, to the kernel's locks and to who makes it; and what must never be. Everybody may
 * die between any two steps, and with him his locks.
 */
import { child, type Step, type Verb, type VerbName, verbs } from "./Steps.ts"

/** A directory with a record and a lease. */
export interface Bundle {
  /** The file at the path of the lease; 0 for none. */
  readonly lease: number
  readonly status: "none" | "running" | "ended" | "released" | "crashed"
  readonly pinned: boolean
}

/** All there is of a run. */
export interface Run extends Bundle {
  /** Of the bundle that others see. */
  readonly place: "nowhere" | "runs" | "trash"
  /** Who has the lock of the record; -1 for nobody. */
  readonly lockedBy: number
  /** A bundle that is being built or restored. */
  readonly staged: Bundle | undefined
  /** The files at the path of an archive that is being written, and of one that is there; 0 for none. */
  readonly draft: number
  readonly archive: number
  /** Whether somebody has removed it who was to. */
  readonly removed: boolean
}

/** What an archive holds: whole, or damaged on its way, or not yet anything. */
export type Content = Pick<Bundle, "status" | "pinned"> & { readonly whole: boolean }

export interface Process {
  readonly verb: VerbName | "child"
  readonly run: number
  /** The next step, or where it has got to when it is over. */
  readonly at: number
  readonly state: "alive" | "over" | "dead"
  /** The lease that it has open, and its lock on that. */
  readonly open: number
  readonly lock: "" | "shared" | "exclusive"
  /** The archive that it has to do with, and one that it is about to replace; 0 for none. */
  readonly file: number
  readonly fileLocked: boolean
  readonly leftover: number
  readonly leftoverLocked: boolean
  /** What the record said when it was read last. */
  readonly saw: Bundle["status"] | "pinned"
  readonly written: number
  /** For a child: who started it. */
  readonly parent: number
}

export interface State {
  readonly runs: ReadonlyArray<Run>
  readonly processes: ReadonlyArray<Process>
  readonly contents: Readonly<Record<number, Content>>
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

const isLost = ({ archive, place, removed, status }: Run, contents: State["contents"]) =>
  status !== "none" && !removed && place !== "runs" && contents[archive]?.whole !== true

/** What is wrong with a state, however it was come by. */
export const faultOf = (protocol: Protocol, { contents, processes, runs }: State): string | undefined => {
  for (const [nth, run] of runs.entries()) {
    const { lease, place, status } = run
    if (place === "runs" && lease === 0) return `run ${nth} is visible and has no lease`
    if (place === "runs" && status === "none") return `run ${nth} is visible and has no record`
    if (isLost(run, contents)) return `run ${nth} is lost`
  }
  for (const [nth, process] of processes.entries()) {
    if (!isAtWork(protocol, process)) continue
    const { lease, place, staged } = runs[process.run]!
    const isBuilding = staged !== undefined && staged.lease === process.open
    // Its own bundle may have gone, and another have come for the same run.
    const isThere = place === "runs" && (process.open === 0 || process.open === lease)
    if (!isThere && !isBuilding) {
      return `process ${nth} works in run ${process.run}, which is in ${place === "runs" ? "trash" : place}`
    }
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

const isArchiveLocked = ({ processes }: State, file: number, by: number) =>
  processes.some((process, nth) =>
    nth !== by && process.state === "alive" &&
    ((process.fileLocked && process.file === file) || (process.leftoverLocked && process.leftover === file))
  )

/** Who has nothing open and nothing locked, and has read nothing. */
const emptyHanded = {
  open: 0,
  lock: "",
  file: 0,
  fileLocked: false,
  leftover: 0,
  leftoverLocked: false,
  saw: "none"
} as const

/** Lets go of everything. Whoever lives takes away what he has not finished. */
const end = (state: State, index: number, how: "over" | "dead"): State => {
  const process = state.processes[index]!
  const isOurs = (bundle: Bundle | undefined) => how === "over" && bundle !== undefined && bundle.lease === process.open
  return {
    ...state,
    crashes: state.crashes + (how === "dead" ? 1 : 0),
    runs: state.runs.map((run, nth) =>
      nth !== process.run ? run : {
        ...run,
        lockedBy: run.lockedBy === index ? -1 : run.lockedBy,
        staged: isOurs(run.staged) ? undefined : run.staged,
        draft: how === "over" && process.file !== 0 && run.draft === process.file ? 0 : run.draft
      }
    ),
    processes: replaceAt(state.processes, index, {
      ...process,
      ...emptyHanded,
      state: how
    })
  }
}

const written = <A extends Bundle>(bundle: A, process: Process, verb: Verb): A => {
  const text = verb.writes[process.written]
  switch (text) {
    case "pinned":
      return { ...bundle, pinned: true }
    case "crashed":
      return process.saw === "running" ? { ...bundle, status: "crashed" } : bundle
    case undefined:
      return bundle
    default:
      return { ...bundle, status: text }
  }
}

const empty: Bundle = { lease: 0, status: "none", pinned: false }

/** What comes of the next step of a process; nothing while it has to wait. */
const perform = (protocol: Protocol, state: State, index: number): ReadonlyArray<Move> => {
  const process = state.processes[index]!
  const verb = verbOf(protocol, process)
  const step = verb.steps[process.at]!
  const run = state.runs[process.run]!
  const name = `${index}: ${process.verb} ${process.run}: ${step}`
  const isOwnStaged = run.staged !== undefined && run.staged.lease === process.open
  const content = state.contents[process.file]
  const isArchiving = verb.steps.includes("pack")

  const move = (
    change: Partial<Process> = {},
    its: Run = run,
    more: { readonly violation?: string | undefined; readonly content?: Content; readonly how?: string } = {}
  ): Move => {
    const moved = { ...process, ...change, at: change.at ?? process.at + 1 }
    const next = {
      ...state,
      runs: replaceAt(state.runs, process.run, its),
      processes: replaceAt(state.processes, index, moved),
      contents: more.content === undefined ? state.contents : { ...state.contents, [moved.file]: more.content }
    }
    return {
      name: more.how === undefined ? name : `${name}: ${more.how}`,
      next: moved.at >= verb.steps.length ? end(next, index, "over") : next,
      violation: more.violation
    }
  }
  const go = (...args: Parameters<typeof move>) => [move(...args)]
  /** An archive that turns out not to be the run any more goes with whoever wrote it. */
  const stop = (why: string): ReadonlyArray<Move> => {
    const isOwnArchive = isArchiving && run.archive === process.file && process.file !== 0
    const its = isOwnArchive ? { ...run, archive: 0 } : run
    return [{
      name: `${name}: ${why}`,
      next: end({ ...state, runs: replaceAt(state.runs, process.run, its) }, index, "over")
    }]
  }
  const violates = (isWrong: boolean, what: string) => isWrong ? what : undefined

  switch (step) {
    case "make staging":
      return run.staged === undefined ? go({}, { ...run, staged: empty }) : stop("somebody builds it")
    case "make lease": {
      const lease = 10 * index + process.run + 11
      return go({ open: lease }, { ...run, staged: { ...run.staged ?? empty, lease } })
    }
    case "open lease":
      return run.place === "runs" ? go({ open: run.lease }) : stop("gone")
    case "lock shared":
      // Whoever waits begins anew.
      return isLocked(state, process.open, index, false)
        ? go({ at: verb.steps.indexOf("open lease"), open: 0 })
        : go({ lock: "shared" })
    case "lock exclusive":
      return isLocked(state, process.open, index, true) ? stop("held") : go({ lock: "exclusive" })
    case "check inode":
      return isOwnStaged || (run.place === "runs" && run.lease === process.open) ? go() : stop("gone")
    case "downgrade":
      return go({ lock: "shared" })
    case "lock record":
      if (run.place !== "runs") return stop("gone")
      return run.lockedBy === -1 ? go({}, { ...run, lockedBy: index }) : []
    case "unlock record":
      return go({}, run.lockedBy === index ? { ...run, lockedBy: -1 } : run)
    case "read record": {
      if (isOwnStaged) return go()
      if (run.place !== "runs") return stop("gone")
      const isLast = !verb.steps.slice(process.at + 1).includes("read record")
      const isToStay = process.verb === "remove" ? isLast : process.verb === "archive" && run.lockedBy === index
      if (isToStay && run.pinned) return stop("pinned")
      if (isArchiving && content?.whole === true && content.status !== run.status) return stop("changed")
      return go({ saw: run.pinned ? "pinned" : run.status })
    }
    case "write record": {
      if (isOwnStaged) {
        return go({ written: process.written + 1 }, { ...run, staged: written(run.staged!, process, verb) })
      }
      // The lock was on the file that has been replaced.
      const its = { ...written(run, process, verb), lockedBy: -1 }
      const isCrash = its.status === "crashed" && run.status !== "crashed"
      const isWrong = isCrash && othersAtWork(protocol, state, index)
      return go({ written: process.written + 1 }, its, {
        violation: violates(isWrong, "a run at work is called crashed")
      })
    }
    case "publish":
      return go({}, { ...run, ...run.staged ?? empty, place: "runs", staged: undefined, lockedBy: -1 }, {
        violation: violates(run.place === "runs", "a bundle is put in the place of another")
      })
    case "trash": {
      const violation = run.place !== "runs"
        ? "what has gone is removed"
        : run.pinned
        ? "a pinned run is removed"
        : othersAtWork(protocol, state, index)
        ? "a run at work is removed"
        : violates(isArchiving && content?.status !== run.status, "what was written after the packing is lost")
      return go({}, { ...run, place: "trash", lockedBy: -1, removed: !isArchiving }, { violation })
    }
    case "hand on": {
      const moved = move()
      const made: Process = { ...process, verb: "child", at: 0, lock: "shared", saw: "none", written: 0, parent: index }
      return [{ ...moved, next: { ...moved.next, processes: [...moved.next.processes, made] } }]
    }
    case "unlock":
      return go({ lock: "", open: 0 })

    // == archives
    case "clear draft":
      return run.draft !== 0 && isArchiveLocked(state, run.draft, index) ? stop("busy") : go({}, { ...run, draft: 0 })
    case "make draft": {
      if (run.draft !== 0) return stop("busy")
      return go({ file: index + 1 }, { ...run, draft: index + 1 }, { content: { ...run, whole: false } })
    }
    case "lock draft":
      return go({ fileLocked: true })
    case "check draft":
      return run.draft === process.file ? go() : stop("busy")
    case "pack": {
      const packed = { status: run.status, pinned: run.pinned }
      return [
        move({}, run, { content: { ...packed, whole: true } }),
        move({}, run, { content: { ...packed, whole: false }, how: "damaged on its way" })
      ]
    }
    case "publish archive":
      return go({}, { ...run, draft: 0, archive: process.file })
    case "open archive":
      if (isArchiving) return run.archive === 0 ? go({ at: process.at + 3 }) : go({ leftover: run.archive })
      // Where a crash has left none there is nothing to do about it.
      if (run.archive === 0) return process.verb === "remove" ? go({ at: verb.steps.indexOf("trash") }) : stop("gone")
      return go({ file: run.archive })
    case "lock archive": {
      if (isArchiveLocked(state, isArchiving ? process.leftover : process.file, index)) return stop("busy")
      return isArchiving ? go({ leftoverLocked: true }) : go({ fileLocked: true })
    }
    case "check archive":
      if (isArchiving) return run.archive === process.leftover ? go() : go({ leftover: 0, leftoverLocked: false })
      if (run.archive === process.file) return go()
      return process.verb === "remove"
        ? go({ file: 0, fileLocked: false, at: verb.steps.indexOf("open archive") })
        : stop("gone")
    case "read archive":
      if (content?.whole !== true) return stop("damaged")
      return isOwnStaged
        ? go({}, { ...run, staged: { ...run.staged!, status: content.status, pinned: content.pinned } })
        : go()
    case "drop archive": {
      const isOther = process.file !== 0 && run.archive !== 0 && run.archive !== process.file
      // It is told of when there was no bundle beside it.
      const removes = process.verb === "expire" && process.saw === "none" && run.archive !== 0
      return go({}, { ...run, archive: 0, removed: run.removed || removes }, {
        violation: violates(isOther, "another archive is removed than the one that was locked")
      })
    }
    case "unlock archive":
      return process.leftover === 0 ? go({ file: 0, fileLocked: false }) : go({ leftover: 0, leftoverLocked: false })
    case "look for bundle":
      if (process.verb === "expire") return go({ saw: run.place === "runs" ? run.status : "none" })
      return run.place === "runs" ? stop("present") : go()
    case "clear staging":
      return run.staged !== undefined && isLocked(state, run.staged.lease, index, true)
        ? stop("held")
        : go({}, { ...run, staged: undefined })
    default:
      return go()
  }
}

/** Everything that can happen next. */
export const moves = (protocol: Protocol, state: State, maxCrashes: number): ReadonlyArray<Move> =>
  state.processes.flatMap((process, index) => {
    if (process.state !== "alive" || stepOf(protocol, process) === undefined) return []
    const all = [...perform(protocol, state, index)]
    if (state.crashes < maxCrashes) all.push({ name: `${index}: dies`, next: end(state, index, "dead") })
    return all
  })

// == beginnings

const nothing: Run = {
  ...empty,
  place: "nowhere",
  lockedBy: -1,
  staged: undefined,
  draft: 0,
  archive: 0,
  removed: false
}

/** What archives have that were there before. */
const before: Content = { status: "released", pinned: false, whole: true }

const fileOf = (run: number) => 90 + run

const beginnings = {
  none: nothing,
  released: { ...nothing, place: "runs", status: "released" },
  crashed: { ...nothing, place: "runs", status: "running" },
  archived: { ...nothing, place: "trash", status: "released", archive: 1 },
  /** As a crash leaves it that comes between the publishing of either and the going of the other. */
  both: { ...nothing, place: "runs", status: "released", archive: 1 }
} as const satisfies Readonly<Record<string, Run>>

export type Beginning = keyof typeof beginnings

const beginningOf = (kind: Beginning, nth: number): Run => {
  const run = beginnings[kind]
  const lease = run.place === "runs" ? nth + 1 : 0
  return { ...run, lease, archive: run.archive === 0 ? 0 : fileOf(nth) }
}

/** Runs as they are at the beginning, and who sets about what in which of them. */
export const begin = (
  runs: ReadonlyArray<Beginning>,
  set: ReadonlyArray<{ readonly verb: VerbName; readonly run: number }>
): State => ({
  crashes: 0,
  runs: runs.map(beginningOf),
  contents: Object.fromEntries(runs.map((_, nth) => [fileOf(nth), before])),
  processes: set.map(({ run, verb }): Process => ({
    verb,
    run,
    at: 0,
    state: "alive",
    ...emptyHanded,
    written: 0,
    parent: -1
  }))
})

export const right: Protocol = verbs
