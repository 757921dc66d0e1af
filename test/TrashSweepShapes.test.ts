import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { type FilesApi, node } from "../src/internal/Files.ts"
import { mountPoints } from "../src/internal/Mounts.ts"
import { sweep, type SweepReport } from "../src/TrashSweep.ts"
import {
  bothWays,
  byPaths,
  disturber,
  failing,
  inMemory,
  inPlace,
  sweepClean,
  unbounded,
  withFiles
} from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"

describe("TrashSweep, by shape of tree", () => {
  describe("links", () => {
    const plant = (dir: string, { outside }: Trees.Place) => {
      NFS.mkdirSync(dir)
      for (const [name, target] of [["outside", outside], ["root", "/"], ["up", ".."], ["dangling", "nowhere"]]) {
        NFS.symlinkSync(target!, `${dir}/${name}`)
      }
      NFS.symlinkSync(`${outside}/canary`, `${dir}/file`)
    }

    it.effect.each(bothWays)(
      "bug 37: links are removed as links, an entry that is one as well (by %s)",
      ([_, files]) =>
        inPlace(Effect.fnUntraced(function*(place) {
          plant(`${place.trash}/a`, place)
          plant(`${place.trash}/a/below`, place)
          NFS.symlinkSync(place.outside, `${place.trash}/b`)
          const report = yield* sweepClean(place).pipe(withFiles(files))
          assert.strictEqual(report.unlinked, 13)
          assert.deepStrictEqual(report.emptied, ["a", "b"])
          assert.isTrue(Trees.sings(place))
        }))
    )

    it.effect("bug 37: a trash that is a link is not swept", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        NFS.rmdirSync(place.trash)
        NFS.symlinkSync(place.outside, place.trash)
        const report = yield* sweep(place.root, unbounded)
        assert.deepStrictEqual(report.failed.map(({ path }) => path), [place.trash])
        assert.isTrue(Trees.sings(place))
      })))

    it.live("bug 37: a directory swapped for a link over and over leads nowhere", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        const victim = `${place.trash}/a/x/victim`
        const precious = `${place.root}/precious`
        Trees.bush(precious, 3, 10)
        NFS.mkdirSync(`${place.trash}/a/x`, { recursive: true })
        const swapper = yield* disturber("swap", victim, precious)
        for (let round = 0; round < 150; round++) {
          NFS.mkdirSync(`${place.trash}/a/x`, { recursive: true })
          Trees.bush(`${place.root}/next`, 3, 10)
          // Where the swapper's link is in the way for a moment, it is the next name that is free.
          while (!Trees.attempt(() => NFS.renameSync(`${place.root}/next`, victim)));
          yield* sweep(place.root, unbounded)
        }
        yield* swapper.kill("SIGKILL")
        yield* swapper.exit
        assert.lengthOf(NFS.readdirSync(precious, { recursive: true }), 33)
        yield* sweepClean(place)
      })))

    /** At the moment when the tenth name is removed, the directory it is in becomes a link. */
    const swapAtTenth = (dir: string, to: string, outside: string) => {
      let count = 0
      const unlinkAt: FilesApi["unlinkAt"] = (at, name) => {
        if (++count === 10) {
          NFS.renameSync(dir, to)
          NFS.symlinkSync(outside, dir)
        }
        return node.unlinkAt(at, name)
      }
      return unlinkAt
    }

    it.effect("bug 37: a directory swapped while it is worked in is still the same one", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 1, 300)
        NFS.cpSync(`${place.trash}/a/0`, place.outside, { recursive: true })
        const unlinkAt = swapAtTenth(`${place.trash}/a/0`, `${place.trash}/a/aside`, place.outside)
        yield* sweepClean(place).pipe(withFiles({ unlinkAt }))
        assert.lengthOf(NFS.readdirSync(place.outside), 301)
      })))

    it.effect("bug 37: the way up from a directory that was moved away is not taken", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        Trees.well(`${place.trash}/a`, 12)
        Trees.bush(`${place.root}/f`, 1, 1)
        let count = 0
        const unlinkAt: FilesApi["unlinkAt"] = (at, name) => {
          if (++count === 10) NFS.renameSync(`${place.trash}/a/d/d/d`, `${place.root}/d`)
          return node.unlinkAt(at, name)
        }
        yield* sweepClean(place).pipe(withFiles({ unlinkAt }))
        assert.lengthOf(NFS.readdirSync(`${place.root}/f`, { recursive: true }), 2)
        assert.deepStrictEqual(NFS.readdirSync(`${place.root}/d`), [])
      })))

    it.effect("bug 37: by paths, a swapped directory is noticed within a few names", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        Trees.bush(`${place.trash}/a`, 1, 300)
        NFS.cpSync(`${place.trash}/a/0`, place.outside, { recursive: true })
        const unlinkAt = swapAtTenth(`${place.trash}/a/0`, `${place.trash}/a/aside`, place.outside)
        yield* sweep(place.root, unbounded).pipe(withFiles({ ...byPaths, unlinkAt }))
        assert.isAtLeast(NFS.readdirSync(place.outside).length, 301 - 16)
        yield* sweepClean(place).pipe(withFiles(byPaths))
        assert.isAtLeast(NFS.readdirSync(place.outside).length, 301 - 16)
      })))
  })

  describe("mounts", () => {
    it("the table of mounts is read by bytes", () => {
      const table = Buffer.concat([
        Buffer.from("36 35 98:0 /mnt1 /mnt/a\\040b\\011c\\134d rw,noatime master:1 - ext3 /dev/root rw\n"),
        Buffer.from("37 35 98:0 / /odd\\"),
        Buffer.from([0xff, 0xfe]),
        Buffer.from(" rw - ext3 /dev/root rw\n38 broken")
      ])
      assert.deepStrictEqual(mountPoints(table), [
        Buffer.from("/mnt/a b\tc\\d"),
        Buffer.concat([Buffer.from("/odd\\"), Buffer.from([0xff, 0xfe])])
      ])
    })

    const bound = (dir: string, place: Trees.Place) =>
      Effect.gen(function*() {
        Trees.bush(dir, 3, 3)
        const odd = Buffer.concat([Buffer.from(`${dir}/1/m t\n\\`), Buffer.from([0xff])])
        NFS.mkdirSync(odd)
        NFS.mkdirSync(`${dir}/2/mount`)
        yield* Trees.bind(place.outside, `${dir}/2/mount`)
        Trees.touch(`${dir}/2/file`)
        yield* Trees.bind(`${place.outside}/canary`, `${dir}/2/file`)
      })

    it.effect.each(bothWays)(
      "bug 37: bind mounts of the same file system are left alone, and their siblings go (by %s)",
      ([_, files], context) =>
        inPlace((place) =>
          Effect.gen(function*() {
            if (!Trees.canMount) context.skip("may not mount")
            const dir = `${place.trash}/a`
            yield* Effect.scoped(Effect.gen(function*() {
              yield* bound(dir, place)
              const report = yield* sweep(place.root, unbounded)
              assert.sameDeepMembers([...report.failed], [
                { path: `${dir}.stuck/2/mount`, reason: "a file system is mounted here" },
                { path: `${dir}.stuck/2/file`, reason: "a file system is mounted here" }
              ])
              assert.deepStrictEqual(NFS.readdirSync(`${dir}.stuck`), ["2"])
              assert.sameMembers(NFS.readdirSync(`${dir}.stuck/2`), ["mount", "file"])
              assert.isTrue(Trees.sings(place))
              // The finalizers know the old name.
              NFS.renameSync(`${dir}.stuck`, dir)
            })).pipe(withFiles(files))
            yield* sweepClean(place)
            assert.isTrue(Trees.sings(place))
          })
        )
    )

    it.effect.skipIf(!Trees.canMount)(
      "bug 37: what is mounted after the table was read is left alone too",
      () =>
        inPlace((place) =>
          Effect.gen(function*() {
            const dir = `${place.trash}/a`
            yield* Effect.scoped(Effect.gen(function*() {
              Trees.bush(dir, 1, 1)
              const scope = yield* Effect.scope
              const openAt: FilesApi["openAt"] = (at, name, flags) =>
                name.toString() === "0"
                  ? Trees.bind(place.outside, `${dir}/0`).pipe(
                    Effect.provideService(Scope.Scope, scope),
                    Effect.andThen(node.openAt(at, name, flags))
                  )
                  : node.openAt(at, name, flags)
              const report = yield* sweep(place.root, unbounded).pipe(withFiles({ openAt }))
              assert.deepStrictEqual(report.failed, [{
                path: `${dir}.stuck/0`,
                reason: "a file system is mounted here"
              }])
              assert.isTrue(Trees.sings(place))
              NFS.renameSync(`${dir}.stuck`, dir)
            }))
            yield* sweepClean(place)
          })
        )
    )
  })

  describe("names and kinds", () => {
    it.effect.each(bothWays)("names are bytes (by %s)", ([_, files]) =>
      inPlace(Effect.fnUntraced(function*(place) {
        const odd = (dir: Buffer, ...bytes: ReadonlyArray<number>) =>
          Buffer.concat([dir, Buffer.from("/"), Buffer.from(bytes)])
        const top = odd(Buffer.from(place.trash), 0x61, 0xff)
        NFS.mkdirSync(top)
        for (const byte of [0x0a, 0x20, 0x5c, 0x80, 0xc3, 0xfe, 0xff]) {
          NFS.mkdirSync(odd(top, byte))
          Trees.touch(odd(odd(top, byte), byte, 0xff, byte))
        }
        Trees.touch(odd(top, ...Buffer.from("x".repeat(255))))
        Trees.touch(odd(top, ...Buffer.from("-rf")))
        yield* sweepClean(place).pipe(withFiles(files))
      })))

    it.effect("FIFOs, sockets and devices are unlinked unopened", () =>
      inPlace(Effect.fnUntraced(function*(place) {
        NFS.mkdirSync(`${place.trash}/a`)
        for (const name of ["b", "a/fifo"]) NodeChildProcess.execFileSync("mkfifo", [`${place.trash}/${name}`])
        const bind =
          `require("net").createServer().listen("${place.trash}/a/socket", () => process.kill(process.pid, 9))`
        NodeChildProcess.spawnSync(process.execPath, ["-e", bind])
        assert.isTrue(NFS.lstatSync(`${place.trash}/a/socket`).isSocket())
        if (Trees.isRoot) NodeChildProcess.execFileSync("mknod", [`${place.trash}/a/device`, "c", "1", "3"])
        yield* sweepClean(place)
      })))
  })

  describe("permissions", () => {
    const readOnly = (dir: string) => {
      Trees.bush(dir, 3, 3)
      NFS.mkdirSync(`${dir}/0/shut`)
      Trees.touch(`${dir}/0/shut/file`)
      NFS.chmodSync(`${dir}/0/0`, 0o444)
      NFS.chmodSync(`${dir}/0/shut`, 0)
      for (const [name, mode] of [["0", 0o555], ["1", 0], ["2", 0o100], [".", 0o555]] as const) {
        NFS.chmodSync(`${dir}/${name}`, mode)
      }
      NodeChildProcess.execFileSync("chmod", ["755", NFS.realpathSync(`${dir}/../../..`)])
      if (Trees.isRoot) NodeChildProcess.execFileSync("chown", ["-R", "65534:65534", `${dir}/../..`])
    }

    it.effect("bug 40: trees that are read-only, or shut altogether, go", () =>
      inPlace((place) =>
        Effect.sync(() => {
          readOnly(`${place.trash}/a`)
          const report = Trees.inChild<SweepReport>("sweep.ts", ["sweep", place.root], { unprivileged: true })
          assert.deepStrictEqual(report.failed, [])
          assert.strictEqual(report.unlinked, 15)
          assert.deepStrictEqual(NFS.readdirSync(place.trash), [])
        })
      ))

    it.effect.skipIf(!Trees.isRoot)(
      "bug 40: a program that gave up root's rights has its /proc closed, and sweeps",
      () =>
        inPlace((place) =>
          Effect.sync(() => {
            readOnly(`${place.trash}/a`)
            const report = Trees.inChild<SweepReport>("sweep.ts", ["sweep", place.root, "drop"])
            assert.deepStrictEqual(report.failed, [])
            assert.strictEqual(report.unlinked, 15)
            assert.deepStrictEqual(NFS.readdirSync(place.trash), [])
          })
        )
    )

    it.effect.skipIf(!Trees.isRoot)(
      "bug 40: what belongs to another user is reported, and its siblings go",
      () =>
        inPlace((place) =>
          Effect.sync(() => {
            readOnly(`${place.trash}/a`)
            Trees.bush(`${place.trash}/a/other`, 1, 2)
            const report = Trees.inChild<SweepReport>("sweep.ts", ["sweep", place.root], { unprivileged: true })
            assert.sameDeepMembers(
              [...report.failed],
              ["0", "1"].map((name) => ({
                path: `${place.trash}/a.stuck/other/0/${name}`,
                reason: "permission denied (EACCES on unlink)"
              }))
            )
            assert.deepStrictEqual(NFS.readdirSync(`${place.trash}/a.stuck`), ["other"])
          })
        )
    )

    it.effect.skipIf(!Trees.canFreeze)(
      "bug 40: what is immutable is reported, its siblings go, and it goes later",
      () =>
        inPlace((place) =>
          Effect.gen(function*() {
            const dir = `${place.trash}/a`
            Trees.bush(dir, 4, 3)
            NFS.chmodSync(`${dir}/1`, 0o555)
            yield* Effect.scoped(Effect.gen(function*() {
              yield* Trees.freeze(`${dir}/0/1`)
              yield* Trees.freeze(`${dir}/1`)
              const report = yield* sweep(place.root, unbounded)
              assert.sameDeepMembers(
                [...report.failed],
                ["0/1", "1/0", "1/1", "1/2"].map((name) => ({
                  path: `${dir}.stuck/${name}`,
                  reason: "not permitted (EPERM on unlink)"
                }))
              )
              assert.sameMembers(NFS.readdirSync(`${dir}.stuck`), ["0", "1"])
              assert.deepStrictEqual(NFS.readdirSync(`${dir}.stuck/0`), ["1"])
              NFS.renameSync(`${dir}.stuck`, dir)
            }))
            yield* sweepClean(place)
          })
        )
    )
  })

  describe("depth and width", () => {
    it.effect("5,000 levels", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        Trees.well(`${place.trash}/a`, 5000)
        const report = yield* sweepClean(place)
        assert.strictEqual(report.unlinked, 2 * 5000 - 1)
      })))

    it.effect("deeper than a path can be long, by paths, a bit at a time", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        Trees.well(`${place.trash}/a`, 2500)
        let unlinked = 0
        for (let sweeps = 0; sweeps < 4; sweeps++) {
          unlinked += (yield* sweep(place.root, { maxUnlinked: 1000 })).unlinked
        }
        assert.strictEqual(unlinked, 4000)
        yield* sweepClean(place)
      }, withFiles(byPaths))))

    it.effect("a directory with more subdirectories than are remembered at a time, in one with as many", () =>
      inMemory(Effect.fnUntraced(function*(place) {
        NFS.mkdirSync(`${place.trash}/a`)
        const names = Trees.bush(`${place.trash}/a/b`, 5000, 0)
        Trees.bush(`${place.trash}/a/b/1/c`, 3000, 0)
        Trees.touch(`${place.trash}/a/b/bad`)
        const unlinkAt = () => failing("EIO", "unlink")
        const report = yield* sweep(place.root, unbounded).pipe(withFiles({ unlinkAt }))
        assert.strictEqual(report.unlinked, names - 1 + 3001)
        assert.strictEqual(report.failures, 1)
        yield* sweepClean(place)
      })))

    it.effect("100,000 files in one directory and 5,000 levels with few open files", () =>
      inMemory((place) =>
        Effect.sync(() => {
          NFS.mkdirSync(`${place.trash}/a`)
          for (let file = 0; file < 100_000; file++) Trees.touch(`${place.trash}/a/${file}`)
          Trees.well(`${place.trash}/b`, 5000)
          const report = Trees.inChild<SweepReport>("sweep.ts", ["sweep", place.root], { openFiles: 64 })
          assert.deepStrictEqual(report.failed, [])
          assert.strictEqual(report.unlinked, 100_001 + 2 * 5000 - 1)
          assert.deepStrictEqual(NFS.readdirSync(place.trash), [])
        })
      ))
  })
})
