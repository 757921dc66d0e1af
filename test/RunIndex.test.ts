import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodeSqlite from "node:sqlite"
import { Files, Flags } from "../src/internal/Files.ts"
import { queries } from "../src/internal/IndexDatabase.ts"
import { Locks } from "../src/internal/Locks.ts"
import * as RunId from "../src/RunId.ts"
import { position, type Session } from "../src/RunIndex.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import {
  contents,
  empty,
  filled,
  hasStrace,
  hour,
  id,
  ids,
  inChild,
  inPlace,
  kindOf,
  listed,
  many,
  now,
  placeAt,
  putAll,
  refill,
  row,
  snapshot
} from "./support/IndexPlace.ts"

describe("answers", () => {
  it.effect("come in the order of ends, and go on from a position", () =>
    inPlace(({ pass }) =>
      pass((session) =>
        Effect.gen(function*() {
          const rows = [
            row(id(9), { state: "unknown", problem: "run.json is missing" }),
            row(id(8)),
            // Claims the future, and was first seen ended between its neighbours.
            row(id(7), { endedAt: now + hour, firstSeenEnded: now - 5.5 * hour }),
            row(id(6, 1)),
            row(id(6, 2)),
            row(id(5), { state: "running", status: "running" }),
            row(id(1), { endedAt: now + hour })
          ]
          const order = [id(9), id(8), id(6, 1), id(6, 2), id(7), id(5), id(1)]
          yield* putAll(session, rows.toReversed())
          assert.deepStrictEqual(ids(yield* session.oldest(undefined, 100)), order)
          assert.deepStrictEqual(ids(yield* session.all), order)
          const paged: Array<string> = []
          for (let part = yield* session.oldest(undefined, 2); part.length > 0;) {
            paged.push(...ids(part))
            part = yield* session.oldest(position(part.at(-1)!), 2)
          }
          assert.deepStrictEqual(paged, order)
          assert.deepStrictEqual(ids(yield* session.newestFinished(Infinity, 3)), [id(1), id(7), id(6, 2)])
          assert.deepStrictEqual(ids(yield* session.newestFinished(now - 6 * hour + 1000, 3)), [id(8)])
          assert.strictEqual(yield* session.count({ endedBefore: now - 6 * hour + 1001 }, 100), 4)
          assert.strictEqual(yield* session.count({ endedBefore: Infinity }, 3), 3)
          assert.strictEqual((yield* session.totals(now)).ahead, 2)
          assert.strictEqual((yield* session.totals(now + 2 * hour)).ahead, 0)
          assert.deepStrictEqual(ids(yield* session.oldest(undefined, -1)), [])
          assert.deepStrictEqual((yield* session.oldest(undefined, Infinity)).length, rows.length)
        })
      )
    ))

  it.effect("on what is unsettled begin with what nobody has seen, newest first", () =>
    inPlace(({ pass }) =>
      pass((session) =>
        Effect.gen(function*() {
          yield* putAll(session, [
            row(id(1)),
            row(id(2), { state: "running", lookedAt: 50 }),
            row(id(3), { state: "unknown", lookedAt: 40 }),
            row(id(5), { state: "running", lookedAt: 40 }),
            listed(id(8)),
            listed(id(7))
          ])
          assert.deepStrictEqual(ids(yield* session.unsettled(10)), [id(7), id(8), id(3), id(5), id(2)])
          assert.deepStrictEqual(ids(yield* session.unsettled(1)), [id(7)])
        })
      )
    ))

  it.effect("give back every row as it was put, whatever is in its texts", () =>
    inPlace(({ pass }) =>
      Effect.gen(function*() {
        const text = `a\0b${String.fromCharCode(0xd800)}\u{1f600}'"\n`
        const strange = row(id(3), {
          name: text,
          tags: JSON.parse(`{"__proto__":"x","":"y","constructor":"z"}`),
          pin: text,
          problem: "",
          endedAt: -5,
          firstSeenEnded: 0,
          bytes: Number.MAX_SAFE_INTEGER,
          failures: 3,
          status: "crashed"
        })
        yield* pass((session) => Effect.andThen(session.put(strange), session.commit))
        const back = yield* pass((session) => session.get(id(3)))
        assert.deepStrictEqual(back, strange)
        assert.isUndefined(yield* pass((session) => session.get(id(4))))
        const odd = row(id(4), { endedAt: Number.NaN, firstSeenEnded: 1.5, bytes: -3, lookedAt: -Infinity })
        const near = yield* pass((session) => Effect.andThen(session.put(odd), session.get(id(4))))
        assert.deepStrictEqual(near, { ...odd, endedAt: 0, firstSeenEnded: 1, bytes: 0, lookedAt: 0 })
      })
    ))

  it.effect("on totals follow every change", () =>
    inPlace(({ pass }) =>
      pass((session) =>
        Effect.gen(function*() {
          const totals = Effect.map(
            Effect.all([session.totals(now), session.unknowns]),
            ([{ bundles, bytes, unmeasured }, unknowns]) => [bundles, bytes, unmeasured, unknowns]
          )
          yield* session.put(row(id(1), { bytes: 10 }))
          yield* session.put(row(id(2)))
          yield* session.put(listed(id(3)))
          assert.deepStrictEqual(yield* totals, [3, 10, 1, 0])
          assert.deepStrictEqual(ids(yield* session.unmeasured(5)), [id(2)])
          yield* session.put(row(id(2), { bytes: 5 }))
          yield* session.put(row(id(3), { state: "unknown", bytes: 100 }))
          assert.deepStrictEqual(yield* totals, [3, 115, 0, 1])
          yield* session.put(row(id(3)))
          yield* session.remove(id(1))
          yield* session.remove(id(9))
          assert.deepStrictEqual(yield* totals, [2, 5, 1, 0])
          assert.deepStrictEqual(ids(yield* session.unmeasured(5)), [id(3)])
        })
      )
    ))
})

describe("listings", () => {
  it.effect("add what is new, take away what has gone, and leave the rest", () =>
    inPlace(({ pass }) =>
      pass((session) =>
        Effect.gen(function*() {
          const day = { day: "2026-11-30", mtimeNanos: 1796081359673757721n, settled: false }
          yield* session.putDay(day, new Set([id(1), id(2)]))
          assert.deepStrictEqual(yield* session.all, [listed(id(2)), listed(id(1))])
          const known = row(id(2), { bytes: 5 })
          yield* session.put(known)
          yield* session.put(row(id(40)))
          // What does not belong to the day cannot lie there.
          yield* session.putDay({ ...day, settled: true }, new Set([id(2), id(3), id(50)]))
          assert.deepStrictEqual(yield* session.all, [row(id(40)), listed(id(3)), known])
          assert.deepStrictEqual(yield* session.days, [{ ...day, settled: true }])
          yield* session.putDay({ ...day, day: "2026-11-27" }, new Set())
          assert.deepStrictEqual((yield* session.days).map((each) => each.day), ["2026-11-27", "2026-11-30"])
          yield* session.dropDay("2026-11-30")
          yield* session.dropDay("%")
          assert.deepStrictEqual(ids(yield* session.all), [id(40)])
          assert.deepStrictEqual((yield* session.days).map((each) => each.day), ["2026-11-27"])
        })
      )
    ))

  it.effect("of a day with 10,000 bundles of which few are new take few milliseconds", () =>
    inPlace(({ pass }) =>
      pass((session) =>
        Effect.gen(function*() {
          const start = Date.parse("2026-11-30T00:00:00.000Z")
          const all = Array.from(
            { length: 10_010 },
            (_, index) => RunId.fromParts(DateTime.makeUnsafe(start + index * 8000), [])
          )
          const day = { day: "2026-11-30", mtimeNanos: 1n, settled: true }
          yield* session.putDay(day, new Set(all.slice(0, 10_000)))
          yield* session.commit
          const next = new Set(all.slice(10))
          const before = performance.now()
          yield* session.putDay({ ...day, mtimeNanos: 2n }, next)
          const took = performance.now() - before
          assert.deepStrictEqual(ids(yield* session.all), [...next])
          // A machine that runs other tests beside this one gets some slack; it is 7 ms.
          assert.isBelow(took, 100)
        })
      )
    ))
})

describe("a session", () => {
  it.effect("makes its work last by a commit, several times, and voids the rest", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass((session) =>
          Effect.gen(function*() {
            yield* session.put(row(id(1)))
            yield* session.commit
            yield* session.put(row(id(2)))
            yield* session.commit
            yield* session.put(row(id(3)))
          })
        )
        yield* pass((session) =>
          Effect.gen(function*() {
            assert.strictEqual(kindOf(session), "file")
            assert.deepStrictEqual(ids(yield* session.all), [id(2), id(1)])
            yield* session.remove(id(1))
          })
        )
        assert.strictEqual(yield* pass((session) => Effect.map(session.totals(now), ({ bundles }) => bundles)), 2)
        assert.deepStrictEqual(NFS.readdirSync(root).sort(), ["index.db", "retention.lock"])
        assert.strictEqual(NFS.statSync(`${root}/index.db`).mode & 0o777, 0o600)
      })
    ))

  it.effect("writes nothing when there is nothing new to say", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const before = snapshot(root)
        yield* pass((session) =>
          Effect.gen(function*() {
            yield* contents(session)
            yield* session.putDay({ day: "2026-11-30", mtimeNanos: 3n, settled: true }, new Set([id(5)]))
            yield* session.remove(id(9))
            yield* session.commit
          })
        )
        assert.deepStrictEqual(snapshot(root), before)
      })
    ))

  it.effect("is part of a store, whose root may then hold its files, also when they are all that is left", () =>
    Effect.gen(function*() {
      const { root } = yield* RunStore.RunStore
      const { pass } = yield* placeAt(root)
      for (const name of ["index.db", "index.db-journal"]) NFS.writeFileSync(`${root}/${name}`, "x")
      yield* pass(refill)
      assert.include(NFS.readdirSync(root), "index.db.aside-journal")
      NFS.rmSync(`${root}/store.json`)
      yield* Effect.provide(Effect.asVoid(RunStore.RunStore), RunStore.layer({ root, allowTemp: true }))
      assert.include(NFS.readdirSync(root), "store.json")
    }).pipe(Effect.provide(TestLayers.layerStore)))

  it.effect("leaves the pass lock alone, which lies on the file that the seal is written to", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        const files = yield* Files
        const locks = yield* Locks
        const path = `${root}/retention.lock`
        const held = yield* files.open(path, Flags.create)
        assert.isTrue(yield* locks.tryExclusive(held, path))
        yield* pass(refill)
        assert.strictEqual(yield* pass((session) => Effect.succeed(kindOf(session))), "file")
        const other = yield* files.open(path, Flags.lock)
        assert.isFalse(yield* locks.tryShared(other, path))
        yield* files.close(other)
        yield* files.close(held)
      })
    ))

  it.effect("whose file is moved away under it is broken and stays so; the next one begins anew", () =>
    inPlace(({ index, pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const broken = yield* Effect.flip(pass((session) =>
          Effect.gen(function*() {
            yield* session.put(row(id(9)))
            yield* index.setAside
            yield* Effect.ignore(session.commit)
            yield* session.totals(now)
          })
        ))
        assert.match(broken.message, /the index cannot be used: .*index\.db/)
        assert.deepStrictEqual(yield* pass(contents), empty)
        assert.isTrue(NFS.existsSync(`${root}/index.db.aside`))
      })
    ))
})

describe("a dry run", () => {
  it.effect("sees what is there and what it does itself, and writes nothing", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const before = snapshot(root)
        yield* pass((session) =>
          Effect.gen(function*() {
            assert.strictEqual(kindOf(session), "file")
            assert.deepStrictEqual(yield* contents(session), filled)
            yield* session.putDay({ day: "2026-11-27", mtimeNanos: 9n, settled: true }, many)
            yield* session.remove(id(5))
            yield* session.commit
            assert.strictEqual((yield* session.totals(now)).bundles, 2 + many.size)
            assert.deepStrictEqual(snapshot(root), before)
          }), true)
        assert.deepStrictEqual(snapshot(root), before)
        assert.deepStrictEqual(yield* pass(contents), filled)
      })
    ))

  it.effect("makes no index where there is none, and moves none away that is not to be believed", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        const dry = (session: Session) => Effect.andThen(refill(session), contents(session))
        assert.deepStrictEqual(yield* pass(dry, true), filled)
        assert.deepStrictEqual(NFS.readdirSync(root), [])
        yield* pass(refill)
        NFS.appendFileSync(`${root}/index.db`, "x")
        const before = snapshot(root)
        assert.deepStrictEqual(yield* pass(dry, true), filled)
        assert.strictEqual(
          yield* pass((session) => Effect.succeed(kindOf(session)), true),
          "index.db is not as the last pass left it"
        )
        assert.deepStrictEqual(snapshot(root), before)
      })
    ))

  it.live.skipIf(!hasStrace)(
    "makes no system call that changes anything in the root",
    () =>
      inPlace(({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          const changing =
            "trace=write,pwrite64,writev,ftruncate,fallocate,unlink,rename,mkdir,link,symlink,chmod,fchmod"
          const traced = yield* inChild(root, "dry", ["strace", "-f", "-y", "-e", changing])
          assert.strictEqual(traced.stdout.trim(), "file 1")
          assert.strictEqual(traced.code, 0)
          const calls = traced.stderr.split("\n")
          assert.isNotEmpty(calls.filter((line) => line.includes("write(")))
          assert.deepStrictEqual(calls.filter((line) => line.includes(root)), [])
        })
      )
  )
})

describe("questions", () => {
  const plans: Record<keyof typeof queries, ReadonlyArray<RegExp>> = {
    get: [/^SEARCH bundle USING INDEX sqlite_autoindex_bundle_1 \(id=\?\)$/],
    oldest: [/^SEARCH bundle USING INDEX bundle_ends \(\(ends,id\)>\(\?,\?\)\)$/],
    // A scan of an index that holds nothing else, in its order, as far as the limit.
    unsettled: [/^SCAN bundle USING INDEX bundle_unsettled$/],
    unmeasured: [/^SCAN bundle USING INDEX bundle_unmeasured$/],
    untrimmed: [/^SEARCH bundle USING INDEX bundle_untrimmed \(\(ends,id\)>\(\?,\?\)\)$/],
    newestFinished: [/^SEARCH bundle USING INDEX bundle_finished \(ends<\?\)$/],
    count: [/^CO-ROUTINE/, /^SEARCH bundle USING INDEX bundle_ends \(ends<\?\)$/, /^SCAN \(subquery/],
    unfinished: [/^SCAN bundle USING INDEX bundle_unsettled$/],
    ahead: [/^SEARCH bundle USING COVERING INDEX bundle_claims \(ended_at>\?\)$/],
    idsOfDay: [/^SEARCH bundle USING COVERING INDEX sqlite_autoindex_bundle_1 \(id>\? AND id<\?\)$/],
    remove: [/^SEARCH bundle USING INDEX sqlite_autoindex_bundle_1 \(id=\?\)$/]
  }

  it.effect("go down an index and sort nothing", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const database = new NodeSqlite.DatabaseSync(`${root}/index.db`, { readOnly: true })
        for (const [name, query] of Object.entries(queries)) {
          const expected = plans[name as keyof typeof queries]
          const plan = database.prepare(`EXPLAIN QUERY PLAN ${query}`).all().map(({ detail }) => String(detail))
          assert.strictEqual(plan.length, expected.length, `${name}: ${plan.join("; ")}`)
          for (const [nth, step] of plan.entries()) assert.match(step, expected[nth]!, name)
        }
        database.close()
      })
    ))
})
