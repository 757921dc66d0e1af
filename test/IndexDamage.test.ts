/** What somebody or something has done to the index makes no difference to what a pass removes. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import { Lease } from "../src/Lease.ts"
import * as Retention from "../src/Retention.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import type { Report } from "../src/RetentionReport.ts"
import { untilPaid } from "../src/RetentionRounds.ts"
import { IndexBroken, RunIndex, type Session } from "../src/RunIndex.ts"
import * as Trees from "./fixtures/trees.ts"
import { bundle, series } from "./support/Fabricate.ts"
import { reseal, sql } from "./support/IndexPlace.ts"
import { ids, inStore, isSwept, makeStore, present, removedBy, withRoot, type World, world } from "./support/Stores.ts"
import { day, hour, minute } from "./support/Time.ts"
import * as Undo from "./support/Undo.ts"
import { fixture } from "./support/Worker.ts"

const now = Date.now()

/** Every kind of bundle, over some days. */
const plant = (root: string) => {
  for (let index = 0; index < 60; index++) {
    const startedAt = now - (60 - index) * 5 * hour
    const { dir } = bundle(root, {
      startedAt,
      name: `job-${index % 3}`,
      status: index % 9 === 4 ? "running" : index % 4 === 0 ? "error" : "ok",
      size: (index % 5) * 10_000 + 1,
      ...(index % 13 === 2 ? { pin: "for good" } : {}),
      ...(index % 7 === 3 ? { tags: { release: "1" } } : {})
    })
    if (index % 9 === 4) {
      NFS.mkdirSync(`${dir}/logs`)
      NFS.writeFileSync(
        `${dir}/logs/events.jsonl`,
        `${JSON.stringify({ timestamp: new Date(startedAt + minute).toISOString() })}\n`
      )
    }
    if (index % 20 === 5) NFS.writeFileSync(`${dir}/run.json`, "{")
    // A record that was written a moment ago is read again, in case somebody has unpinned it since.
    NFS.utimesSync(`${dir}/run.json`, startedAt / 1000, startedAt / 1000)
  }
  bundle(root, { startedAt: now - hour, endedAt: now + 300 * day })
  makeStore(root)
}

const policies: ReadonlyArray<PolicyInput> = [
  { maxBundles: 30, keepTag: ["release"] },
  { maxAge: "6 days", keepDaily: 9 },
  { maxBytes: "500 KiB" },
  { maxBundles: 5, groupBy: "name" }
]

/** However slow the machine is. */
const patient = { maxTime: "1 minute" } as const

/** Has everything read and measured, and removes nothing. */
const learn = Retention.run({ policy: { maxBundles: 1000, maxBytes: "1 GiB" }, budget: patient })

/** A store with an index that knows everything, and then something befalls it. */
const damaged = Effect.fnUntraced(function*(root: string, damage: (root: string) => unknown) {
  NFS.cpSync(template, root, { recursive: true, preserveTimestamps: true })
  yield* learn
  yield* learn
  const done = damage(root)
  if (Effect.isEffect(done)) yield* done as Effect.Effect<void, never, Scope.Scope>
})

interface Outcome {
  readonly planned: ReadonlyArray<Report["removed"]>
  readonly removed: Report["removed"]
  readonly kept: Report["kept"]
  readonly debt: Report["debt"]
  readonly left: ReadonlyArray<string>
}

/** What each of the policies would remove, and what one of them does. Sizes are no part of it: not all are measured. */
const prune = Effect.fnUntraced(function*(root: string) {
  const withoutBytes = ({ removed }: Report) => removed.map((each) => ({ ...each, bytes: null }))
  const planned: Array<Report["removed"]> = []
  for (const policy of policies) {
    planned.push(withoutBytes(yield* Retention.run({ policy, budget: patient, dryRun: true })))
  }
  const report = yield* Retention.run({ policy: policies[0]!, budget: patient })
  const outcome: Outcome = {
    planned,
    removed: withoutBytes(report),
    kept: report.kept,
    debt: report.debt,
    left: present(root)
  }
  assert.deepStrictEqual(report.failed, [])
  isSwept(root)
  return outcome
})

/** It is a file again, and a pass looks at no more than one with a true index does: at what nobody can read, if at that. */
const isWholeAgain = Effect.fnUntraced(function*(root: string) {
  const policy: PolicyInput = { maxBundles: 1000, maxBytes: "1 GiB" }
  let passes = 0
  for (let debt: unknown = true; debt !== null; passes++) {
    const report = yield* Retention.run({ policy, budget: { ...patient, maxLooked: 16 } })
    debt = report.debt?.reasons["unmeasured"] ?? null
    assert.isBelow(passes, 8)
  }
  const { looked } = yield* Retention.run({ policy, budget: { ...patient, maxLooked: 16 } })
  assert.isAtMost(looked, 3)
  const index = yield* RunIndex
  assert.deepStrictEqual((yield* Effect.scoped(index.open({ dryRun: true }))).kind, { _tag: "file" })
  assert.isTrue(NFS.lstatSync(`${root}/index.db`).isFile())
})

const pathOf = (root: string) => `${root}/index.db`

const inItsPlace = (make: (path: string) => void) => (root: string) => {
  NFS.rmSync(pathOf(root))
  make(pathOf(root))
}

const anId = "20200101T000000000Z-zzzzzzzz"

/** A row for a bundle that is not there, finished long ago or just now. */
const phantoms = (count: number, endedAt: number) =>
  Array.from(
    { length: count },
    (_, nth) =>
      `INSERT INTO bundle (id, state, status, ended_at, bytes, failures, trimmed, looked_at, words) VALUES
     ('${anId.slice(0, -4)}${
        String(nth).padStart(4, "0")
      }', 'finished', 'ok', ${endedAt}, 1000, 0, 0, 1, '["x",{},null,null]')`
  )
    .join(";")

const lies: ReadonlyArray<readonly [string, string]> = [
  ["rows for missing bundles", phantoms(50, now)],
  ["no rows for those that are there", "DELETE FROM bundle WHERE rowid % 2 = 0"],
  ["wrong states", "UPDATE bundle SET state = 'finished', status = 'ok' WHERE state <> 'finished'"],
  ["everything live", "UPDATE bundle SET state = 'running', status = 'running'"],
  ["wrong sizes", "UPDATE bundle SET bytes = 1 + rowid * 100000"],
  ["wrong ends", "UPDATE bundle SET ended_at = rowid"],
  ["nothing pinned and no tags", `UPDATE bundle SET words = '["x",{},null,null]'`],
  ["an id with a path in it", "UPDATE bundle SET id = '../../canary/' || rowid"],
  ["days that were never listed", "UPDATE day SET mtime = '1'"]
]

const damages: ReadonlyArray<readonly [string, (root: string) => unknown]> = [
  ["deleted", (root) => NFS.rmSync(pathOf(root))],
  ["empty", (root) => NFS.truncateSync(pathOf(root), 0)],
  ["cut short", (root) => NFS.truncateSync(pathOf(root), 20_000)],
  ["noise", (root) => NFS.writeFileSync(pathOf(root), NodeCrypto.randomBytes(NFS.statSync(pathOf(root)).size))],
  ["noise with its size and time put back", (root) => {
    NFS.writeFileSync(pathOf(root), NodeCrypto.randomBytes(NFS.statSync(pathOf(root)).size))
    reseal(root)
  }],
  ...lies.map(([name, text]) => [`a liar: ${name}`, (root: string) => sql(root, text)] as const),
  ["from a newer version", (root) => sql(root, "ALTER TABLE bundle ADD COLUMN more TEXT; PRAGMA user_version = 99")],
  ["a copy of itself", (root) => NodeChildProcess.execSync("cp -p index.db copy && mv copy index.db", { cwd: root })],
  ["a directory", inItsPlace((path) => NFS.mkdirSync(path))],
  ["a directory with something in it", inItsPlace((path) => NFS.mkdirSync(`${path}/x`, { recursive: true }))],
  ["a FIFO", inItsPlace((path) => NodeChildProcess.execFileSync("mkfifo", [path]))],
  [
    "a link to another file",
    inItsPlace((path) => {
      NFS.writeFileSync(`${path}-canary`, "canary")
      NFS.symlinkSync(`${path}-canary`, path)
    })
  ],
  ["a link to nowhere", inItsPlace((path) => NFS.symlinkSync("/nonexistent/index.db", path))],
  ["beside a journal", (root) => NFS.writeFileSync(`${pathOf(root)}-journal`, NodeCrypto.randomBytes(4096))]
]

let template = ""
let expected: Outcome

const inCopy = <A, E>(test: (root: string) => Effect.Effect<A, E, World | Scope.Scope>) =>
  withRoot((root) => Effect.provide(test(root), world(root)))

const outcomeOf = (damage: (root: string) => unknown) =>
  inCopy((root) => Effect.andThen(damaged(root, damage), prune(root)))

beforeAll(async () => {
  template = NFS.mkdtempSync("/tmp/leasehold-template-")
  plant(template)
  expected = await Effect.runPromise(outcomeOf(() => {}))
})

afterAll(() => NFS.rmSync(template, { recursive: true }))

describe("an index", () => {
  it("that is true has removals to show", () => {
    assert.deepStrictEqual(expected.planned.map(({ length }) => length > 5), [true, true, true, true])
    assert.deepStrictEqual(expected.planned[0], expected.removed)
    assert.includeMembers(Object.keys(expected.kept), ["pinned", "unknown", "keepTag"])
  })

  it.live.each(damages)(
    "makes no difference to the removals, and is whole again: %s",
    ([_, damage]) =>
      inCopy((root) =>
        Effect.gen(function*() {
          yield* damaged(root, damage)
          assert.deepStrictEqual(yield* prune(root), expected)
          yield* isWholeAgain(root)
          const canary = `${pathOf(root)}-canary`
          if (NFS.existsSync(canary)) assert.strictEqual(NFS.readFileSync(canary, "utf8"), "canary")
        })
      )
  )

  it.live("makes no difference and is left where it is: nobody may write to it", (context) =>
    inCopy((root) =>
      Effect.gen(function*() {
        if (!Trees.canFreeze) context.skip("may not make a file immutable")
        yield* damaged(root, (root) => Trees.freeze(pathOf(root)))
        assert.deepStrictEqual(yield* prune(root), expected)
        yield* Trees.thaw(pathOf(root))
        yield* isWholeAgain(root)
      })
    ))

  it.live("makes no difference: another process has it for itself", () =>
    inCopy((root) =>
      Effect.gen(function*() {
        yield* damaged(root, () => {})
        const other = yield* fixture("lock.ts", [pathOf(root)])
        yield* other.line("locked")
        assert.deepStrictEqual(yield* prune(root), expected)
        yield* other.kill("SIGKILL")
        yield* other.exit
        yield* isWholeAgain(root)
      })
    ))
})

describe("an index that lies, with its size and time put back, so that it is believed", () => {
  it.live.each(lies)(
    "leads to no removal that the records do not bear out: %s",
    ([_, text]) =>
      inCopy((root) =>
        Effect.gen(function*() {
          const lease = yield* Lease
          yield* damaged(root, () => {})
          const held = bundle(root, { startedAt: now - 90 * day })
          const pinned = bundle(root, { startedAt: now - 90 * day, pin: "for good" })
          yield* learn
          yield* lease.hold(held, { role: "joined" })
          NFS.mkdirSync(`${root}/../canary`)
          sql(root, text)
          reseal(root)
          const before = present(root)
          const report = yield* Retention.run({ policy: { maxAge: "60 days" }, budget: patient })
          assert.deepStrictEqual([report.removed, report.failed], [[], []])
          assert.deepStrictEqual(present(root), before)
          const all = yield* untilPaid({ policy: { all: true } })
          assert.deepStrictEqual(all.failed, [])
          assert.includeMembers([...present(root)], [held.id, pinned.id])
          assert.isTrue(NFS.existsSync(`${root}/../canary`))
        })
      )
  )
})

describe("an index that breaks under a pass", () => {
  type Change = (session: Session) => Partial<Session>

  const broken = Effect.fail(new IndexBroken({ cause: new Error("torn") }))

  /** A pass asks in its beginning, and for its report. */
  const once = <A>(ask: Effect.Effect<A, IndexBroken>) => {
    let asked = 0
    return Effect.suspend(() => asked++ === 0 ? ask : broken)
  }

  const prune = (change: Change, policy: PolicyInput = { all: true }) =>
    Effect.gen(function*() {
      const index = yield* RunIndex
      const open: typeof index.open = (options) =>
        Effect.map(index.open(options), (session) => ({ ...session, ...change(session) }))
      return yield* Retention.run({ policy, budget: { ...patient, maxRemoved: 5 } }).pipe(
        Effect.provideService(RunIndex, { ...index, open }),
        Effect.provideService(References.MinimumLogLevel, "None")
      )
    })

  it.live.each<readonly [string, Change]>([
    ["at its end", ({ unknowns }) => ({ unknowns: once(unknowns) })],
    ["at its commit", () => ({ commit: broken })]
  ])(
    "%s: no more goes than the budget allows, what is left is counted once, and the trash is swept",
    ([_, change]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = series(root, 20, now)
          const report = yield* prune(change)
          assert.deepStrictEqual(removedBy(report), ids(made.slice(0, 5)))
          assert.deepStrictEqual(report.debt?.reasons, { budget: 15 })
          isSwept(root)
          assert.strictEqual((yield* untilPaid({ policy: { all: true } })).removed.length, 15)
        })
      )
  )

  it.live.each<readonly ["removed" | "archived" | "trimmed", Change, PolicyInput]>([
    ["removed", () => ({ remove: () => broken }), { all: true }],
    ["archived", () => ({ remove: () => broken }), { archive: "1 milli" }],
    ["trimmed", ({ put }) => ({ put: (row) => row.trimmed ? broken : put(row) }), { trim: "1 milli" }]
  ])(
    "after something was %s: that is told",
    ([what, change, policy]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = series(root, 4, now)
          for (const { dir } of made) NFS.mkdirSync(`${dir}/temp`)
          for (const { dir } of made) NFS.writeFileSync(`${dir}/temp/file`, "x")
          const report = yield* prune(change, policy)
          const done = made.filter(({ dir }) => !NFS.existsSync(`${dir}/temp/file`))
          assert.isNotEmpty(done)
          assert.deepStrictEqual(report[what].map(({ id }) => id), ids(done))
        })
      )
  )

  it.live.each<readonly [string, PolicyInput]>([
    ["removed", { all: true }],
    ["archived", { archive: "1 milli" }]
  ])(
    "after something could not be %s: that is not tried again, and is debt",
    ([_, policy]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const bad = Undo.made(root, [Undo.shell(`echo tried >> ${root}/tries; false`)])
          const report = yield* prune(({ put }) => ({ put: (row) => row.failures > 0 ? broken : put(row) }), policy)
          assert.deepStrictEqual(Undo.lines(`${root}/tries`), ["tried"])
          assert.deepStrictEqual(report.failed.map(({ id }) => id), [bad.id])
          assert.deepStrictEqual(report.debt?.reasons, { notUndone: 1 })
        })
      )
  )
})
