import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { directory } from "../support/Worker.ts"
import * as Doors from "./Doors.ts"
import { violations } from "./Invariants.ts"
import { type Scenario, scenarios } from "./Scenarios.ts"
import * as Strace from "./Strace.ts"
import { Actor, type Call } from "./Strace.ts"

/** How many calls of each scenario are tried; all of them where it says so. */
const most = process.env["LEASEHOLD_CRASH"] === "all"
  ? Number.POSITIVE_INFINITY
  : Number(process.env["LEASEHOLD_CRASH"] ?? 2)

/** Without strace, or where that is asked for, calls at the doors of the program stand in for those on the system. */
const { learn, stepIn } = Strace.canTrace && process.env["LEASEHOLD_CRASH_AT"] !== "doors" ? Strace : Doors

const fixture = `${import.meta.dirname}/fixtures/scenario.ts`

const removing: ReadonlySet<string> = new Set(["a pass", "a removal"])

const spread = <A>(all: ReadonlyArray<A>): ReadonlyArray<A> =>
  all.length <= most
    ? all
    : Array.from({ length: most }, (_, nth) => all[Math.floor(((nth + 0.5) / most) * all.length)]!)

const errors: Readonly<Record<string, ReadonlyArray<string>>> = {
  openat: ["EACCES", "EMFILE", "EIO", "EROFS", "ENOSPC"],
  write: ["ENOSPC", "EIO", "EDQUOT"],
  pwrite64: ["ENOSPC", "EIO", "EDQUOT"],
  rename: ["ENOSPC", "EROFS", "EIO", "EACCES"],
  link: ["ENOSPC", "EROFS"],
  symlink: ["ENOSPC", "EROFS"],
  mkdir: ["ENOSPC", "EROFS", "EDQUOT", "EACCES"],
  unlink: ["EACCES", "EROFS", "EIO"],
  rmdir: ["EACCES", "EROFS", "EIO"],
  fsync: ["EIO", "ENOSPC"],
  fdatasync: ["EIO", "ENOSPC"],
  ftruncate: ["EIO", "ENOSPC"],
  fcntl: ["ENOLCK", "EINTR", "EIO"],
  read: ["EIO"],
  pread64: ["EIO"],
  getdents64: ["EIO"],
  statx: ["EACCES", "EIO"],
  fstat: ["EIO"],
  newfstatat: ["EACCES", "EIO"],
  fchmod: ["EPERM", "EROFS"],
  chmod: ["EPERM", "EROFS"],
  utimensat: ["EPERM", "EROFS"]
}

interface Tried {
  /** How many met a call on the store. */
  readonly points: number
  readonly found: ReadonlyArray<string>
}

/** In turn, so that a few points meet many errors; each with all of them where all calls are tried. */
const faultsOf = (calls: ReadonlyArray<Call>) =>
  spread(calls.flatMap((call, nth) => {
    const codes = errors[call.name] ?? []
    if (codes.length === 0) return []
    const chosen = most === Number.POSITIVE_INFINITY ? codes : [codes[nth % codes.length]!]
    return chosen.map((code) => ({ call, code }))
  }))

const judge = async (
  name: string,
  scenario: Scenario,
  place: { readonly root: string; readonly made: Awaited<ReturnType<typeof stepIn>>["made"] },
  done: boolean
): Promise<ReadonlyArray<string>> => {
  const missing = done ? scenario.missing(place.root, place.made) : undefined
  const found = await Effect.runPromise(violations(place.root, place.made, removing.has(name)))
  return missing === undefined ? found : [`said that it was done, and ${missing}`, ...found]
}

const killAll = async (dir: string, name: string, scenario: Scenario, calls: ReadonlyArray<Call>): Promise<Tried> => {
  const found: Array<string> = []
  const points = spread(calls)
  let met = 0
  for (const [nth, call] of points.entries()) {
    const root = `${dir}/kill-${nth}`
    const actor = new Actor(fixture, name, `${root}-warm`)
    await actor.answer()
    const { answer, hit, made } = await stepIn(actor, root, call, "signal=KILL")
    await actor.end()
    if (hit) met++
    const faults = await judge(name, scenario, { root, made }, answer.said === "done")
    found.push(...faults.map((fault) => `killed at ${call.text}: ${fault}`))
    for (const each of [root, `${root}-warm`]) NFS.rmSync(each, { recursive: true, force: true })
  }
  return { points: met, found }
}

const failAll = async (dir: string, name: string, scenario: Scenario, calls: ReadonlyArray<Call>): Promise<Tried> => {
  const found: Array<string> = []
  const points = faultsOf(calls)
  let met = 0
  let actor = new Actor(fixture, name, `${dir}/fail-warm`)
  await actor.answer()
  for (const [nth, { call, code }] of points.entries()) {
    const root = `${dir}/fail-${nth}`
    const { answer, hit, made } = await stepIn(actor, root, call, `error=${code}`)
    if (hit) met++
    const where = `${code} on ${call.text}`
    if (answer.said === "defect") found.push(`${where}: a defect: ${answer.message}`)
    if (answer.said === "failed" && answer.message.trim() === "") found.push(`${where}: failed without a word`)
    if ("open" in answer) found.push(...answer.open.map((path) => `${where}: ${path} was left open`))
    if (answer.said === "killed") {
      if (hit) found.push(`${where}: the process ended`)
      actor = new Actor(fixture, name, `${dir}/fail-warm-${nth}`)
      await actor.answer()
    }
    const faults = await judge(name, scenario, { root, made }, answer.said === "done")
    found.push(...faults.map((fault) => `${where}: ${fault}`))
    NFS.rmSync(root, { recursive: true, force: true })
  }
  await actor.end()
  return { points: met, found }
}

const calls = learn === Strace.learn ? "system call on the store" : "call at the doors, for want of strace,"

describe(`at every ${calls}`, () => {
  it.live.each(Object.entries(scenarios))(
    "%s, killed and failing there",
    ([name, scenario]) =>
      Effect.scoped(Effect.gen(function*() {
        const dir = yield* directory
        const begun = Date.now()
        const { calls, failed, killed } = yield* Effect.promise(async () => {
          const actor = new Actor(fixture, name, `${dir}/learn-warm`)
          await actor.answer()
          const learnt = await learn(actor, `${dir}/learn`, `${dir}/log`)
          await actor.end()
          return {
            calls: learnt,
            killed: await killAll(dir, name, scenario, learnt),
            failed: await failAll(dir, name, scenario, learnt)
          }
        })
        const took = ((Date.now() - begun) / 1000).toFixed(1)
        console.log(
          `${name}: ${calls.length} calls, ${killed.points} killed, ${failed.points} failing, ` +
            `${killed.found.length + failed.found.length} violations, ${took} s`
        )
        assert.isAbove(calls.length, 5)
        assert.deepStrictEqual([...killed.found, ...failed.found], [])
      })),
    3_600_000
  )
})
