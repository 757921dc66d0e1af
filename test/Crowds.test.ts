/**
 * Directories of a store in which there are very many things, of the store's or of nobody's: a pass looks at as many as it
 * may, remembers few of them at a time, and does what it is there for.
 *
 *     LEASEHOLD_STRAYS=1000000 npx vitest run test/Crowds.test.ts
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import { isStuck } from "../src/internal/TrashQueue.ts"
import * as Retention from "../src/Retention.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { inChild, touch } from "./fixtures/trees.ts"
import { names } from "./support/CommandLine.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, makeStore } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

const strays = Number(process.env["LEASEHOLD_STRAYS"] ?? 100_000)

const crowd = (path: string, count: number) => {
  NFS.mkdirSync(path, { recursive: true })
  for (let nth = 0; nth < count; nth++) touch(`${path}/stray-${nth}`)
}

const sweepAll = { maxUnlinked: Number.POSITIVE_INFINITY }

describe("a trash", () => {
  it.live("without an end is read no further than it can be swept", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        let pieces = 0
        const read = Effect.sync(() => {
          pieces++
          return Array.from({ length: 256 }, (_, nth) => ({ name: Buffer.from(`${pieces}-${nth}`), kind: undefined }))
        })
        const unlinked: Array<string> = []
        const endless: FilesApi = {
          ...node,
          listAt: () => Effect.succeed({ read, close: Effect.void }),
          lstatAt: (place, name) => node.lstatAt(place, String(name) === "." ? name : Buffer.from("../store.json")),
          openAt: (_, name) =>
            Effect.fail(new Errno({ code: "ENOTDIR", call: "open", path: String(name), cause: undefined })),
          unlinkAt: (_, name) => Effect.sync(() => void unlinked.push(String(name)))
        }
        const sweep = TrashSweep.sweep(root, { maxUnlinked: 1000 })
        const report = yield* Effect.provideService(sweep, Files, endless)
        assert.deepStrictEqual([unlinked.length, report.unlinked, report.finished], [1000, 1000, false])
        assert.isBelow(pieces, 50)
      })
    ))

  it.live("with more than is remembered at a time is gone through to its end, and what will not go is told once", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        crowd(`${root}/trash`, 10_000)
        const stubborn: FilesApi = {
          ...node,
          unlinkAt: (place, name) =>
            String(name).startsWith("stray-77")
              ? Effect.fail(new Errno({ code: "EPERM", call: "unlink", path: String(name), cause: undefined }))
              : node.unlinkAt(place, name)
        }
        const count = names(`${root}/trash`).filter((name) => name.startsWith("stray-77")).length
        const first = yield* Effect.provideService(TrashSweep.sweep(root, sweepAll), Files, stubborn)
        assert.deepStrictEqual(
          [first.unlinked, first.failures, first.failed.length, first.left, first.stuck, first.finished],
          [10_000 - count, count, count, count, count, true]
        )
        assert.isTrue(names(`${root}/trash`).every((name) => isStuck(name)))
        const second = yield* TrashSweep.sweep(root, sweepAll)
        assert.deepStrictEqual([second.unlinked, second.left, second.finished], [count, 0, true])
      })
    ))
})

describe("everything that looks at a store", () => {
  const each = Math.ceil(strays / 5)

  it.live(
    `finds its way among ${each} strays in every directory there is, and remembers few of them`,
    () =>
      inStore((root) =>
        Effect.sync(() => {
          const plain = `${root}-plain`
          makeStore(plain)
          bundle(plain, { startedAt: Date.now() - 2 * day, status: "running" })
          makeStore(root)
          const { dir } = bundle(root, { startedAt: Date.now() - 2 * day, status: "running" })
          const places = ["runs", "staging", "archive", "archive/2020-01-01"].map((place) => `${root}/${place}`)
          for (const place of [...places, dir, `${dir}/holders`]) crowd(place, each)
          const seen = inChild<{ states: Array<string>; findings: number; grown: number }>("crowded.ts", [root, plain])
          assert.deepStrictEqual(seen.states, ["Dead"])
          // Some of each place, and how many more there are.
          assert.isBelow(seen.findings, 500)
          // For a million of them a pass took 440 MiB, and a check of one place 1200.
          assert.isBelow(seen.grown, 40)
        })
      ),
    60_000 + 2 * strays
  )

  it.live("does not read more holder files than a run can have", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const { dir, id } = bundle(root, { startedAt: Date.now() - 2 * day, status: "running" })
        for (let nth = 0; nth < 5000; nth++) touch(`${dir}/holders/${nth}.json`)
        let reads = 0
        const counting: FilesApi = {
          ...node,
          open: (path, ...rest) => {
            if (path.includes("/holders/")) reads++
            return node.open(path, ...rest)
          }
        }
        const store = yield* RunStore.RunStore
        const entry = yield* store.get(id)
        const liveness = yield* Effect.provideService(store.liveness(entry), Files, counting)
        assert.strictEqual(liveness._tag, "Unknown")
        assert.isBelow(reads, 5000)
      })
    ))
})

describe("a pass", () => {
  it.live(
    `finds a run among ${strays} strays, beside as many in the trash, and remembers few of them`,
    () =>
      inStore((root) =>
        Effect.sync(() => {
          makeStore(root)
          const { dir, id } = bundle(root, { startedAt: Date.now() - 2 * day })
          crowd(dir.slice(0, dir.lastIndexOf("/")), strays)
          crowd(`${root}/trash`, strays)
          const { grown, removed, waiting } = inChild<{ removed: Array<string>; waiting: number; grown: number }>(
            "sizes.ts",
            [root]
          )
          assert.deepStrictEqual(removed, [id])
          assert.isAbove(waiting, 1000)
          // All of a hundred thousand took 180 MiB.
          assert.isBelow(grown, 60)
        })
      ),
    60_000 + strays
  )

  it.effect("looks at no more archives of a day than it has the time for, and expires what it has seen", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const of = (nth: number) => `${root}/archive/2020-01-01/20200101T000000000Z-${String(nth).padStart(8, "0")}`
        NFS.mkdirSync(`${root}/archive/2020-01-01`, { recursive: true })
        for (let nth = 0; nth < 5000; nth++) {
          touch(`${of(nth)}.tar.zst`)
          NFS.utimesSync(`${of(nth)}.tar.zst`, 1_600_000_000, 1_600_000_000)
        }
        let looks = 0
        const slow: FilesApi = {
          ...node,
          lstat: (path) =>
            path.endsWith(".zst") && looks++ < 1000
              ? Effect.andThen(TestClock.adjust("1 millis"), node.lstat(path))
              : node.lstat(path)
        }
        const budget = { maxTime: "500 millis", maxRemoved: 10 } as const
        const pass = Retention.run({ policy: { archiveMaxAge: "1 day" }, budget })
        yield* TestClock.setTime(Date.now())
        const report = yield* Effect.provideService(pass, Files, slow)
        assert.isBelow(looks, 600)
        assert.strictEqual(report.expired.length, 10)
        assert.strictEqual(report.debt?.reasons["unlistedDays"], 1)
      })
    ))

  it.live("clears what the dead have left in staging, whatever else lies there", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        crowd(`${root}/staging`, 50)
        const { dir, id } = bundle(root, { startedAt: Date.now() - 2 * day, status: "running" })
        NFS.renameSync(dir, `${root}/staging/${id}`)
        yield* Retention.run({ policy: {}, budget: { maxLooked: 5 } })
        assert.notInclude(names(`${root}/staging`), id)
        assert.lengthOf(names(`${root}/staging`), 50)
      })
    ))
})
