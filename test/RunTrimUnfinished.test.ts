import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Errno } from "../src/internal/Errno.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import * as RunTrim from "../src/RunTrim.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { bothWays, failing, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"
import { recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { filled, inStore, refusal, trash } from "./support/Trims.ts"

describe("a trim that does not come to its end", () => {
  /** What comes before the n-th name is moved. */
  const beforeMove = (nth: number, step: Effect.Effect<void, Errno>): FilesApi["renameAt"] => {
    let moves = 0
    return (...args) =>
      Effect.suspend(() => Effect.andThen(++moves === nth ? step : Effect.void, node.renameAt(...args)))
  }

  it.live("is pending, and the next completes it, and knows what it had taken", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 5)
        const renameAt = beforeMove(3, Effect.die("struck"))
        yield* Effect.exit(RunTrim.trim(id).pipe(withFiles({ renameAt })))
        assert.strictEqual(NFS.readdirSync(`${dir}/temp`).length, 3)
        const [struck] = recordAt(dir).trimmed!
        assert.deepStrictEqual([struck?.entries, struck?.bytes, struck?.pending], [5, 5 * 4096, true])
        yield* TrashSweep.sweepAll(each.root)
        assert.strictEqual((yield* RunTrim.trim(id)).entries, 3)
        const { trimmed = [] } = recordAt(dir)
        assert.deepStrictEqual(trimmed.map(({ at: _, ...trim }) => trim), [{
          paths: ["temp/**"],
          entries: 5,
          bytes: 5 * 4096
        }])
        assert.deepStrictEqual(NFS.readdirSync(`${dir}/temp`), [])
      })
    ))

  it.live("since something would not go is told, with all else moved, and is pending until that goes", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 5)
        const renameAt = beforeMove(2, failing("EIO", "rename"))
        const error = yield* Effect.flip(RunTrim.trim(id).pipe(withFiles({ renameAt })))
        assert.match(error.message, /trimmed in part: 4 moved out, 1 left, such as temp\/\d: input\/output error/)
        const [left] = NFS.readdirSync(`${dir}/temp`)
        const isPartial = error.reason._tag === "Partial" && error.reason
        assert.deepStrictEqual(isPartial && isPartial.left.map(({ path }) => path), [`temp/${left}`])
        assert.strictEqual(recordAt(dir).trimmed?.[0]?.pending, true)
        yield* RunTrim.trim(id)
        assert.deepStrictEqual(recordAt(dir).trimmed?.map(({ entries, pending }) => [entries, pending]), [[
          5,
          undefined
        ]])
      })
    ))

  it.live("since all of it has gone by another hand writes its record once more, and over nobody's pin", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        let isPinned = false
        let writes = 0
        const pin = Effect.andThen(Effect.orDie(each.pin(id, "now")), Effect.sync(() => void (isPinned = true)))
        const isThirdWrite = (call: string, [, to]: ReadonlyArray<string>) =>
          call === "rename" && to === `${dir}/run.json` && ++writes === 3
        const takeAll = once(
          (call) => call === "renameAt",
          Effect.sync(() => NFS.readdirSync(`${dir}/temp`).forEach((name) => NFS.rmSync(`${dir}/temp/${name}`)))
        )
        const pinThen = once(isThirdWrite, pin)
        yield* RunTrim.trim(id).pipe(
          watch((call, paths) => Effect.andThen(takeAll(call, paths), pinThen(call, paths)))
        )
        const { pin: pinned, trimmed } = recordAt(dir)
        assert.deepStrictEqual([pinned !== undefined, trimmed?.[0]?.pending], [isPinned, undefined])
        assert.strictEqual(writes, 2)
      })
    ))

  const vanish = (path: string) => NFS.rmSync(path, { recursive: true })
  const become = (path: string) => {
    vanish(path)
    NFS.writeFileSync(path, "x")
  }
  const moments: ReadonlyArray<readonly [string, (call: string, paths: ReadonlyArray<string>) => boolean]> = [
    ["before anything is moved", (call, [, to]) => call === "rename" && to?.endsWith("/run.json") === true],
    ["when there is a place in the trash", (call, [path]) => call === "open" && path?.includes("/trash/") === true],
    ["before the first name", (call) => call === "renameAt"]
  ]
  const fates = [["vanish", vanish], ["become a file", become]] as const

  it.live.each(
    bothWays.flatMap(([way, files]) =>
      moments.flatMap(([moment, isTheOne]) =>
        fates.map(([fate, befall]) => [fate, moment, way, { files, isTheOne, befall }] as const)
      )
    )
  )(
    "is none where the directories of what matches %s %s (by %s)",
    ([_fate, _moment, _way, { befall, files, isTheOne }]) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 0)
          for (const part of ["a", "b"]) NFS.mkdirSync(`${dir}/temp/${part}/deep/cache`, { recursive: true })
          NFS.mkdirSync(`${dir}/temp/c/deep/cache`, { recursive: true })
          const meddle = Effect.sync(() => ["a", "b/deep"].forEach((name) => befall(`${dir}/temp/${name}`)))
          yield* RunTrim.trim(id, { paths: ["temp/*/deep/cache"] }).pipe(
            watch(once(isTheOne, meddle), files)
          )
          assert.deepStrictEqual(NFS.readdirSync(`${dir}/temp/c/deep`), [])
          assert.deepStrictEqual(recordAt(dir).trimmed?.map(({ entries, pending }) => [entries, pending]), [
            [3, undefined]
          ])
        })
      )
  )

  it.live("and took nothing leaves the record as it was", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 3)
        const before = recordAt(dir)
        const trim = RunTrim.trim(id).pipe(withFiles({ renameAt: () => failing("EIO", "rename") }))
        assert.match(yield* refusal(trim), /^Partial: .* 0 moved out, 3 left/)
        assert.deepStrictEqual([recordAt(dir), trash(each.root)], [before, []])
      })
    ))

  it.live("since it could not look everywhere is told", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 0)
        for (const part of ["a", "b"]) NFS.mkdirSync(`${dir}/temp/${part}/cache`, { recursive: true })
        const openAt: FilesApi["openAt"] = (place, name, flags) =>
          name.toString() === "a" ? failing("EACCES", "open") : node.openAt(place, name, flags)
        const trim = RunTrim.trim(id, { paths: ["temp/*/cache"] }).pipe(withFiles({ openAt }))
        assert.match(yield* refusal(trim), /^Partial: .* 1 moved out, 1 left, such as temp\/a: permission denied/)
        assert.isFalse(RunTrim.covers(recordAt(dir), ["temp/*/cache"]))
      })
    ))

  it.live.each(["renameAt", "open"])(
    "where its place in the trash was swept before %s, it makes another",
    (call) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 3)
          const sweep = Effect.suspend(() => Effect.asVoid(TrashSweep.sweepAll(each.root)))
          const isTheOne = (made: string, [path]: ReadonlyArray<string>) =>
            made === call && path?.startsWith(`${each.root}/trash/`) !== false
          yield* watch(once(isTheOne, sweep))(RunTrim.trim(id))
          assert.deepStrictEqual(NFS.readdirSync(`${dir}/temp`), [])
          assert.strictEqual(trash(each.root).flatMap((place) => NFS.readdirSync(place)).length, 3)
        })
      )
  )

  it.live("because of a mount leaves that alone", (context) =>
    inStore((each) =>
      Effect.gen(function*() {
        if (!Trees.canMount) context.skip("may not mount")
        const { dir, id } = filled(each, 2)
        const outside = `${each.root}/staging`
        NFS.mkdirSync(outside)
        NFS.writeFileSync(`${outside}/canary`, "sings")
        NFS.mkdirSync(`${dir}/temp/mount`)
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Trees.bind(outside, `${dir}/temp/mount`)
          assert.match(yield* refusal(RunTrim.trim(id)), /^Partial: .* 2 moved out, 1 left, .*mounted here/)
          yield* TrashSweep.sweepAll(each.root)
        }))
        assert.deepStrictEqual(NFS.readdirSync(outside), ["canary"])
        assert.strictEqual((yield* RunTrim.trim(id)).entries, 1)
      })
    ))
})
