/**
 * Every verb beside every other: 8 processes do one after another, at random, to 20 runs of one store, 400 times in all,
 * or as often as `LEASEHOLD_INTERLEAVINGS` says. `LEASEHOLD_SEED` brings back what each of them does.
 *
 *     LEASEHOLD_INTERLEAVINGS=10000 npx vitest run test/processes/VerbRaces.test.ts
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as Retention from "../../src/Retention.ts"
import * as Run from "../../src/Run.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import { isTerminal } from "../../src/RunRecord.ts"
import * as RunStore from "../../src/RunStore.ts"
import { toRebuild } from "../../src/TrimHistory.ts"
import * as Verification from "../../src/Verification.ts"
import { isOpenProblem } from "../../src/VerificationFinding.ts"
import { names, recordAt } from "../support/CommandLine.ts"
import { damage, fill } from "../support/Contents.ts"
import { counts, removals, wrongs } from "../support/History.ts"
import * as Journal from "../support/Journal.ts"
import { filed, inStore, isSwept, present } from "../support/Stores.ts"
import { fixture } from "../support/Worker.ts"

const interleavings = Number(process.env["LEASEHOLD_INTERLEAVINGS"] ?? 400)
const seed = Number(process.env["LEASEHOLD_SEED"] ?? Math.floor(Math.random() * 1e9))

const processes = 8
const runs = 20

const makeRuns = Effect.fnUntraced(function*(root: string, journal: Journal.Write) {
  NFS.mkdirSync(`${root}-slots`)
  for (let nth = 0; nth < runs; nth++) {
    const id = yield* Run.Run.pipe(
      Effect.tap(({ dir, id }) => Effect.sync(() => fill(dir, id))),
      Effect.map(({ id }) => id),
      Run.scoped({ name: "verbs", retention: "off", telemetry: { events: false, spans: false } })
    )
    NFS.writeFileSync(`${root}-slots/${nth}`, id)
    journal("made", "make", id)
  }
})

/** All of them begin when all are there. */
const race = Effect.fnUntraced(function*(root: string) {
  const gate = `${root}-gate`
  NodeChildProcess.execFileSync("mkfifo", [gate])
  const fd = yield* Effect.acquireRelease(
    Effect.sync(() => NFS.openSync(gate, "r+")),
    (fd) => Effect.sync(() => NFS.closeSync(fd))
  )
  const numbers = [seed, runs, Math.ceil(interleavings / processes)].map(String)
  const args = [root, `${root}-slots`, `${root}-journal`, gate, ...numbers]
  const workers = yield* Effect.forEach(
    Array.from({ length: processes }, (_, nth) => nth),
    (nth) => fixture("verbs.ts", [...args, String(nth)])
  )
  for (const worker of workers) yield* worker.line("ready")
  NFS.writeSync(fd, "x".repeat(processes))
  for (const worker of workers) {
    const { code, stderr, stdout } = yield* worker.exit
    assert.deepStrictEqual([code, stdout, stderr], [0, "ready\n", ""])
  }
})

const archives = (root: string) => filed(root, ".tar.zst")

/** Nobody works there any more, and nobody has left anything but what was made, or has been trimmed. */
const isWhole = (dir: string, id: string) => {
  const record = recordAt(dir)
  assert.deepStrictEqual([record.id, isTerminal(record), record.pin], [id, true, undefined])
  assert.deepStrictEqual(damage(dir, id, toRebuild(record).length > 0), [], id)
  assert.deepStrictEqual(names(`${dir}/holders`), [], id)
  const files = NFS.readdirSync(dir, { recursive: true }).map(String)
  assert.deepStrictEqual(files.filter((name) => /held-|owner|\.tmp$/.test(name)), [], id)
}

const problems = Effect.map(Stream.runCollect(Verification.check()), (all) => all.filter(isOpenProblem))

const sort = (ids: Iterable<string>) => [...ids].sort()

describe("verbs of many processes", () => {
  it.live(
    `keep out of each other's way, and lose nothing, ${interleavings} times`,
    () =>
      inStore((root) =>
        Effect.gen(function*() {
          const store = yield* RunStore.RunStore
          console.log(`LEASEHOLD_SEED=${seed}`)
          yield* makeRuns(root, Journal.open(`${root}-journal`, -1, () => 0))
          yield* race(root)
          const lines = Journal.read(`${root}-journal`)
          console.log(counts(lines))
          assert.deepStrictEqual(wrongs(lines), [], `LEASEHOLD_SEED=${seed}`)

          yield* Retention.run({ policy: { maxBundles: 1_000_000 }, budget: { maxTime: "1 minute" } })
          isSwept(root)
          const listed = sort((yield* Stream.runCollect(store.list)).map(({ id }) => id))
          const inArchive = sort((yield* Stream.runCollect(RunArchive.list)).map(({ id }) => id))
          assert.deepStrictEqual([listed, inArchive], [sort(present(root)), archives(root)])
          // Only of a run that is there it may matter when it was restored.
          assert.includeMembers(listed, [...filed(root, ".restored")])
          const made = sort(lines.flatMap(({ event, id }) => event === "made" ? [id] : []))
          const removed = removals(lines).map(({ id }) => id)
          assert.deepStrictEqual(sort([...listed, ...inArchive, ...removed]), made)

          for (const id of listed) isWhole(store.dir(id as never), id)
          assert.deepStrictEqual(yield* problems, [])
          for (const { id } of yield* Stream.runCollect(RunArchive.list)) yield* RunArchive.restore(id)
          for (const id of inArchive) isWhole(store.dir(id as never), id)
          assert.deepStrictEqual([sort(present(root)), archives(root)], [sort([...listed, ...inArchive]), []])
          assert.deepStrictEqual(yield* problems, [])
          isSwept(root)
        })
      ),
    60_000 + interleavings * 100
  )
})
