import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { measure, type Usage } from "../src/DiskUsage.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import { bothWays, failing, inMemory, inPlace, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"
import { once, watch } from "./support/Doors.ts"

const du = (path: string) =>
  Number(NodeChildProcess.execFileSync("du", ["-sx", "--block-size=1", path], { encoding: "utf8" }).split("\t")[0])

/** Something of everything. Gives the number of names. */
const motley = (dir: string, { outside }: Trees.Place) => {
  const bush = Trees.bush(dir, 3, 10)
  const odd = Buffer.concat([Buffer.from(`${dir}/odd`), Buffer.from([0xff, 0x0a])])
  NFS.mkdirSync(odd)
  NFS.writeFileSync(Buffer.concat([odd, Buffer.from("/"), Buffer.from([0xfe])]), "x".repeat(10_000))
  NFS.writeFileSync(`${dir}/0/large`, new Uint8Array(2 << 20))
  for (const name of ["0/1st", "1/2nd", "2/3rd"]) NFS.linkSync(`${dir}/0/large`, `${dir}/${name}`)
  NFS.truncateSync(`${dir}/1/1`, 1 << 30)
  NFS.symlinkSync(outside, `${dir}/link`)
  NFS.symlinkSync("/".padEnd(3000, "x"), `${dir}/long`)
  NodeChildProcess.execFileSync("mkfifo", [`${dir}/fifo`])
  return bush + 9
}

describe("DiskUsage", () => {
  it.effect.each(bothWays)("gives what du gives (by %s)", ([_, files]) =>
    inPlace(Effect.fnUntraced(function*(place) {
      const entries = motley(`${place.root}/a`, place)
      const usage = yield* measure(`${place.root}/a`).pipe(withFiles(files))
      assert.deepStrictEqual(usage, {
        bytes: du(`${place.root}/a`),
        entries,
        unreadable: 0,
        mounts: 0,
        complete: true
      })
    })))

  it.effect("a file, a link and nothing at all", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      NFS.symlinkSync(place.outside, `${place.root}/link`)
      const file = yield* measure(`${place.outside}/canary`)
      assert.strictEqual(file.bytes, du(`${place.outside}/canary`))
      const link = yield* measure(`${place.root}/link`)
      assert.strictEqual(link.bytes, du(`${place.root}/link`))
      assert.strictEqual(link.entries, 1)
      const nothing = yield* measure(`${place.root}/nowhere`)
      assert.deepStrictEqual(nothing, { bytes: 0, entries: 0, unreadable: 0, mounts: 0, complete: true })
    })))

  it.effect("a bound on names gives a part and says so", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      const dir = `${place.root}/a`
      const entries = motley(dir, place)
      const whole = yield* measure(dir, { maxEntries: entries })
      assert.isTrue(whole.complete)
      const part = yield* measure(dir, { maxEntries: entries - 1 })
      assert.isFalse(part.complete)
      assert.strictEqual(part.entries, entries - 1)
      assert.isAtMost(part.bytes, whole.bytes)
      assert.isFalse((yield* measure(dir, { maxEntries: Number.NaN })).complete)
      const late = yield* measure(dir, { until: yield* Clock.currentTimeMillis })
      assert.isFalse(late.complete)
      assert.isBelow(late.entries, entries)
    })))

  it.effect.each(bothWays)(
    "what is mounted inside does not count (by %s)",
    ([_, files], context) =>
      inPlace((place) =>
        Effect.gen(function*() {
          if (!Trees.canMount) context.skip("may not mount")
          const dir = `${place.root}/a`
          Trees.bush(dir, 1, 1)
          NFS.mkdirSync(`${dir}/0/m t`)
          const before = du(dir)
          NFS.writeFileSync(`${place.outside}/large`, new Uint8Array(1 << 20))
          yield* Trees.bind(place.outside, `${dir}/0/m t`)
          yield* Trees.bind(`${place.outside}/large`, `${dir}/0/0`)
          const usage = yield* measure(dir).pipe(withFiles(files))
          assert.strictEqual(usage.mounts, 2)
          assert.isAtMost(usage.bytes, before)
          assert.isTrue(usage.complete)
        })
      )
  )

  it.effect("5,000 levels, with few open files", () =>
    inMemory((place) =>
      Effect.sync(() => {
        Trees.well(`${place.root}/a`, 5000)
        const usage = Trees.inChild<Usage>("sweep.ts", ["measure", `${place.root}/a`], { openFiles: 64 })
        assert.deepStrictEqual(usage, {
          bytes: du(`${place.root}/a`),
          entries: 2 * 5000 - 1,
          unreadable: 0,
          mounts: 0,
          complete: true
        })
      })
    ))

  it.effect("what cannot be read is counted and not changed", () =>
    inPlace((place) =>
      Effect.sync(() => {
        const dir = `${place.root}/a`
        Trees.bush(dir, 3, 3)
        NFS.chmodSync(`${dir}/0`, 0)
        NodeChildProcess.execFileSync("chmod", ["755", NFS.realpathSync(`${dir}/../..`)])
        if (Trees.isRoot) NodeChildProcess.execFileSync("chown", ["-R", "65534:65534", dir])
        const usage = Trees.inChild<Usage>("sweep.ts", ["measure", dir], { unprivileged: true })
        assert.strictEqual(usage.unreadable, 1)
        assert.strictEqual(usage.entries, 10)
        assert.isTrue(usage.complete)
        assert.strictEqual(NFS.statSync(`${dir}/0`).mode & 0o777, 0)
      })
    ))

  it.effect("what vanishes meanwhile counts for nothing, what fails is counted, and nothing fails", () =>
    inPlace(Effect.fnUntraced(function*(place) {
      const dir = `${place.root}/a`
      Trees.bush(dir, 4, 4)
      const lstatAt: FilesApi["lstatAt"] = (at, name) =>
        name.toString() === "2" ? failing("EIO", "lstat") : node.lstatAt(at, name)
      const openAt: FilesApi["openAt"] = (at, name, flags) => {
        if (name.toString() === "1") NFS.rmSync(`${dir}/1`, { recursive: true })
        return node.openAt(at, name, flags)
      }
      const usage = yield* measure(dir).pipe(withFiles({ lstatAt, openAt }))
      assert.strictEqual(usage.unreadable, 3)
      assert.isTrue(usage.complete)
    })))

  it.effect.each(bothWays)(
    "what vanishes with all around it does not hide what lies elsewhere (by %s)",
    ([_, files]) =>
      inPlace(Effect.fnUntraced(function*(place) {
        const dir = `${place.root}/a`
        const deep = `${dir}/0/1/2/3/4/5`
        for (let nth = 1; nth <= 6; nth++) {
          NFS.mkdirSync(deep, { recursive: true })
          NFS.mkdirSync(`${dir}/1/1`, { recursive: true })
          for (const way of [deep, `${dir}/1/1`]) NFS.writeFileSync(`${way}/file`, "x".repeat(100_000))
          let listings = 0
          let isGone = false
          const vanish = Effect.sync(() => {
            isGone = true
            NFS.rmSync(`${dir}/0`, { recursive: true })
          })
          const isTheOne = (call: string) => call === "listAt" && NFS.existsSync(deep) && ++listings === nth + 1
          const usage = yield* measure(dir).pipe(watch(once(isTheOne, vanish), files))
          assert.deepStrictEqual([isGone, usage.unreadable, usage.complete], [true, 0, true])
          assert.isAtLeast(usage.bytes, du(dir))
        }
      }))
  )
})
