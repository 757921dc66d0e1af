/** Records that nobody can read are not read again by each pass, and are as soon as there may be more to them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { type FilesApi, node } from "../src/internal/Files.ts"
import { failing } from "./fixtures/sweeps.ts"
import { hourAgo, watch } from "./support/Doors.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { reseal, sql } from "./support/IndexPlace.ts"
import { ids, inStore, prune } from "./support/Pruning.ts"
import { day } from "./support/Time.ts"

const recordOf = ({ dir }: Made) => `${dir}/run.json`

/** A pass that keeps everything, and which records it opens. */
const readBy = Effect.fnUntraced(function*(changed: Partial<FilesApi> = {}) {
  const opened: Array<string> = []
  const note = watch(
    (call, [path]) =>
      Effect.sync(() => void (call === "open" && path?.endsWith("/run.json") === true && opened.push(path))),
    {
      ...hourAgo,
      ...changed
    }
  )
  yield* prune({ maxBundles: 1000 }).pipe(note)
  return [...new Set(opened)]
})

interface Fault {
  readonly befall: (record: string, text: string) => void
  /** Puts right what was amiss, so that as little as possible tells of it. */
  readonly mend: (record: string, text: string) => void
}

const keepingTime = (path: string, write: () => void) => {
  const { mtimeMs } = NFS.statSync(path)
  write()
  NFS.utimesSync(path, mtimeMs / 1000, mtimeMs / 1000)
}

const faults: Record<string, Fault> = {
  "was torn, and an older copy comes in its place": {
    befall: (record, text) => {
      NFS.writeFileSync(`${record}.old`, text)
      NFS.writeFileSync(record, text.slice(0, 10))
    },
    mend: (record) => NFS.renameSync(`${record}.old`, record)
  },
  "was overwritten, and is written again of the same size and time": {
    befall: (record, text) => keepingTime(record, () => NFS.writeFileSync(record, "x".repeat(text.length))),
    mend: (record, text) => keepingTime(record, () => NFS.writeFileSync(record, text))
  },
  "was lost, and is put back": {
    befall: (record) => NFS.renameSync(record, `${record}.aside`),
    mend: (record) => NFS.renameSync(`${record}.aside`, record)
  },
  "became a link, and is a file again": {
    befall: (record) => {
      NFS.renameSync(record, `${record}.aside`)
      NFS.symlinkSync("run.json.aside", record)
    },
    mend: (record) => NFS.renameSync(`${record}.aside`, record)
  },
  "was that of another run, and is its own": {
    befall: (record, text) => NFS.writeFileSync(record, text.replace(/"id":"\d{8}/, `"id":"20200101`)),
    mend: (record, text) => NFS.writeFileSync(record, text)
  }
}

describe("a record that nobody can read", () => {
  it.live.each(Object.entries(faults))(
    "%s: it is read when it has changed, and not before",
    ([_, { befall, mend }]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const [one] = series(root, 3, now - day)
          const record = recordOf(one!)
          const text = NFS.readFileSync(record, "utf8")
          befall(record, text)
          assert.include(yield* readBy(), record)
          assert.deepStrictEqual(yield* readBy(), [])
          const kept = yield* prune({ all: true })
          assert.deepStrictEqual([kept.removed.length, kept.debt?.reasons], [2, { unknown: 1 }])
          mend(record, text)
          assert.deepStrictEqual((yield* prune({ all: true })).removed.map(({ id }) => id), ids([one!]))
        })
      )
  )

  it.live("is read by the next pass where the time of its change says little, and once a day in any case", () =>
    inStore((root, now) =>
      Effect.gen(function*() {
        const [one] = series(root, 1, now - day)
        const record = recordOf(one!)
        NFS.writeFileSync(record, "{")
        yield* prune({ maxBundles: 1000 })
        assert.deepStrictEqual([yield* readBy(), yield* readBy()], [[record], []])
        sql(root, `UPDATE bundle SET looked_at = looked_at - ${2 * day}`)
        reseal(root)
        assert.deepStrictEqual([yield* readBy(), yield* readBy()], [[record], []])
      })
    ))

  it.live.each([["is of a newer version", `{"version":7}`, undefined], ["cannot be opened", "", "EIO"]] as const)(
    "is read each time where it %s: nothing there has to change for it",
    ([_, text, code]) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const [one] = series(root, 1, now - day)
          const record = recordOf(one!)
          if (text !== "") NFS.writeFileSync(record, text)
          const open: FilesApi["open"] = (path, ...how) =>
            path === record && code !== undefined ? failing(code, "open") : node.open(path, ...how)
          for (let nth = 0; nth < 3; nth++) assert.deepStrictEqual(yield* readBy({ open }), [record])
          assert.strictEqual((yield* prune({ all: true })).removed.length, code === undefined ? 0 : 1)
        })
      )
  )

  it.live.each([3, 20])(
    "does not stand in the way of those behind it, where there are %i",
    (count) =>
      inStore((root, now) =>
        Effect.gen(function*() {
          const pass = prune({ maxBundles: 1000 }, { budget: { maxLooked: 8 } }).pipe(watch(() => Effect.void, hourAgo))
          for (const one of series(root, count, now - day)) NFS.writeFileSync(recordOf(one), "{")
          for (let nth = 0; nth < 10; nth++) yield* pass
          const crashed = bundle(root, { startedAt: now - 2 * day, status: "running" })
          let passes = 0
          const status = () => JSON.parse(NFS.readFileSync(recordOf(crashed), "utf8")).status
          for (; status() === "running" && passes < 10; passes++) yield* pass
          assert.isBelow(passes, 10)
        })
      )
  )
})
