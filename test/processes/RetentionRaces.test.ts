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
import { onlyRecord, shell } from "../support/CommandLine.ts"
import { once, watch } from "../support/Doors.ts"
import { bundle, type Made, series } from "../support/Fabricate.ts"
import { inStore, removedBy, traces } from "../support/Stores.ts"
import { day } from "../support/Time.ts"
import { type Exit, fixture, gate, leasehold, run } from "../support/Worker.ts"

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
