/** The processes that work in the store: as many as there are to be, whoever of them is killed or stopped meanwhile. */
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as Journal from "../support/Journal.ts"
import { isStopped, whereabouts } from "../support/Proc.ts"

export interface Place {
  readonly root: string
  readonly journal: string
  /** Tells all of them to come to an end. */
  readonly stop: string
}

export interface Plan {
  readonly seed: number
  readonly processes: number
  /** So many are to be in the store. */
  readonly runs: number
  readonly random: () => number
}

interface Member {
  readonly me: number
  readonly child: NodeChildProcess.ChildProcess
  readonly write: Journal.Write
  /** Milliseconds without a word while nobody was stopped. */
  silent: number
  /** When it is to go on. */
  until: number | undefined
  wasKilled: boolean
  last: string
}

/** So long may one take for a step, on a busy machine. */
const patience = 60_000

const isThere = ({ child }: Member) => child.exitCode === null && child.signalCode === null

export class Crew {
  readonly #place: Place
  readonly #plan: Plan
  readonly #fd: number
  readonly #members = new Map<number, Member>()
  readonly #onWrong: (what: string) => void
  #count = 0
  kills = 0
  stops = 0
  stuck = 0

  constructor(place: Place, plan: Plan, onWrong: (what: string) => void) {
    this.#place = place
    this.#plan = plan
    this.#fd = NFS.openSync(place.journal, "a")
    this.#onWrong = onWrong
    for (let nth = 0; nth < plan.processes; nth++) this.#add()
  }

  get #isEnding() {
    return NFS.existsSync(this.#place.stop)
  }

  #add() {
    const me = this.#count++
    const { journal, root, stop } = this.#place
    const args = [root, journal, stop, this.#plan.seed, this.#plan.runs, me].map(String)
    const child = NodeChildProcess.spawn(
      process.execPath,
      ["--no-warnings", `${import.meta.dirname}/worker.ts`, ...args],
      { stdio: ["ignore", "ignore", "pipe"] }
    )
    let said = ""
    child.stderr?.on("data", (chunk) => void (said += String(chunk)))
    const write = Journal.writer(this.#fd, me, () => -1)
    const member: Member = { me, child, write, silent: 0, until: undefined, wasKilled: false, last: "" }
    this.#members.set(me, member)
    child.on("close", (code, signal) => {
      // What it wrote last may not have been read yet.
      setTimeout(() => {
        this.#members.delete(me)
        if (code !== 0 && !member.wasKilled) this.#onWrong(`process ${me} ended by itself (${code ?? signal}): ${said}`)
        if (code === 0 && said !== "") this.#onWrong(`process ${me} said: ${said}`)
        if (!this.#isEnding) this.#add()
      }, 200)
    })
  }

  /** What was read of the journal. */
  take(lines: ReadonlyArray<Journal.Line>): void {
    for (const line of lines) {
      const member = this.#members.get(line.process)
      if (member === undefined) continue
      member.silent = 0
      member.last = `${line.event} ${line.verb} ${line.id} ${line.detail}`
      if (line.event === "killed") {
        this.kills++
        member.wasKilled = true
      }
      if (line.event === "stopped") {
        this.stops++
        member.until = Date.now() + this.#someTime()
      }
    }
  }

  /** Mostly short, and sometimes longer than anybody is patient. */
  #someTime() {
    const { random } = this.#plan
    return random() < 0.1 ? 7000 * random() : 50 + 1000 * random()
  }

  /** Kills one of them, or stops it, wherever it is at this moment. */
  strike(): void {
    const { random } = this.#plan
    const there = [...this.#members.values()].filter((member) => isThere(member) && member.last !== "")
    const member = there[Math.floor(random() * there.length)]
    const kills = random() < 0.4
    if (member === undefined) return
    member.write(kills ? "killed" : "stopped", "-", "-", "from outside")
    member.child.kill(kills ? "SIGKILL" : "SIGSTOP")
  }

  /** Lets those go on whose time has come, and looks for one that has come to nothing although nobody stops anybody. */
  tend(elapsed: number): void {
    const now = Date.now()
    const all = [...this.#members.values()].filter(isThere)
    for (const member of all) {
      const { until } = member
      // It may not have stopped yet, as it has said that it would.
      if (until === undefined || now < until || !isStopped(member.child.pid ?? 0)) continue
      member.until = undefined
      member.child.kill("SIGCONT")
    }
    if (all.some(({ until }) => until !== undefined)) return
    for (const member of all) {
      member.silent += elapsed
      if (member.silent < patience) continue
      this.stuck++
      this.#onWrong(`process ${member.me} is stuck at ${member.last}\n${whereabouts(member.child.pid ?? 0)}`)
      member.write("killed", "-", "-", "stuck")
      member.child.kill("SIGKILL")
    }
  }

  get isEmpty(): boolean {
    return this.#members.size === 0
  }

  close(): void {
    for (const { child } of this.#members.values()) child.kill("SIGKILL")
    NFS.closeSync(this.#fd)
  }
}
