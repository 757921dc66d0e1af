import { assert, describe, it } from "@effect/vitest"
import type { RunId } from "../src/RunId.ts"
import type { RunRecord, Timestamp, Trim } from "../src/RunRecord.ts"
import { begin, covers, end, isNews, toRebuild, undo } from "../src/TrimHistory.ts"

/** Minutes of one hour. */
const at = (minute: number) => `2026-11-30T14:${String(minute).padStart(2, "0")}:00.000Z` as Timestamp

const record: RunRecord = {
  version: 1,
  id: "20261130T140000000Z-00000000" as RunId,
  name: "job",
  status: "ok",
  startedAt: at(0),
  endedAt: at(20),
  attempts: [{ startedAt: at(0), endedAt: at(5), status: "error" }, {
    startedAt: at(10),
    endedAt: at(20),
    status: "ok"
  }],
  tags: {}
}

const trim = (minute: number, more: Partial<Trim> = {}): Trim => ({
  at: at(minute),
  paths: ["temp/**"],
  entries: 3,
  bytes: 3000,
  ...more
})

const after = (...trimmed: ReadonlyArray<Trim>): RunRecord => ({ ...record, trimmed })

const resumed = {
  status: "running",
  attempts: [...record.attempts, { startedAt: at(30), status: "running" }]
} as const

describe("what a record says of trims", () => {
  it.each<readonly [string, RunRecord, boolean, ReadonlyArray<string>]>([
    ["never trimmed", record, false, []],
    ["trimmed since", after(trim(21)), true, ["temp/**"]],
    ["trimmed at the moment of its end", after(trim(20)), true, ["temp/**"]],
    ["trimmed before its last attempt", after(trim(6)), false, []],
    ["trimmed in part", after(trim(21, { pending: true })), false, ["temp/**"]],
    ["of which nothing matched", after(trim(21, { entries: 0, bytes: 0 })), true, []],
    ["with that beside others", after(trim(21, { paths: ["logs/*"] }), trim(22)), true, ["logs/*", "temp/**"]],
    ["by other globs", after(trim(21, { paths: ["temp/*"] })), false, ["temp/*"]],
    ["gone on with", { ...after(trim(21)), ...resumed }, false, []]
  ])("%s", (_, record, isCovered, missing) => {
    assert.strictEqual(covers(record, ["temp/**"]), isCovered)
    assert.deepStrictEqual(toRebuild(record), missing)
  })

  it("is pending from the beginning to the end, and dated no earlier than the run's end", () => {
    const plan = { at: at(1), paths: ["temp/**"], entries: 2, bytes: 2000 }
    const begun = begin({ ...record, bytes: { value: 9000, at: at(20) } }, plan)
    assert.deepStrictEqual(begun.trimmed, [{ ...plan, at: at(20), pending: true }])
    assert.isFalse(covers(begun, ["temp/**"]))
    const done = end(begun)
    assert.deepStrictEqual(done.trimmed, [{ ...plan, at: at(20) }])
    assert.isTrue(covers(done, ["temp/**"]))
    assert.isUndefined(done.bytes)
    assert.deepStrictEqual(undo(begun, record), { ...record, bytes: { value: 9000, at: at(20) } })
  })

  it("one that was not finished is completed by the next that covers it, and what it took is not forgotten", () => {
    const unfinished = after(trim(21, { pending: true, more: "kept" }))
    const plan = { at: at(25), paths: ["logs/*", "temp/**"], entries: 1, bytes: 1000 }
    assert.isTrue(isNews(unfinished, ["temp/**"]))
    assert.deepStrictEqual(end(begin(unfinished, plan)).trimmed, [{ ...plan, entries: 3, bytes: 3000 }])
    assert.deepStrictEqual(undo(begin(unfinished, plan), unfinished), unfinished)
    const other = { ...plan, paths: ["logs/*"] }
    assert.deepStrictEqual(end(begin(unfinished, other)).trimmed, [...unfinished.trimmed!, other])
  })

  it("one that was not finished before the run was gone on with counts by itself", () => {
    const unfinished = after(trim(6, { pending: true }))
    const plan = { at: at(25), paths: ["temp/**"], entries: 1, bytes: 1000 }
    assert.isTrue(isNews(after(trim(6, { pending: true }), trim(21)), ["temp/**"]))
    assert.deepStrictEqual(end(begin(unfinished, plan)).trimmed, [trim(6), plan])
    assert.isFalse(isNews(after(trim(6), trim(21)), ["temp/**"]))
  })
})
