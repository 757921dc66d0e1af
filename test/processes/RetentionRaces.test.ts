/**
 * Passes beside processes that hold, join, resume and create bundles.
 *
 * Where the order is what matters, two real processes meet at a call that one of them is stopped at. How it goes when
 * nobody stops anybody is tried in rounds with random pauses, with fibers in place of processes, since kernel locks tell
 * descriptors apart and not processes: 30 rounds of each order, or as many as `LEASEHOLD_ROUNDS` says:
 *
 *     LEASEHOLD_ROUNDS=1000 npx vitest run test/processes/RetentionRaces.test.ts -t rounds
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as NFS from "node:fs"
import { Lease } from "../../src/Lease.ts"
import * as Retention from "../../src/Retention.ts"
import type { Report } from "../../src/RetentionReport.ts"
import { bundles, json, onlyRecord, recordAt, shell } from "../support/CommandLine.ts"
import { once, watch } from "../support/Doors.ts"
import { bundle, type Made, series } from "../support/Fabricate.ts"
import { ids, inStore, isSwept, makeStore, present, removedBy, traces, withRoot } from "../support/Stores.ts"
import { day, hour } from "../support/Time.ts"
import { command, type Exit, fixture, gate, leasehold, run, start } from "../support/Worker.ts"

const limits: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["count", ["--max-bundles", "1"]],
  ["age", ["--max-age", "1ms"]],
  ["bytes", ["--max-bytes", "1B"]],
  ["free space", ["--min-free", "1000TiB"]]
]

const prune = (root: string, args: ReadonlyArray<string>): Effect.Effect<Report> => json(root, ["prune", ...args])

/** Beside an older run that is pinned each of the limits comes to the only other one, whatever its state is. */
const isKeptByEveryLimit = Effect.fnUntraced(function*(root: string) {
  if (bundles(root).length === 1) bundle(root, { startedAt: Date.now() - day, pin: "for good" })
  for (const [limit, args] of limits) {
    const report = yield* prune(root, args)
    assert.deepStrictEqual([report.kept, report.removed, report.debt], [{ live: 1, pinned: 1 }, [], null], limit)
  }
})

/** One of them is carried out. A run whose end nobody knows ended when it was found, so it takes a while to be old. */
const goesByEveryLimit = Effect.fnUntraced(function*(root: string, carriedOut: string) {
  const id = present(root).at(-1)!
  yield* prune(root, ["--max-bundles", "100"])
  for (const [limit, args] of limits) {
    if (limit !== carriedOut) {
      assert.deepStrictEqual(removedBy(yield* prune(root, [...args, "--dry-run"])), [id], limit)
    }
  }
  const args = limits.find(([limit]) => limit === carriedOut)![1]
  assert.deepStrictEqual(removedBy(yield* prune(root, args)), [id], carriedOut)
  assert.strictEqual(bundles(root).length, 1)
})

describe("no limit comes to what is held, and every limit to what was let go", () => {
  it.live("bug 07, bug 06: for its owner, at work and in a clean-up hook with its outcome written", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const hook = yield* gate(`${root}-hook`)
        const owner = yield* leasehold(root, [
          "run",
          "--retention=off",
          "--cleanup",
          `echo cleaning-up; ${hook.wait}`,
          ...shell(`echo at-work; ${end.wait}`)
        ])
        yield* owner.line("at-work")
        yield* isKeptByEveryLimit(root)
        yield* end.open
        yield* owner.line("cleaning-up")
        assert.strictEqual(recordAt(bundles(root).at(-1)!).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* hook.open
        assert.strictEqual((yield* owner.exit).code, 0)
        yield* goesByEveryLimit(root, "count")
      })
    ))

  it.live("for who has joined it, when the owner is gone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const leave = yield* gate(`${root}-leave`)
        const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(`echo at-work; ${end.wait}`)])
        yield* owner.line("at-work")
        const join = `${process.execPath} ${import.meta.dirname}/fixtures/join.ts ${root} latest`
        const joined = yield* start(["sh", "-c", `{ ${leave.wait}; } | ${join}`])
        yield* joined.line("joined")
        yield* end.open
        yield* owner.exit
        assert.strictEqual(onlyRecord(root).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* leave.open
        yield* joined.exit
        yield* goesByEveryLimit(root, "bytes")
      })
    ))

  it.live("bug 13: for a child that was handed a lease, when its owner was killed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const gone = yield* gate(`${root}-gone`)
        const script = `echo at-work; ${end.wait}; exec 3>&-; ${gone.wait}`
        const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(script)])
        yield* owner.line("at-work")
        yield* owner.kill("SIGKILL")
        yield* owner.exit
        assert.strictEqual(onlyRecord(root).status, "running")
        yield* isKeptByEveryLimit(root)
        assert.strictEqual(recordAt(bundles(root).at(-1)!).status, "running")
        yield* end.open
        // The child waits once more, having closed its lease.
        yield* gone.open
        yield* goesByEveryLimit(root, "free space")
      })
    ))

  it.live("bug 03: for a child that outlives the call that started it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const gone = yield* gate(`${root}-gone`)
        const server = `( ${end.wait}; exec 3>&-; ${gone.wait} ) > /dev/null 2>&1 &`
        const exit = yield* run(root, ["run", "--retention=off", ...shell(server)])
        assert.strictEqual(exit.code, 0)
        assert.strictEqual(onlyRecord(root).status, "ok")
        yield* isKeptByEveryLimit(root)
        yield* end.open
        yield* gone.open
        yield* goesByEveryLimit(root, "age")
      })
    ))
})

/** The calls that a pass takes the claim on a bundle with, and that it removes the bundle with. */
const isClaimOf = ({ dir }: Made) => (call: string, [path]: ReadonlyArray<string>) =>
  call === "tryExclusive" && path === `${dir}/lease`

const isRemovalOf = ({ dir }: Made) => (call: string, [path]: ReadonlyArray<string>) =>
  call === "rename" && path === dir

/** A pass that removes everything, and what happens in the moment before one of its calls. */
const pruneAround = <R>(isTheMoment: ReturnType<typeof isClaimOf>, step: Effect.Effect<void, never, R>) =>
  Effect.flatMap(
    Effect.context<R>(),
    (context) =>
      watch(once(isTheMoment, Effect.provideContext(step, context)))(
        Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
      )
  )

/** A process that comes for a bundle and keeps it until it is let go. */
const comer = Effect.fnUntraced(function*(root: string, { id }: Made, how: "hold" | "claim", patience = 60_000) {
  const path = `${root}-${id}-${how}`
  const end = yield* gate(path)
  const worker = yield* fixture("hold.ts", [root, id, how, String(patience), path])
  return { ...worker, leave: Effect.andThen(end.open, worker.exit) }
})

const untouched = (before: ReadonlyArray<string>, { dir }: Made) => {
  const isNotOfHolders = (line: string) => !line.startsWith("holders")
  assert.deepStrictEqual(traces(dir).filter(isNotOfHolders), before.filter(isNotOfHolders))
}

describe("of a pass and somebody who comes for the same bundle exactly one has it", () => {
  it.live.each([["joiner", "hold"], ["resumer", "claim"]] as const)(
    "bug 10, bug 11: a %s between decision and claim, and not a byte is touched",
    ([_, how]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const [before, met, after] = series(root, 3, Date.now(), { size: 5000 }) as [Made, Made, Made]
          const was = traces(met.dir)
          let leave: Effect.Effect<unknown> = Effect.void
          const report = yield* pruneAround(
            isClaimOf(met),
            Effect.gen(function*() {
              const other = yield* comer(root, met, how)
              yield* other.line("held")
              leave = other.leave
            })
          )
          assert.deepStrictEqual(report.kept, { live: 1 })
          assert.deepStrictEqual(removedBy(report), [before.id, after.id])
          yield* leave
          untouched(was, met)
          assert.deepStrictEqual(
            removedBy(yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })),
            [met.id]
          )
        })
      )
  )

  it.live("bug 11: who died before its recovery and is resumed between the look and the claim stays as it was", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day, status: "running" })
        const was = traces(met.dir)
        let looks = 0
        const isSecondLook: ReturnType<typeof isClaimOf> = (call, paths) => isClaimOf(met)(call, paths) && ++looks === 2
        const come = Effect.gen(function*() {
          const other = yield* comer(root, met, "hold")
          yield* other.line("held")
        })
        const report = yield* pruneAround(isSecondLook, come)
        assert.strictEqual(looks >= 2, true)
        assert.deepStrictEqual([report.kept, report.recovered, report.removed], [{ live: 1 }, [], []])
        untouched(was, met)
      })
    ))

  it.live("bug 11: a pass under whose claim a joiner waits, and the joiner learns that the run has gone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day, size: 5000 })
        let told: Effect.Effect<string> = Effect.die("nobody came")
        const report = yield* pruneAround(
          isRemovalOf(met),
          Effect.gen(function*() {
            const other = yield* comer(root, met, "hold")
            yield* other.line("waiting")
            told = other.line("refused ")
          })
        )
        assert.deepStrictEqual(removedBy(report), [met.id])
        assert.strictEqual(yield* told, "RunGone")
      })
    ))

  it.live("bug 11: a pass under whose claim one with no patience and a resumer give up", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day, size: 5000 })
        const answers: Array<string> = []
        const report = yield* pruneAround(
          isRemovalOf(met),
          Effect.gen(function*() {
            const joiner = yield* comer(root, met, "hold", 0)
            const resumer = yield* comer(root, met, "claim")
            answers.push(yield* joiner.line("refused "), yield* resumer.line("refused "))
          })
        )
        assert.deepStrictEqual(answers, ["Claimed", "Held"])
        assert.deepStrictEqual(removedBy(report), [met.id])
      })
    ))
})

describe("of a pass and leasehold resume", () => {
  const resume = (root: string, { id }: Made, script: string) =>
    leasehold(root, ["resume", id, "--retention=off", ...shell(script)])

  it.live("bug 10: the run is gone on with, when its lease is taken before the claim", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day, size: 5000 })
        for (const part of ["logs", "temp"]) NFS.mkdirSync(`${met.dir}/${part}`)
        const end = yield* gate(`${root}-end`)
        let exit: Effect.Effect<Exit> = Effect.die("nobody came")
        const report = yield* pruneAround(
          isClaimOf(met),
          Effect.gen(function*() {
            const resumed = yield* resume(root, met, `echo at-work; ${end.wait}`)
            yield* resumed.line("at-work")
            exit = resumed.exit
          })
        )
        assert.deepStrictEqual([report.kept, report.removed], [{ live: 1 }, []])
        yield* end.open
        assert.strictEqual((yield* exit).code, 0)
        assert.strictEqual(NFS.statSync(`${met.dir}/artifacts/data`).size, 5000)
        assert.deepStrictEqual(
          removedBy(yield* Retention.run({ policy: { maxAge: "1 hour" }, budget: { maxTime: "1 minute" } })),
          []
        )
      })
    ))

  it.live("bug 11: the run is removed, when somebody comes under the claim, who is told so", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day, size: 5000 })
        const codes: Array<number | null> = []
        const come = Effect.gen(function*() {
          const resumed = yield* resume(root, met, "echo at-work")
          const { code, stdout } = yield* resumed.exit
          assert.strictEqual(stdout, "")
          codes.push(code)
        })
        const report = yield* pruneAround(isRemovalOf(met), come)
        assert.deepStrictEqual(removedBy(report), [met.id])
        yield* come
        assert.deepStrictEqual(codes, [4, 5])
      })
    ))
})

const rounds = Number(process.env["LEASEHOLD_ROUNDS"] ?? 30)

const randomPause = Effect.gen(function*() {
  for (let turns = yield* Random.nextIntBetween(0, 20); turns > 0; turns--) yield* Effect.yieldNow
  if (yield* Random.nextBoolean) yield* Effect.sleep(yield* Random.nextBetween(0, 3))
})

/** Somebody joins at about the time at which a pass makes one of its calls. Says which of the two had the bundle. */
const meet = Effect.fnUntraced(function*(root: string, moment: (met: Made) => ReturnType<typeof isClaimOf>) {
  const lease = yield* Lease
  const met = bundle(root, { startedAt: Date.now() - day, size: 100 })
  const was = traces(met.dir)
  const reached = yield* Deferred.make<void>()
  const over = yield* Deferred.make<void>()
  const join = Effect.gen(function*() {
    yield* Deferred.await(reached)
    yield* randomPause
    yield* lease.hold(met, { role: "joined" })
    yield* Deferred.await(over)
    untouched(was, met)
  })
  const joiner = yield* Effect.forkChild(Effect.result(Effect.scoped(join)))
  const pass = pruneAround(moment(met), Effect.andThen(Deferred.succeed(reached, undefined), randomPause))
  const report = yield* Effect.ensuring(pass, Deferred.succeed(over, undefined))
  const joined = yield* Fiber.join(joiner)
  if (Result.isSuccess(joined)) {
    assert.deepStrictEqual([report.kept, report.removed], [{ live: 1 }, []])
    NFS.rmSync(met.dir, { recursive: true })
    return "joiner"
  }
  assert.strictEqual(joined.failure.reason._tag, "RunGone")
  assert.deepStrictEqual(removedBy(report), [met.id])
  assert.isFalse(NFS.existsSync(met.dir))
  return "pass"
})

describe(`in ${rounds} rounds with random pauses`, () => {
  it.live.each(
    [
      ["a joiner about the claim of a pass", isClaimOf],
      ["a joiner under the claim of a pass", isRemovalOf]
    ] as const
  )(
    "bug 10, bug 11: %s: exactly one of them has the bundle",
    ([_, moment]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const won = { joiner: 0, pass: 0 }
          for (let round = 0; round < rounds; round++) won[yield* meet(root, moment)]++
          if (rounds > 30) console.log(`${rounds} rounds: the joiner had it ${won.joiner} times, the pass ${won.pass}`)
          assert.strictEqual(won.joiner + won.pass, rounds)
          if (moment === isRemovalOf) assert.strictEqual(won.pass, rounds)
        })
      ),
    600_000
  )
})

/** Makes everything about a bundle look as old as can be, its record included. */
const age = (dir: string, millis: number) => {
  const then = new Date(Date.now() - millis)
  const record = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...record, startedAt: then.toISOString() }))
  for (const name of NFS.readdirSync(dir, { recursive: true })) NFS.lutimesSync(`${dir}/${String(name)}`, then, then)
  NFS.lutimesSync(dir, then, then)
}

const ownerAtWork = Effect.fnUntraced(function*(root: string) {
  const end = yield* gate(`${root}-end`)
  const owner = yield* leasehold(root, ["run", "--retention=off", ...shell(`echo at-work; ${end.wait}`)])
  yield* owner.line("at-work")
  return { ...owner, dir: bundles(root).at(-1)! }
})

describe("a pass keeps a live run", () => {
  it.live("bug 01, bug 02: however old it looks and whichever flags there are, and takes it when it has ended", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        age(owner.dir, 30 * day)
        const was = traces(owner.dir)
        const flags = [
          ["--max-age", "1d", "--max-bundles", "1", "--max-bytes", "1B"],
          ["--max-age", "4h"],
          ["--all", "--all-the-way"]
        ]
        for (const args of flags) {
          const report = yield* prune(root, args)
          assert.deepStrictEqual([report.kept, report.removed], [{ live: 1 }, []])
        }
        assert.deepStrictEqual(traces(owner.dir), was)
        yield* owner.kill("SIGTERM")
        assert.strictEqual((yield* owner.exit).code, 143)
        assert.strictEqual((yield* prune(root, ["--all"])).removed.length, 1)
      })
    ))

  it.live("bug 08: beside the newest two, which stay as well; of a count it takes a place", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        const [older, newer] = series(root, 2, Date.now() - hour) as [Made, Made]
        assert.deepStrictEqual((yield* prune(root, ["--keep-last", "2"])).removed, [])
        assert.deepStrictEqual(removedBy(yield* prune(root, ["--max-bundles", "2"])), [older.id])
        assert.deepStrictEqual(bundles(root), [newer.dir, owner.dir])
      })
    ))

  it.live("bug 35: that has gone on for days: it ends, has taken the others, and names who holds it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const owner = yield* ownerAtWork(root)
        age(owner.dir, 9 * day)
        series(root, 50, Date.now() - day)
        const holders: Array<number> = []
        const report = yield* Retention.run({
          policy: { all: true },
          onEvent: (event) =>
            Effect.sync(() => {
              if (event._tag === "Kept") holders.push(...event.holders.map(({ pid }) => pid))
            })
        })
        assert.deepStrictEqual([report.removed.length, report.kept, report.debt], [50, { live: 1 }, null])
        assert.include(holders, owner.pid)
        const { code, stdout } = yield* run(root, ["prune", "--all"])
        assert.strictEqual(code, 0)
        assert.include(stdout, `kept ${present(root)[0]}: live`)
      })
    ))
})

describe("a pass in the middle of a creation", () => {
  it.live("bug 09: at each of its calls takes nothing of it, or the creation begins anew", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const go = yield* gate(`${root}-go`)
        const creator = yield* fixture("create.ts", [root, `${root}-go`])
        const stops: Array<string> = []
        for (let nth = 1;; nth++) {
          const next = yield* Effect.raceFirst(
            creator.line(`stopped ${nth} at `),
            Effect.as(creator.line(`made ${nth} `), "")
          )
          if (next === "") break
          stops.push(next)
          const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
          assert.deepStrictEqual([report.failed, report.debt], [[], null], next)
          yield* go.open
          const dir = yield* creator.line(`made ${nth} `)
          assert.deepStrictEqual(NFS.readdirSync(dir).sort(), [
            "artifacts",
            "holders",
            "lease",
            "logs",
            "run.json",
            "telemetry",
            "temp"
          ])
          assert.deepStrictEqual(
            (yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })).kept,
            { live: 1 },
            next
          )
          yield* go.open
        }
        assert.includeMembers(stops, ["mkdir", "open", "tryShared", "rename"])
        assert.isAbove(stops.length, 15)
        yield* go.open
        assert.strictEqual((yield* creator.exit).code, 0)
        yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual(bundles(root), [])
        isSwept(root)
      })
    ))
})

describe("wherever the root comes from", () => {
  it.live("bug 50: by flag, by the environment or by default, the decisions are the same", () =>
    withRoot(Effect.fnUntraced(function*(dir) {
      const roots = ["flag", "environment", "default/leasehold"].map((name) => `${dir}/${name}`)
      series(roots[0]!, 20, Date.now() - hour, { size: 100 })
      bundle(roots[0]!, { startedAt: Date.now() - 90 * day, pin: "for good" })
      bundle(roots[0]!, { startedAt: Date.now() - 80 * day, status: "running" })
      makeStore(roots[0]!)
      for (const root of roots.slice(1)) NFS.cpSync(roots[0]!, root, { recursive: true, preserveTimestamps: true })
      const how: ReadonlyArray<readonly [ReadonlyArray<string>, Record<string, string>]> = [
        [["--root", roots[0]!], { LEASEHOLD_ROOT: "/nonexistent" }],
        [[], { LEASEHOLD_ROOT: roots[1]! }],
        [[], { XDG_STATE_HOME: `${dir}/default` }]
      ]
      const reports = yield* Effect.forEach(how, ([args, env]) =>
        Effect.gen(function*() {
          const argv = [process.execPath, command, "prune", "--max-bundles", "10", "--json", "--allow-temp", ...args]
          const { stdout } = yield* (yield* start(argv as [string, ...Array<string>], { env })).exit
          return { ...JSON.parse(stdout), elapsedMs: 0 } as Report
        }))
      assert.strictEqual(reports[0]!.removed.length, 12)
      assert.deepStrictEqual(reports[1], reports[0])
      assert.deepStrictEqual(reports[2], reports[0])
      assert.deepStrictEqual(roots.map((root) => bundles(root).length), [10, 10, 10])
    })))
})

describe("passes beside one another", () => {
  /** The outsider begins when the first bundle has gone, and at the other end. */
  const together = Effect.fnUntraced(function*(root: string) {
    const made = series(root, 500, Date.now(), { size: 10 })
    const outsiders = made.filter((_, index) => index % 10 === 3)
    const passes = yield* Effect.forEach(
      [1, 2, 3, 4, 5, 6, 7, 8],
      () => leasehold(root, ["prune", "--all", "--all-the-way"])
    )
    yield* Effect.raceAllFirst(
      passes.map((pass) => Effect.catchCause(pass.line("removed "), () => Effect.never))
    )
    const remove = `for dir; do rm -rf "$dir"; done`
    const outsider = yield* start(["sh", "-c", remove, "sh", ...outsiders.toReversed().map(({ dir }) => dir)])
    const exits = yield* Effect.forEach(passes, (pass) => pass.exit)
    assert.strictEqual((yield* outsider.exit).stderr, "")
    const told = exits.map(({ stdout }) => stdout.split("\n").filter((line) => line !== ""))
    const idsIn = (pattern: RegExp) => told.flat().flatMap((line) => pattern.exec(line)?.[1] ?? [])
    const removed = idsIn(/^removed (\S+): /)
    assert.strictEqual(new Set(removed).size, removed.length)
    // One that the outsider is at may be seen half gone. Beside that nothing was kept, and nothing failed.
    const halfGone = idsIn(/^kept (\S+): unknown: run.json is missing$/)
    assert.includeMembers(ids(outsiders), halfGone)
    assert.strictEqual(removed.length + halfGone.length, told.flat().length)
    for (const { code } of exits) assert.include(halfGone.length > 0 ? [0, 3] : [0], code)
    assert.includeMembers(removed, ids(made.filter((one) => !outsiders.includes(one))))
    assert.deepStrictEqual(bundles(root), [])
    isSwept(root)
    return { exits, told }
  })

  it.live("bug 44: eight of them and an outsider's rm -rf: no error, and each bundle counted once", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { exits } = yield* together(root)
        assert.isTrue(exits.some(({ stderr }) => stderr === "another pass is at work in this store\n"))
      })
    ))

  it.live("bug 44: the same where no lock of passes can be had, so that all of them are at work", () =>
    inStore((root) =>
      Effect.gen(function*() {
        NFS.mkdirSync(`${root}/retention.lock`, { recursive: true })
        const { told } = yield* together(root)
        assert.isAbove(told.filter((lines) => lines.length > 0).length, 1)
      })
    ))

  it.live("one that is stopped, with the lock of passes in its hand, holds up no start, and another says so", () =>
    inStore((root) =>
      Effect.gen(function*() {
        series(root, 3, Date.now())
        const stopped = yield* fixture("pass.ts", [root])
        yield* stopped.line("at-work")
        yield* stopped.kill("SIGSTOP")
        const started = yield* run(root, ["run", ...shell("echo at-work")])
        assert.deepStrictEqual([started.code, started.stdout, started.stderr], [0, "at-work\n", ""])
        const told = yield* run(root, ["prune", "--all", "--json"])
        assert.deepStrictEqual([told.code, JSON.parse(told.stdout).otherPass], [0, true])
        const said = yield* run(root, ["prune", "--all"])
        assert.deepStrictEqual([said.code, said.stderr], [0, "another pass is at work in this store\n"])
      })
    ))
})

describe("of a pass and somebody who pins the same bundle", () => {
  const isLockOfRecord = ({ dir }: Made) => (call: string, [path]: ReadonlyArray<string>) =>
    call === "tryExclusive" && path === `${dir}/run.json`

  it.live("bug 55: who comes under the claim and before the last look is heeded", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day })
        const report = yield* pruneAround(isLockOfRecord(met), Effect.asVoid(run(root, ["pin", met.id])))
        assert.deepStrictEqual([report.kept, report.removed], [{ pinned: 1 }, []])
        assert.isDefined(onlyRecord(root).pin)
      })
    ))

  it.live("bug 55: who comes later is told that the run has gone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const met = bundle(root, { startedAt: Date.now() - day })
        let told: Effect.Effect<Exit> = Effect.die("nobody came")
        const come = Effect.gen(function*() {
          const other = yield* fixture("pin.ts", [root, met.id])
          yield* other.line("waiting")
          told = other.exit
        })
        const report = yield* pruneAround(isRemovalOf(met), come)
        assert.deepStrictEqual(removedBy(report), [met.id])
        assert.include((yield* told).stdout, "refused")
      })
    ))

  it.live("one that is stopped with the record in its hand holds up no pass", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [met, other] = series(root, 2, Date.now()) as [Made, Made]
        const pinning = yield* fixture("pin.ts", [root, met.id, "stay"])
        yield* pinning.line("writing")
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual(removedBy(report), [other.id])
        assert.deepStrictEqual(report.failed.map(({ id }) => id), [met.id])
      })
    ))
})
