/**
 * What one of several processes does to the runs of a store, one verb after another, and what it tells a journal of it:
 * when each began and ended, what was moved out of a bundle, and whatever it found amiss while it worked in a run.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as Child from "../../src/Child.ts"
import { remove } from "../../src/cli/Removing.ts"
import { type FilesApi, node } from "../../src/internal/Files.ts"
import type { Lease } from "../../src/Lease.ts"
import * as Recovery from "../../src/Recovery.ts"
import * as Retention from "../../src/Retention.ts"
import type { PolicyInput } from "../../src/RetentionPolicy.ts"
import * as Run from "../../src/Run.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import type { RunId } from "../../src/RunId.ts"
import type { RunIndex } from "../../src/RunIndex.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as RunTrim from "../../src/RunTrim.ts"
import * as Verification from "../../src/Verification.ts"
import { isOpenProblem } from "../../src/VerificationFinding.ts"
import { attempt } from "../fixtures/trees.ts"
import { changed, damage, fill, isFilled, rebuild, traces } from "./Contents.ts"
import type * as Journal from "./Journal.ts"
import { isRunning, selfOf } from "./Proc.ts"

export type World = RunStore.RunStore | Lease | RunIndex

/** Whoever does them. */
export interface Actor {
  readonly me: number
  /** How many verbs it has begun. */
  readonly nth: () => number
  /** The one that it is at. */
  readonly verb: () => string
  readonly write: Journal.Write
  readonly random: () => number
  /** Whether others may be killed: then a pass may find that nobody else comes to an end. */
  readonly deadly: boolean
}

export type Verb = (id: RunId) => Effect.Effect<string, unknown, World>

const telemetry = { events: false, spans: false, otlp: false }

const quiet = { retention: "off", telemetry } as const

// == what is done to bundles

const idIn = (path: string) => /\/(?:runs|archive)\/[^/]+\/([0-9TZ]+-[0-9a-z]{8})/.exec(path)?.[1]

/** A file system that tells of every move out of a bundle, and of all that takes a run away, just before and just after. */
export const observing = ({ verb, write }: Actor, files: FilesApi = node): FilesApi => {
  const observed = <A, E, R>(from: string, act: Effect.Effect<A, E, R>) => {
    const id = idIn(from)
    if (id === undefined || from.endsWith(".tmp")) return act
    return Effect.suspend(() => {
      write("acts", verb(), id)
      return Effect.tap(act, () => Effect.sync(() => write("acted", verb(), id)))
    })
  }
  return {
    ...files,
    rename: (from, to) => observed(from, files.rename(from, to)),
    renameAt: (place, from, toPlace, to) =>
      Effect.suspend(() => {
        const path = typeof place === "number" ? NFS.readlinkSync(`/proc/self/fd/${place}`) : String(place)
        return observed(`${path}/`, files.renameAt(place, from, toPlace, to))
      }),
    // Whoever restores one has a right to take its archive away while others are at work in it already.
    unlink: (path) =>
      ["rm", "prune"].includes(verb()) && path.endsWith(".tar.zst")
        ? observed(path, files.unlink(path))
        : files.unlink(path)
  }
}

const turns = (times: number) => Effect.repeat(Effect.promise(() => new Promise(setImmediate)), { times })

/** Each of them takes little at a time, so that there is something left for the others. */
const policies: ReadonlyArray<PolicyInput> = [
  { maxBundles: 12 },
  { maxAge: "1 milli" },
  { trim: { after: "1 milli" } },
  { archive: { after: "1 milli" } },
  { maxBundles: 15, trim: { after: "1 milli" }, archive: { after: "1 milli" } },
  { maxBundles: 30, archiveMaxBytes: 4000 },
  { keepLast: 15, archiveMaxAge: "1 milli" }
]

/** Works for a while in a directory of its own, with a lease of its own, whatever becomes of who started it. */
const childScript = (seconds: number) =>
  `mkdir "$LEASEHOLD_RUN_DIR/temp/held-$$"; sleep ${seconds}; rmdir "$LEASEHOLD_RUN_DIR/temp/held-$$"`

/** By which others know such a child among all processes. */
export const childName = "leasehold-verbs-child"

/** The verbs, as this one does them. */
export const make = (actor: Actor) => {
  const { deadly, me, nth, random, write } = actor
  const below = (limit: number) => Math.floor(random() * limit)

  /** The place of the owner, of which there is one: what one that was killed has left there is nobody's. */
  const sit = (dir: string, wrong: (detail: string) => void) => {
    const seat = `${dir}/artifacts/owner`
    const take = () => attempt(() => NFS.writeFileSync(seat, selfOf(), { flag: "wx" }))
    if (take()) return
    const other = NFS.readFileSync(seat, "utf8")
    if (isRunning(other)) return wrong(`there is another owner: ${other}`)
    NFS.unlinkSync(seat)
    if (!take()) wrong("there is another owner, who has come just now")
  }

  /** Nothing in the bundle may change while it lasts, but for what those who work there do themselves. */
  const work = Effect.fnUntraced(function*(role: "owner" | "joined", id: RunId, length: number) {
    const { dir } = yield* Run.Run
    const own = `held-${me}-${nth()}`
    const wrong = (detail: string) => write("wrong", role, id, detail)
    write("in", role, id)
    if (role === "owner") sit(dir, wrong)
    for (const part of ["temp", "artifacts"]) {
      NFS.mkdirSync(`${dir}/${part}/${own}`)
      NFS.writeFileSync(`${dir}/${part}/${own}/file`, own)
    }
    if (role === "owner") rebuild(dir, id, `${dir}/artifacts/${own}`)
    // Who joins may come while the owner still fills it.
    const isWhole = !deadly || isFilled(dir)
    if (isWhole) { for (const each of damage(dir, id, role === "joined")) wrong(each) }
    const before = traces(dir, own)
    yield* turns(length)
    if (isWhole) { for (const each of changed(before, traces(dir, own))) wrong(`changed while it was held: ${each}`) }
    for (const part of ["temp", "artifacts"]) NFS.rmSync(`${dir}/${part}/${own}`, { recursive: true })
    if (role === "owner") NFS.unlinkSync(`${dir}/artifacts/owner`)
    write("out", role, id)
  })

  const runChild = Effect.suspend(() =>
    Child.run({ argv: ["sh", "-c", childScript(below(30) / 100), childName], output: "keep" })
  )

  const resume: Verb = (id) => {
    const length = below(60)
    return work("owner", id, length).pipe(
      Effect.andThen(deadly && below(3) === 0 ? runChild : Effect.void),
      Run.resume(id, { rebuilds: below(4) > 0, ...quiet }),
      Effect.as("ok")
    )
  }

  const attach: Verb = (id) => {
    const length = below(60)
    return work("joined", id, length).pipe(Run.attach({ run: id, patience: below(30), telemetry }), Effect.as("ok"))
  }

  const prune: Verb = () =>
    Retention.run({
      policy: policies[below(policies.length)],
      budget: { maxRemoved: 1 + below(2), maxTime: "1 minute" },
      onEvent: (event) =>
        Effect.sync(() => {
          if (event._tag !== "Kept" || event.reason._tag !== "Unknown") return
          write("wrong", "prune", event.id, `nothing certain is known: ${event.reason.detail}`)
        })
    }).pipe(
      Effect.map((report) => {
        for (const { id } of [...report.removed, ...report.expired]) write("end", "expire", id, "ok")
        // One that is stopped while it writes a record, or has an archive, keeps a pass from it for as long.
        const failed = report.failed.filter(({ reason }) => !deadly || !reason.endsWith("(EBUSY on lock)"))
        for (const { id, reason } of failed) write("wrong", "prune", id, reason)
        const unknown = report.debt?.reasons["unknown"]
        if (unknown !== undefined) write("wrong", "prune", "-", `counts ${unknown} as unknown`)
        return report.otherPass ? "other pass" : "ok"
      })
    )

  const pin: Verb = (id) => {
    const length = below(10)
    return Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      yield* store.pin(id, "for a moment")
      yield* turns(length)
      yield* store.unpin(id)
      return "ok"
    })
  }

  const unpin: Verb = (id) => Effect.flatMap(RunStore.RunStore, (store) => Effect.as(store.unpin(id), "ok"))

  const recover: Verb = (id) =>
    Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      const recovered = yield* Recovery.recoverEntry(yield* store.get(id))
      if (recovered._tag === "Unknown") write("wrong", "recover", id, recovered.reason)
      if (recovered._tag === "Failed") write("wrong", "recover", id, recovered.error.message)
      return "ok"
    })

  const list: Verb = () =>
    Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      for (const entry of yield* Stream.runCollect(store.list)) yield* store.liveness(entry)
      yield* Stream.runDrain(RunArchive.list)
      return "ok"
    })

  const verify: Verb = () =>
    Effect.gen(function*() {
      const findings = yield* Stream.runCollect(Stream.filter(Verification.check(), isOpenProblem))
      return findings.length === 0 ? "ok" : `found ${[...new Set(findings.map(({ fault }) => fault._tag))].sort()}`
    })

  /** A run of which all is told from within, and what it is filled with. */
  const begin = (inside: Effect.Effect<unknown, unknown, Run.Run | Scope.Scope>) =>
    Run.Run.pipe(
      Effect.tap(({ dir, id }) => Effect.sync(() => fill(dir, id))),
      Effect.tap(({ id }) => Effect.sync(() => write("made", "make", id))),
      Effect.tap(() => inside),
      Effect.map(({ id }) => id),
      Run.scoped({ name: "verbs", ...quiet })
    )

  /** With a hook, which works under the lease when the program has ended, and a child. */
  const run: Verb = () =>
    begin(
      Effect.gen(function*() {
        const { dir, id } = yield* Run.Run
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            for (const each of damage(dir, id, false)) write("wrong", "hook", id, each)
          })
        )
        yield* work("owner", id, below(60))
        yield* below(2) === 0 ? runChild : Effect.void
      })
    ).pipe(Effect.scoped, Effect.as("ok"))

  return {
    verbs: {
      resume,
      attach,
      prune,
      pin,
      unpin,
      recover,
      list,
      verify,
      run,
      trim: (id) => Effect.as(RunTrim.trim(id), "ok"),
      archive: (id) => Effect.as(RunArchive.archive(id), "ok"),
      restore: (id) => Effect.as(RunArchive.restore(id), "ok"),
      rm: (id) => Effect.as(remove(id), "ok")
    } satisfies Readonly<Record<string, Verb>>,
    begin
  }
}

export type VerbName = keyof ReturnType<typeof make>["verbs"]

/** Their names, each as often as it weighs. */
export const weighed = (weights: Partial<Record<VerbName, number>>): ReadonlyArray<VerbName> =>
  Object.entries(weights).flatMap(([name, weight]) => Array<VerbName>(weight).fill(name as VerbName))

const outcomeOf = (exit: Exit.Exit<string, unknown>) => {
  if (Exit.isSuccess(exit)) return exit.value
  const [reason] = exit.cause.reasons
  if (exit.cause.reasons.length !== 1 || reason?._tag !== "Fail") return `defect ${Cause.pretty(exit.cause)}`
  const error = reason.error as { _tag: string; reason?: { _tag: string }; message: string }
  const name = `${error._tag}.${error.reason?._tag}`
  return /Undecided|System|Unusable|Corrupt|Partial|undefined/.test(name) ? `${name} ${error.message}` : name
}

/** Does one of them, and tells what came of it. */
export const perform = Effect.fnUntraced(function*(actor: Actor, verb: Verb, id: RunId) {
  actor.write("begin", actor.verb(), id)
  const exit = yield* Effect.exit(Effect.scoped(verb(id)))
  actor.write("end", actor.verb(), id, outcomeOf(exit))
})
