import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as NFS from "node:fs"
import { measure } from "../src/DiskUsage.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import { sweep, type SweepReport } from "../src/TrashSweep.ts"
import { disturber, failing, inMemory, inPlace, sweepClean, sweeper, unbounded, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"

describe("TrashSweep", () => {
  it.effect("no trash, and an empty one, are nothing to do", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      yield* sweepClean(place)
      NFS.rmdirSync(place.trash)
      const report = yield* sweep(place.root, unbounded)
      assert.isTrue(report.finished)
      assert.strictEqual(report.failures, 0)
    })))

  it.effect("counts every name, and gives back what had been allocated", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      const names = Trees.bush(`${place.trash}/20200101T000000000Z-aaaaaaaa-1`, 5, 20)
      NFS.writeFileSync(`${place.trash}/20200101T000000000Z-aaaaaaaa-1/large`, new Uint8Array(3 << 20))
      NFS.writeFileSync(`${place.trash}/20200101T000000000Z-aaaaaaaa-1/larger`, new Uint8Array(5 << 20))
      const before = yield* measure(`${place.trash}/20200101T000000000Z-aaaaaaaa-1`)
      const report = yield* sweepClean(place)
      assert.strictEqual(report.unlinked, names + 2)
      assert.strictEqual(report.freedBytes, before.bytes)
      assert.deepStrictEqual(report.emptied, ["20200101T000000000Z-aaaaaaaa-1"])
    })))

  it.effect("an inode gives its blocks back with its last name, and none while one is left elsewhere", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      NFS.mkdirSync(`${place.trash}/a`)
      const own = NFS.lstatSync(`${place.trash}/a`).blocks * 512
      NFS.writeFileSync(`${place.trash}/a/1`, new Uint8Array(2 << 20))
      for (const name of ["2", "3"]) NFS.linkSync(`${place.trash}/a/1`, `${place.trash}/a/${name}`)
      NFS.writeFileSync(`${place.root}/kept`, new Uint8Array(2 << 20))
      NFS.linkSync(`${place.root}/kept`, `${place.trash}/a/4`)
      const report = yield* sweepClean(place)
      assert.strictEqual(report.freedBytes, own + (2 << 20))
      assert.strictEqual(NFS.statSync(`${place.root}/kept`).size, 2 << 20)
    })))

  describe("bounds", () => {
    it.effect("stops at the number of names, goes on the next time, oldest first", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        const names = Trees.bush(`${place.trash}/b`, 3, 10) + Trees.bush(`${place.trash}/a`, 3, 10)
        const reports: Array<SweepReport> = []
        while (reports.at(-1)?.finished !== true) reports.push(yield* sweep(place.root, { maxUnlinked: 10 }))
        assert.isTrue(reports.every((report) => report.unlinked <= 10))
        assert.strictEqual(reports.reduce((sum, report) => sum + report.unlinked, 0), names)
        assert.deepStrictEqual(reports.flatMap((report) => report.emptied), ["a", "b"])
        assert.strictEqual(reports[0]?.left, 2)
        assert.strictEqual(reports.at(-1)?.left, 0)
      })))

    it.effect.each([0, Number.NaN, -1])(
      "a budget of %d removes nothing",
      (maxUnlinked) =>
        inPlace(Effect.fnUntraced(function*(place) {
          Trees.bush(`${place.trash}/a`, 1, 1)
          const report = yield* sweep(place.root, { maxUnlinked })
          assert.strictEqual(report.unlinked, 0)
          assert.strictEqual(report.left, 1)
          assert.isFalse(report.finished)
        }))
    )

    it.effect("stops when its time is up", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 1, 2500)
        const now = yield* Clock.currentTimeMillis
        const late = yield* sweep(place.root, { ...unbounded, until: now })
        assert.strictEqual(late.unlinked, 0)
        const report = yield* sweep(place.root, {
          ...unbounded,
          until: now + 100,
          onProgress: (soFar) => soFar.unlinked > 1000 ? TestClock.adjust(100) : Effect.void
        })
        assert.isAbove(report.unlinked, 1000)
        assert.isBelow(report.unlinked, 2000)
        assert.isFalse(report.finished)
        yield* sweepClean(place)
      })))

    it.effect("bug 46: an interruption takes effect between two names and leaves a report", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        const names = Trees.bush(`${place.trash}/a`, 20, 100)
        const isUnderWay = yield* Deferred.make<void>()
        let last: SweepReport | undefined
        const openFiles = NFS.readdirSync("/proc/self/fd").length
        const fiber = yield* Effect.forkChild(sweep(place.root, {
          ...unbounded,
          onProgress: (soFar) => {
            last = soFar
            return soFar.unlinked > 500 ? Effect.asVoid(Deferred.succeed(isUnderWay, undefined)) : Effect.void
          }
        }))
        yield* Deferred.await(isUnderWay)
        yield* Fiber.interrupt(fiber)
        assert.isBelow(last!.unlinked, 1000)
        assert.strictEqual(NFS.readdirSync("/proc/self/fd").length, openFiles)
        const rest = yield* sweepClean(place)
        assert.strictEqual(last!.unlinked + rest.unlinked, names)
      })))

    it.effect("large files are removed side by side, as many as told, and an interruption waits for those alone", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 1, 50)
        let begun = 0
        let last: SweepReport | undefined
        const areUnderWay = yield* Deferred.make<void>()
        const mayEnd = yield* Deferred.make<void>()
        const large = withFiles({
          lstatAt: (at, name) => Effect.map(node.lstatAt(at, name), (info) => ({ ...info, allocated: 1 << 20 })),
          unlinkLaterAt: (at, name) =>
            Effect.gen(function*() {
              if (++begun === 3) yield* Deferred.succeed(areUnderWay, undefined)
              yield* Deferred.await(mayEnd)
              yield* node.unlinkLaterAt(at, name)
            })
        })
        const onProgress = (soFar: SweepReport) => Effect.sync(() => void (last = soFar))
        const options = { ...unbounded, concurrency: 3, onProgress }
        const fiber = yield* Effect.forkChild(large(sweep(place.root, options)))
        yield* Deferred.await(areUnderWay)
        const interruption = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
        yield* Deferred.succeed(mayEnd, undefined)
        yield* Fiber.join(interruption)
        assert.strictEqual(begun, 3)
        assert.strictEqual(last?.unlinked, 3)
        assert.strictEqual(last?.freedBytes, 3 << 20)
        assert.lengthOf(NFS.readdirSync(`${place.trash}/a/0`), 47)
      })))

    it.effect.each([{ takes: 0.2, aside: [true, true] }, { takes: 0.02, aside: [false, false] }])(
      "small files of $takes milliseconds each",
      ({ aside, takes }) =>
        inPlace(Effect.fnUntraced(function*(place) {
          const names = Trees.bush(`${place.trash}/a`, 2, 200)
          let alone = 0
          let later = 0
          let most = 0
          let underWay = 0
          const report = yield* sweepClean(place).pipe(withFiles({
            unlinkAt: (at, name) =>
              Effect.andThen(TestClock.adjust(takes), Effect.suspend(() => (alone++, node.unlinkAt(at, name)))),
            unlinkLaterAt: (at, name) =>
              Effect.suspend(() => {
                later++
                most = Math.max(most, ++underWay)
                return Effect.ensuring(node.unlinkLaterAt(at, name), Effect.sync(() => underWay--))
              })
          }))
          assert.strictEqual(report.unlinked, names)
          assert.strictEqual(alone + later, 400)
          // Some are still removed alone, to see whether that is quicker by now.
          assert.deepStrictEqual([later > 350 && alone > 10, most === 4], aside)
        }))
    )

    it.effect("gives way to others", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        const names = Trees.bush(`${place.trash}/a`, 1, 3000)
        let turns = 0
        const other = yield* Effect.forkChild(
          Effect.forever(Effect.andThen(Effect.yieldNow, Effect.sync(() => turns++)))
        )
        yield* sweepClean(place)
        yield* Fiber.interrupt(other)
        assert.isAbove(turns, names / 32)
      })))

    it.live("bug 29: what a killed sweep has left is finished by the next", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        for (const name of ["a", "b", "c"]) Trees.bush(`${place.trash}/${name}`, 20, 100)
        const child = yield* sweeper(place)
        yield* child.line("under way")
        yield* child.kill("SIGKILL")
        yield* child.exit
        yield* sweepClean(place)
      })))
  })

  describe("what will not go", () => {
    const names = (count: number) => Array.from({ length: count }, (_, index) => String(index).padStart(3, "0"))

    it.effect("bug 43: one that fails and one that has vanished stop neither this sweep nor the next", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        for (const name of names(500)) Trees.bush(`${place.trash}/${name}`, 0, 0)
        for (const name of names(500)) Trees.touch(`${place.trash}/${name}/${name}`)
        const broken = withFiles({
          unlinkAt: (at, name) => name.toString() === "003" ? failing("EIO", "unlink") : node.unlinkAt(at, name),
          openAt: (at, name, flags) => {
            if (name.toString() === "007") NFS.rmSync(`${place.trash}/007`, { recursive: true })
            return node.openAt(at, name, flags)
          }
        })
        const report = yield* sweep(place.root, unbounded).pipe(broken)
        assert.lengthOf(report.emptied, 498)
        assert.strictEqual(report.left, 1)
        assert.isTrue(report.finished)
        assert.deepStrictEqual(report.failed, [
          { path: `${place.trash}/003.stuck/003`, reason: "input/output error (EIO on unlink)" }
        ])
        for (const name of names(5)) Trees.touch(`${place.trash}/later-${name}`)
        const next = yield* sweep(place.root, { maxUnlinked: 5 }).pipe(broken)
        assert.lengthOf(next.emptied, 5)
        const mended = yield* sweepClean(place)
        assert.deepStrictEqual(mended.emptied, ["003"])
      })))

    it.effect("bug 43: an entry that fails ten thousand times leaves most of the budget to those behind it", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/000`, 1, 2000)
        Trees.touch(`${place.trash}/000/sibling`)
        for (const name of names(100).slice(1)) Trees.touch(`${place.trash}/${name}`)
        const isBroken = (name: Buffer) => name.length < 5 && !name.toString().startsWith("0")
        const broken = withFiles({
          unlinkAt: (at, name) => isBroken(name) ? failing("EIO", "unlink") : node.unlinkAt(at, name)
        })
        const report = yield* sweep(place.root, { maxUnlinked: 200 }).pipe(broken)
        assert.isFalse(report.finished)
        assert.isAtLeast(report.emptied.length, 99)
        const whole = yield* sweep(place.root, unbounded).pipe(broken)
        assert.strictEqual(whole.left, 1)
        assert.strictEqual(whole.failures, NFS.readdirSync(`${place.trash}/000.stuck/0`).length)
        assert.lengthOf(whole.failed, 1000)
        assert.deepStrictEqual(NFS.readdirSync(`${place.trash}/000.stuck`), ["0"])
        yield* sweepClean(place)
      })))

    it.effect("bug 47: however many entries fail each time, a new one is removed at once, and a mended one in time", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        for (const name of names(200)) {
          NFS.mkdirSync(`${place.trash}/${name}`)
          Trees.touch(`${place.trash}/${name}/bad`)
        }
        let isMended = false
        const broken = withFiles({
          unlinkAt: (at, name) =>
            name.toString() === "bad" && !isMended ? failing("EIO", "unlink") : node.unlinkAt(at, name)
        })
        while (!(yield* sweep(place.root, { maxUnlinked: 300 }).pipe(broken)).finished);
        assert.lengthOf(NFS.readdirSync(place.trash).filter((name) => name.endsWith(".stuck")), 200)
        Trees.bush(`${place.trash}/new`, 1, 1)
        assert.deepStrictEqual((yield* sweep(place.root, { maxUnlinked: 3 }).pipe(broken)).emptied, ["new"])
        // One of them mended: a budget that does not reach all of them gets to it all the same.
        NFS.renameSync(`${place.trash}/150.stuck/bad`, `${place.trash}/150.stuck/good`)
        let sweeps = 0
        while (NFS.existsSync(`${place.trash}/150.stuck`)) {
          assert.isBelow(++sweeps, 100)
          yield* sweep(place.root, { maxUnlinked: 50 }).pipe(broken)
        }
        isMended = true
        assert.lengthOf((yield* sweepClean(place)).emptied, 199)
      })))

    it.live("bug 15: a directory somebody writes to is reported, its siblings go, and it goes once they are done", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        const busy = `${place.trash}/a/0`
        Trees.bush(`${place.trash}/a`, 3, 3)
        Trees.touch(`${place.trash}/b`)
        const writer = yield* disturber("write", busy)
        // The writer may be slower than the sweep for a moment. It is waited for, so that it is always in the way.
        const rmdirAt: FilesApi["rmdirAt"] = (at, name) => {
          while (name.toString() === "0" && NFS.readdirSync(busy).length === 0);
          return node.rmdirAt(at, name)
        }
        const report = yield* sweep(place.root, unbounded).pipe(withFiles({ rmdirAt }))
        assert.deepStrictEqual(report.failed, [
          {
            path: `${place.trash}/a.stuck/0`,
            reason: "is not empty, something still writes there (ENOTEMPTY on rmdir)"
          }
        ])
        assert.deepStrictEqual(report.emptied, ["b"])
        assert.deepStrictEqual(NFS.readdirSync(`${place.trash}/a.stuck`), ["0"])
        yield* writer.kill("SIGKILL")
        yield* writer.exit
        yield* sweepClean(place)
      })))

    const inUseFor = (times: number) => {
      let tries = 0
      const unlinkAt: FilesApi["unlinkAt"] = (at, name) =>
        name.toString() === "busy" && ++tries <= times ? failing("EBUSY", "unlink") : node.unlinkAt(at, name)
      return { unlinkAt, tries: () => tries }
    }

    it.live("bug 41: a file that is in use for a moment is waited for", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 1, 1)
        Trees.touch(`${place.trash}/a/busy`)
        yield* sweepClean(place).pipe(withFiles({ unlinkAt: inUseFor(2).unlinkAt }))
      })))

    it.live("bug 41: one that stays in use is reported, its siblings go, and the next sweep does not wait again", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 2, 2)
        for (const dir of ["a", "a/0", "a/1"]) Trees.touch(`${place.trash}/${dir}/busy`)
        const { tries, unlinkAt } = inUseFor(Number.POSITIVE_INFINITY)
        const report = yield* sweep(place.root, unbounded).pipe(withFiles({ unlinkAt }))
        assert.sameDeepMembers(
          [...report.failed],
          ["busy", "0/busy", "1/busy"].map((name) => ({
            path: `${place.trash}/a.stuck/${name}`,
            reason: "in use (EBUSY on unlink)"
          }))
        )
        // Five for the first of them, one for each of the others.
        assert.strictEqual(tries(), 7)
        yield* sweep(place.root, unbounded).pipe(withFiles({ unlinkAt }))
        assert.strictEqual(tries(), 10)
        yield* sweepClean(place)
      })))

    it.effect("bug 45: a sweep begins and ends without a write where none is possible", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 2, 2)
        yield* sweepClean(place).pipe(withFiles({
          write: () => failing("ENOSPC", "write"),
          mkdir: () => failing("ENOSPC", "mkdir"),
          renameAt: () => failing("ENOSPC", "rename")
        }))
      })))
  })

  describe("several at once", () => {
    it.effect("bug 44: eight sweeps and somebody else's rm make no failure, and each name is counted once", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        let names = 0
        for (let entry = 0; entry < 20; entry++) names += Trees.bush(`${place.trash}/${entry}`, 4, 10)
        const sweeps = Effect.all(Array.from({ length: 8 }, () => sweep(place.root, unbounded)), { concurrency: 8 })
        const reports = yield* sweeps
        assert.deepStrictEqual(reports.flatMap((report) => report.failed), [])
        assert.strictEqual(reports.reduce((sum, report) => sum + report.unlinked, 0), names)
        assert.lengthOf(reports.flatMap((report) => report.emptied), 20)

        for (let entry = 0; entry < 20; entry++) Trees.bush(`${place.trash}/${entry}`, 4, 10)
        let seen = 0
        const listAt: FilesApi["listAt"] = (at) => {
          if (++seen % 10 === 0) NFS.rmSync(`${place.trash}/${seen % 20}`, { recursive: true, force: true })
          return node.listAt(at)
        }
        const disturbed = yield* sweeps.pipe(withFiles({ listAt }))
        assert.deepStrictEqual(disturbed.flatMap((report) => report.failed), [])
        assert.deepStrictEqual(NFS.readdirSync(place.trash), [])
      })))

    it.live("bug 44: sweeps of several processes", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        let names = 0
        for (let entry = 0; entry < 50; entry++) names += Trees.bush(`${place.trash}/${entry}`, 4, 20)
        const workers = yield* Effect.all([sweeper(place), sweeper(place)])
        const exits = yield* Effect.all(workers.map((worker) => worker.exit), { concurrency: "unbounded" })
        const reports = exits.map(({ stdout }) => JSON.parse(stdout.trim().split("\n").at(-1)!) as SweepReport)
        assert.deepStrictEqual(reports.flatMap((report) => report.failed), [])
        assert.strictEqual(reports.reduce((sum, report) => sum + report.unlinked, 0), names)
        assert.deepStrictEqual(NFS.readdirSync(place.trash), [])
      })))
  })
})
