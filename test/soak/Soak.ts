/**
 * A store with few runs in which many processes do whatever can be done, for as long as told, while they are killed and
 * stopped anywhere and somebody meddles; and what must never come of it.
 */
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { makeStore } from "../support/CommandLine.ts"
import { counts } from "../support/History.ts"
import * as Journal from "../support/Journal.ts"
import { mulberry } from "../support/Seed.ts"
import { faults } from "./Aftermath.ts"
import { Crew } from "./Crew.ts"
import { Observer } from "./Observer.ts"
import { Outsider } from "./Outsider.ts"

export interface Options {
  /** The store goes into it, and the journal; it is there, and empty. */
  readonly dir: string
  readonly millis: number
  readonly processes: number
  readonly runs: number
  readonly seed: number
  /** Told each minute how far it is. */
  readonly onMinute: (line: string) => void
}

export interface Summary {
  readonly line: string
  readonly counts: string
  readonly violations: ReadonlyArray<string>
}

const tick = 25

const minute = 60_000

/** One in so many ticks, on the average, somebody is struck, or meddled with, or children are looked at. */
const strikesIn = 40
const meddlesIn = 6
const childrenIn = 10

export const soak = async ({ dir, millis, onMinute, processes, runs, seed }: Options): Promise<Summary> => {
  const place = { root: `${dir}/store`, journal: `${dir}/journal`, stop: `${dir}/stop` }
  await Effect.runPromise(makeStore(place.root))
  NFS.writeFileSync(place.journal, "")
  const random = mulberry(seed)
  const violations: Array<string> = []
  const onWrong = (what: string) => void violations.push(what)
  const lines: Array<Journal.Line> = []
  const follow = Journal.follow(place.journal)
  const crew = new Crew(place, { seed, processes, runs, random }, onWrong)
  const observer = new Observer(place.root, onWrong)
  const outsider = new Outsider(place.root, mulberry(seed + 1))
  const begun = Date.now()
  let operations = 0

  const read = () => {
    const more = follow()
    for (const line of more) {
      lines.push(line)
      if (line.event === "end" && line.verb !== "expire") operations++
      if (line.event === "wrong") onWrong(`${line.verb} of ${line.id} by ${line.process}: ${line.detail}`)
    }
    crew.take(more)
    observer.take(more)
  }

  const tell = () => {
    const seconds = Math.round((Date.now() - begun) / 1000)
    return `${String(Math.floor(seconds / 60)).padStart(3)}:${String(seconds % 60).padStart(2, "0")}  ` +
      `${operations} operations, ${crew.kills} kills, ${crew.stops} stops, ${outsider.acts} meddlings, ` +
      `${observer.seen} leases and ${observer.ofChildren} of children seen held, ` +
      `${violations.length} violations, ${crew.stuck} stuck`
  }

  let before = Date.now()
  const step = async () => {
    await pause(tick)
    const now = Date.now()
    read()
    observer.look(read)
    if (random() < 1 / childrenIn) observer.lookAtChildren()
    crew.tend(now - before)
    before = now
  }

  try {
    let told = 0
    while (Date.now() - begun < millis && violations.length === 0) {
      await step()
      if (random() < 1 / strikesIn) crew.strike()
      if (random() < 1 / meddlesIn) outsider.act()
      if (Date.now() - begun - told >= minute) {
        told += minute
        onMinute(tell())
      }
    }
    NFS.writeFileSync(place.stop, "")
    // Whoever does not come to an end is stuck, and is told of and killed.
    while (!crew.isEmpty || observer.hasChildren) await step()
  } finally {
    crew.close()
  }
  read()
  outsider.leave()
  const inHistory = violations.length === 0 ? await faults(place.root, lines) : []
  violations.push(...inHistory)
  return { line: tell(), counts: counts(lines), violations }
}
