import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import * as RunArchive from "../src/RunArchive.ts"
import * as Verification from "../src/Verification.ts"
import * as Archives from "./support/Archives.ts"
import { names } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore as withIndex, prune } from "./support/Pruning.ts"
import { everything } from "./support/Snapshot.ts"
import { day, hour } from "./support/Time.ts"
import { filled, inStore, type Store } from "./support/Trims.ts"

const { refusal } = Archives

const listed = Effect.map(Stream.runCollect(RunArchive.list), (entries) => entries.map(({ id }) => id))

describe("what has been archived", () => {
  it.live("is listed newest first, with its length and the end of its run", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const now = Date.now()
        const made = [3, 1, 2, 0].map((ago) =>
          bundle(each.root, { startedAt: now - ago * day - hour, name: `n${ago}` })
        )
        for (const { id } of made) yield* RunArchive.archive(id)
        const [a, b, c, d] = made.map(({ id }) => id)
        assert.deepStrictEqual(yield* listed, [d, b, c, a])
        const entry = yield* RunArchive.get(c!)
        const { mtimeMs, size } = NFS.statSync(entry.path)
        assert.deepStrictEqual([entry.path, entry.bytes], [Archives.pathOf(each.root, c!), size])
        assert.strictEqual(entry.endedAt, Math.round(mtimeMs))
        assert.strictEqual(entry.endedAt, now - 2 * day - hour + 1000)
        assert.strictEqual((yield* RunArchive.readRecord(entry)).name, "n2")
        assert.deepStrictEqual(names(`${each.root}/runs`), [])
      })
    ))

  it.live("is found by those who name it, and said to be archived", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { id } = filled(each, 0)
        yield* RunArchive.archive(id)
        for (const name of [id, id.slice(0, 12)]) {
          assert.match(yield* refusal(each.find(name)), new RegExp(`^Archived: .*leasehold restore ${id}$`))
        }
        assert.match(yield* refusal(each.find("latest")), /^NoSuchRun/)
        assert.match(yield* refusal(RunArchive.archive(id)), /^Archived/)
        const beside = filled(each, 0)
        const common = [...id].findIndex((letter, index) => beside.id[index] !== letter)
        assert.match(
          yield* refusal(each.find(id.slice(0, common))),
          new RegExp(`^Ambiguous: .*(${id}.*${beside.id}|${beside.id}.*${id})`)
        )
        assert.strictEqual((yield* RunArchive.remove(id)) > 0, true)
        assert.match(yield* refusal(each.find(id)), /^NoSuchRun/)
        assert.match(yield* refusal(RunArchive.get(id)), /^NoSuchRun/)
        assert.deepStrictEqual(names(`${each.root}/archive`), [])
      })
    ))

  it.live("is looked for nowhere but in its place, and only the beginning of it is read", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 0)
        NFS.writeFileSync(`${dir}/artifacts/noise`, NodeCrypto.randomBytes(3_000_000))
        yield* RunArchive.archive(id)
        const entry = yield* RunArchive.get(id)
        assert.isAbove(entry.bytes, 1_000_000)
        let reads = 0
        yield* RunArchive.readRecord(entry).pipe(
          watch((call) => Effect.sync(() => void (reads += call === "read" ? 1 : 0)))
        )
        assert.isAtMost(reads, 3)
      })
    ))
})

describe("what lies in the place of an archive", () => {
  const odd: ReadonlyArray<readonly [string, (path: string, outside: string) => void]> = [
    ["a link", (path, outside) => NFS.symlinkSync(`${outside}/canary`, path)],
    ["a dangling link", (path) => NFS.symlinkSync("nowhere", path)],
    ["a directory", (path) => NFS.mkdirSync(path)],
    ["a FIFO", (path) => Archives.fifo(path)]
  ]
  const inPlaceOf = (which: string, root: string, path: string) =>
    which === "the file" ? path : which === "its day" ? NodePath.dirname(path) : `${root}/archive`

  const cases = ["the file", "its day", "archive/"].flatMap((which) =>
    odd.map(([what, make]) => [which, what, make] as const)
  )
    .filter(([which, what]) => which === "the file" || what !== "a directory")

  it.live.each(cases)(
    "instead of %s: %s is nothing, is not followed and not waited for",
    ([which, _, make]) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 1)
          const before = Archives.treeOf(dir)
          const outside = `${each.root}-outside`
          NFS.mkdirSync(outside)
          NFS.writeFileSync(`${outside}/canary`, "sings")
          const canary = everything(outside)
          const path = Archives.pathOf(each.root, id)
          const place = inPlaceOf(which, each.root, path)
          NFS.mkdirSync(NodePath.dirname(place), { recursive: true })
          make(place, outside)
          assert.deepStrictEqual(yield* listed, [])
          assert.match(yield* refusal(RunArchive.get(id)), /^NoSuchRun/)
          const archived = yield* Effect.exit(RunArchive.archive(id))
          if (Exit.isFailure(archived)) {
            Archives.sameTree(Archives.treeOf(dir), before)
            NFS.renameSync(dir, `${each.root}/aside`)
            const told = yield* refusal(RunArchive.restore(id))
            assert.match(told, which === "the file" ? /^(System|NoSuchRun): / : /^Astray: /)
          } else assert.deepStrictEqual(yield* listed, [id])
          assert.deepStrictEqual(names(`${each.root}/staging`), [])
          assert.deepStrictEqual(everything(outside), canary)
          NFS.rmSync(outside, { recursive: true })
        })
      )
  )

  it.live("a staging that is a link is not gone through, on the way out or back", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const [first, second] = [filled(each, 1), filled(each, 1)]
        yield* RunArchive.archive(first.id)
        const outside = `${each.root}-outside`
        NFS.mkdirSync(outside)
        NFS.writeFileSync(`${outside}/canary`, "sings")
        const canary = everything(outside)
        NFS.rmSync(`${each.root}/staging`, { recursive: true })
        NFS.symlinkSync(outside, `${each.root}/staging`)
        assert.match(yield* refusal(RunArchive.restore(first.id)), /^Astray: .*staging is a link/)
        assert.match(yield* refusal(RunArchive.archive(second.id)), /^Astray: .*staging is a link/)
        assert.deepStrictEqual(yield* listed, [first.id])
        assert.isTrue(NFS.existsSync(`${second.dir}/temp/0`))
        assert.deepStrictEqual(everything(outside), canary)
        NFS.rmSync(outside, { recursive: true })
      })
    ))

  it.live("a day of runs that is a link keeps the archive where it is", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        yield* RunArchive.archive(id)
        const outside = `${each.root}-outside`
        NFS.mkdirSync(outside)
        NFS.symlinkSync(outside, NodePath.dirname(dir))
        assert.match(yield* refusal(RunArchive.restore(id)), /^System: .*is not a directory/)
        assert.strictEqual(Archives.archives(each.root).length, 1)
        assert.deepStrictEqual([names(outside), names(`${each.root}/staging`)], [[], []])
        NFS.rmdirSync(outside)
      })
    ))
})

describe("what a killed process leaves", () => {
  const draftOf = ({ root }: Pick<Store, "root">, id: string) => `${root}/staging/${id}.tar.zst`

  it.live("of an archive that it was writing stands in nobody's way", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { id } = filled(each, 1)
        NFS.mkdirSync(`${each.root}/staging`, { recursive: true })
        NFS.writeFileSync(draftOf(each, id), "half")
        assert.deepStrictEqual(yield* listed, [])
        yield* RunArchive.archive(id)
        assert.deepStrictEqual([yield* listed, names(`${each.root}/staging`)], [[id], []])
      })
    ))

  it.live("of an archive that it was writing is found, and mended on a word", () =>
    withIndex((root) =>
      Effect.gen(function*() {
        const { id } = bundle(root, { startedAt: Date.now() - hour })
        NFS.mkdirSync(`${root}/staging`, { recursive: true })
        NFS.writeFileSync(draftOf({ root }, id), "half")
        const check = (repair: boolean) =>
          Effect.map(Stream.runCollect(Verification.check({ repair })), (findings) =>
            findings.map(({ fault, outcome, where }) =>
              `${fault._tag} ${NodePath.basename(where)} ${outcome._tag}`
            ))
        assert.deepStrictEqual(yield* check(false), [`Abandoned ${id}.tar.zst Left`])
        assert.deepStrictEqual(yield* check(true), [`Abandoned ${id}.tar.zst Mended`])
        assert.deepStrictEqual(yield* check(true), [])
        let seen: ReadonlyArray<string> | undefined
        const context = yield* Effect.context<never>()
        const look = Effect.gen(function*() {
          seen ??= yield* Effect.provide(check(true), context as never)
        }) as Effect.Effect<void>
        const isWriting = (call: string, [path]: ReadonlyArray<string>) =>
          call === "write" && path === draftOf({ root }, id)
        yield* RunArchive.archive(id).pipe(watch(once(isWriting, look)))
        assert.deepStrictEqual([seen, yield* listed], [[`Building ${id}.tar.zst Left`], [id]])
      })
    ))

  it.live("of an archive that it was writing goes with the next pass, and one that is being written does not", () =>
    withIndex((root) =>
      Effect.gen(function*() {
        const { id } = bundle(root, { startedAt: Date.now() - hour })
        NFS.mkdirSync(`${root}/staging`, { recursive: true })
        NFS.writeFileSync(draftOf({ root }, id), "half")
        const dry = yield* prune({ maxBundles: 10 }, { dryRun: true })
        assert.deepStrictEqual([dry.failed, names(`${root}/staging`)], [[], [`${id}.tar.zst`]])
        const report = yield* prune({ maxBundles: 10 })
        assert.deepStrictEqual([report.failed, names(`${root}/staging`)], [[], []])
        let seen: ReadonlyArray<string> = []
        const context = yield* Effect.context<never>()
        const pass = Effect.gen(function*() {
          yield* Effect.provide(prune({ maxBundles: 10 }), context as never)
          seen = names(`${root}/staging`)
        }) as Effect.Effect<void>
        const isWriting = (call: string, [path]: ReadonlyArray<string>) =>
          call === "write" && path === draftOf({ root }, id)
        yield* RunArchive.archive(id).pipe(watch(once(isWriting, pass)))
        assert.deepStrictEqual([seen, yield* listed], [[`${id}.tar.zst`], [id]])
      })
    ))
})
