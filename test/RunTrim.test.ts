import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { timestamp } from "../src/RunRecord.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { bothWays, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"
import { recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { below, everything } from "./support/Snapshot.ts"
import { filled, inStore, refusal, trash } from "./support/Trims.ts"

const du = (...paths: ReadonlyArray<string>) =>
  NodeChildProcess.execFileSync("du", ["-s", "--block-size=1", ...paths], { encoding: "utf8" }).trim().split("\n")
    .reduce((sum, line) => sum + Number(line.split("\t")[0]), 0)

/** One of everything that a program may leave behind. Gives how many names that is. */
const motley = (dir: string, outside: string) => {
  const odd = Buffer.concat([Buffer.from(`${dir}/odd`), Buffer.from([0xff, 0x0a])])
  NFS.mkdirSync(odd)
  NFS.writeFileSync(Buffer.concat([odd, Buffer.from("/"), Buffer.from([0xfe])]), "x".repeat(10_000))
  NFS.writeFileSync(`${dir}/.hidden`, "x")
  NFS.writeFileSync(`${dir}/-rf *\n`, "x")
  NFS.writeFileSync(`${dir}/large`, new Uint8Array(1 << 20))
  NFS.linkSync(`${dir}/large`, `${dir}/as large`)
  NFS.writeFileSync(`${dir}/sparse`, "")
  NFS.truncateSync(`${dir}/sparse`, 1 << 30)
  NFS.symlinkSync(outside, `${dir}/link`)
  NFS.symlinkSync("nowhere", `${dir}/dangling`)
  NodeChildProcess.execFileSync("mkfifo", [`${dir}/fifo`])
  Trees.bush(`${dir}/bush`, 2, 3)
  return 10
}

describe("trim", () => {
  it.live.each(bothWays)(
    "moves out whatever lies in temp, and the record says what that was (by %s)",
    ([_, files]) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 0, { size: 5000 })
          const outside = `${each.root}/runs/2026-01-01`
          NFS.mkdirSync(outside)
          NFS.writeFileSync(`${outside}/canary`, "sings")
          const entries = motley(`${dir}/temp`, outside)
          NFS.linkSync(`${dir}/temp/large`, `${dir}/artifacts/large`)
          const before = everything(outside)
          const bytes = du(`${dir}/temp`) - NFS.statSync(`${dir}/temp`).blocks * 512
          const since = timestamp(yield* DateTime.now)
          const trimmed = yield* RunTrim.trim(id).pipe(withFiles(files))
          assert.deepStrictEqual(trimmed, { id, paths: ["temp/**"], entries, bytes })
          assert.deepStrictEqual(NFS.readdirSync(`${dir}/temp`), [])
          assert.deepStrictEqual(NFS.readdirSync(`${dir}/artifacts`).sort(), ["data", "large"])
          assert.deepStrictEqual(everything(outside), before)
          const [place = "", ...others] = trash(each.root)
          assert.match(place, new RegExp(`/${id}-\\w{6}$`))
          assert.deepStrictEqual(others, [])
          assert.strictEqual(NFS.readdirSync(place).length, entries)
          const record = recordAt(dir)
          const [trim, ...more] = record.trimmed ?? []
          assert.isTrue(trim !== undefined && trim.at >= since && more.length === 0)
          assert.deepStrictEqual(trim, { at: trim!.at, paths: ["temp/**"], entries, bytes })
          assert.isTrue(RunTrim.covers(record, ["temp/**"]))
          yield* TrashSweep.sweepAll(each.root)
          assert.deepStrictEqual([trash(each.root), everything(outside)], [[], before])
        })
      )
  )

  it.live("takes what the globs say, at any depth, and empties the directories that every bundle has", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        for (const part of ["a", "b"]) NFS.mkdirSync(`${dir}/artifacts/${part}/cache/deep`, { recursive: true })
        for (const name of ["a/cache/deep/x", "a/keep", "b/y.img"]) NFS.writeFileSync(`${dir}/artifacts/${name}`, "x")
        const { entries } = yield* RunTrim.trim(id, { paths: ["temp", "artifacts/*/cache", "**/*.img"] })
        assert.strictEqual(entries, 5)
        assert.deepStrictEqual(below(dir), [
          "artifacts",
          "artifacts/a",
          "artifacts/a/keep",
          "artifacts/b",
          "holders",
          "lease",
          "run.json",
          "temp"
        ])
      })
    ))

  it.live("never touches what is Leasehold's own, whatever the glob says", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        NFS.writeFileSync(`${dir}/run.json.draft-a1b2c3.tmp`, "{")
        NFS.writeFileSync(`${dir}/holders/note`, "x")
        const lease = NFS.statSync(`${dir}/lease`).ino
        yield* RunTrim.trim(id, { paths: ["**", "*", "{run.json,lease,holders}*", "{holders,x}/**"] })
        assert.deepStrictEqual(below(dir), [
          "artifacts",
          "holders",
          "holders/note",
          "lease",
          "run.json",
          "run.json.draft-a1b2c3.tmp",
          "temp"
        ])
        assert.strictEqual(NFS.statSync(`${dir}/lease`).ino, lease)
        assert.match(yield* refusal(RunTrim.trim(id, { paths: ["lease"] })), /^BadPath: .*"lease" .*never trimmed/)
      })
    ))

  it.live("follows no link, neither in the place of temp nor on the way to the bundle or the trash", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 0)
        const other = filled(each, 3)
        const before = everything(`${other.dir}/temp`)
        NFS.rmdirSync(`${dir}/temp`)
        NFS.symlinkSync(`${other.dir}/temp`, `${dir}/temp`)
        assert.strictEqual((yield* RunTrim.trim(id, { paths: ["temp/**", "temp"] })).entries, 0)
        NFS.rmdirSync(`${each.root}/trash`)
        NFS.symlinkSync(dir, `${each.root}/trash`)
        assert.match(yield* refusal(RunTrim.trim(other.id)), /^Astray: .*trash is a link/)
        NFS.unlinkSync(`${each.root}/trash`)
        NFS.renameSync(dir, `${dir}-aside`)
        NFS.symlinkSync(other.dir, dir)
        assert.match(yield* refusal(RunTrim.trim(id)), /^Unreadable: .*lies a link/)
        assert.deepStrictEqual(everything(`${other.dir}/temp`), before)
      })
    ))

  it.live("of a bundle where nothing matches makes nothing in the trash, and says so once", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        yield* RunTrim.trim(id)
        yield* TrashSweep.sweepAll(each.root)
        const before = NFS.readFileSync(`${dir}/run.json`, "utf8")
        const inode = NFS.statSync(`${dir}/run.json`).ino
        assert.deepStrictEqual(yield* RunTrim.trim(id), { id, paths: ["temp/**"], entries: 0, bytes: 0 })
        assert.strictEqual(NFS.readFileSync(`${dir}/run.json`, "utf8"), before)
        assert.strictEqual(NFS.statSync(`${dir}/run.json`).ino, inode)
        yield* RunTrim.trim(id, { paths: ["logs/*.old"] })
        const record = recordAt(dir)
        assert.deepStrictEqual(record.trimmed?.map(({ entries }) => entries), [2, 0])
        assert.isTrue(RunTrim.covers(record, ["logs/*.old", "temp/**"]))
        assert.deepStrictEqual(trash(each.root), [])
      })
    ))

  it.live("leaves one that somebody works in or that is pinned, whole", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const held = filled(each, 1)
        const pinned = filled(each, 1, { pin: "a release" })
        const before = [held, pinned].map(({ dir }) => [everything(`${dir}/temp`), recordAt(dir)])
        const working = Effect.scoped(Effect.andThen(each.resume(held.id), refusal(RunTrim.trim(held.id))))
        assert.match(yield* working, /^Held: .*in use by pid \d+ on .* \(owner\)$/)
        const why = new RegExp(`^Pinned: .*a release.*leasehold unpin ${pinned.id}$`)
        assert.match(yield* refusal(RunTrim.trim(pinned.id)), why)
        assert.deepStrictEqual(trash(each.root), [])
        assert.deepStrictEqual(everything(`${held.dir}/temp`), before[0]![0])
        assert.deepStrictEqual([everything(`${pinned.dir}/temp`), recordAt(pinned.dir)], before[1])
      })
    ))

  const isLockOf = (dir: string) => (call: string, [path]: ReadonlyArray<string>) =>
    call === "tryExclusive" && path === `${dir}/run.json`

  it.live.each([1, 2])(
    "heeds a pin that comes before its lock number %i on the record, and takes nothing",
    (nth) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 2)
          let locks = 0
          const isTheOne = (call: string, paths: ReadonlyArray<string>) => isLockOf(dir)(call, paths) && ++locks === nth
          const trim = watch(once(isTheOne, Effect.asVoid(Effect.orDie(each.pin(id, "now")))))(RunTrim.trim(id))
          assert.match(yield* refusal(trim), /^Pinned: /)
          const { pin, trimmed } = recordAt(dir)
          assert.deepStrictEqual([pin?.reason, trimmed, NFS.readdirSync(`${dir}/temp`)], ["now", undefined, ["0", "1"]])
          assert.deepStrictEqual(trash(each.root), [])
        })
      )
  )

  it.live("has a pin that comes while it moves wait, and neither is lost", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        let pinning: Fiber.Fiber<unknown, unknown> | undefined
        const come = Effect.gen(function*() {
          assert.deepStrictEqual(recordAt(dir).trimmed?.map(({ pending }) => pending), [true])
          const brief = yield* Effect.exit(each.update(id, (record) => record, { brief: true }))
          assert.strictEqual(brief._tag, "Failure")
          pinning = yield* Effect.forkDetach(each.pin(id, "late"))
        })
        yield* watch(once((call) => call === "renameAt", come))(RunTrim.trim(id))
        yield* Fiber.join(pinning!)
        const { pin, trimmed } = recordAt(dir)
        assert.deepStrictEqual([pin?.reason, trimmed?.[0]?.entries, trimmed?.[0]?.pending], ["late", 2, undefined])
      })
    ))

  it.live("brings a run that crashed to its end first", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2, { status: "running" })
        yield* RunTrim.trim(id)
        const record = recordAt(dir)
        assert.deepStrictEqual([record.status, record.trimmed?.[0]?.entries], ["crashed", 2])
        assert.isTrue(RunTrim.covers(record, ["temp/**"]))
      })
    ))

  it.live("leaves one whose record cannot be read, or is of a newer version", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        for (const text of ["{", `{"version":7}`]) {
          NFS.writeFileSync(`${dir}/run.json`, text)
          assert.match(yield* refusal(RunTrim.trim(id)), /^Undecided: /)
          assert.strictEqual(NFS.readFileSync(`${dir}/run.json`, "utf8"), text)
        }
        assert.strictEqual(NFS.readdirSync(`${dir}/temp`).length, 2)
      })
    ))
})
