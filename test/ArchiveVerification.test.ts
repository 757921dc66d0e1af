/** What a verification finds of archives, and of what was begun and not finished. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as Archiving from "../src/archive/Archiving.ts"
import * as Place from "../src/internal/ArchivePlace.ts"
import { Errno } from "../src/internal/Errno.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import { Locks, native } from "../src/internal/Locks.ts"
import * as RecordFile from "../src/internal/RecordFile.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import { RunStore } from "../src/RunStore.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import * as Verification from "../src/Verification.ts"
import { describe as words, type Finding, mendOf, severityOf } from "../src/VerificationFinding.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import { names } from "./support/CommandLine.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { everything } from "./support/Snapshot.ts"
import { inStore, makeStore } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

const start = Date.parse("2026-11-01T12:00:00.000Z")

const check = (options?: Verification.Options) => Stream.runCollect(Verification.check(options))

const shown = (root: string, findings: ReadonlyArray<Finding>) =>
  findings.map(({ fault, outcome, where }) =>
    `${severityOf(fault)} ${fault._tag} ${where.slice(root.length + 1)} ${outcome._tag}`
  )

const below = (root: string, id: RunId) => Place.pathOf(root, id).slice(root.length + 1)

/** Runs that have been archived, oldest first. */
const archived = (root: string, count: number) =>
  Effect.gen(function*() {
    makeStore(root)
    const made = series(root, count, start, { size: 300_000 })
    yield* Effect.forEach(made, ({ id }) => RunArchive.archive(id))
    yield* TrashSweep.sweepAll(root)
    return made.map(({ id }) => ({ id, path: Place.pathOf(root, id) }))
  })

/** What a crash leaves that comes between the archive and the going of the bundle. */
const archiveBeside = (root: string, { dir, id }: Made) =>
  Effect.scoped(Effect.gen(function*() {
    const record = yield* Effect.fromResult(yield* RecordFile.read(dir))
    yield* Archiving.write(root, { id, dir }, record, identity)
  }))

const edit = ({ dir }: Made, change: object) => {
  const path = `${dir}/run.json`
  NFS.writeFileSync(path, JSON.stringify({ ...JSON.parse(NFS.readFileSync(path, "utf8")), ...change }))
}

const flip = (path: string, from: number) => {
  const bytes = NFS.readFileSync(path)
  bytes[from] = bytes[from]! ^ 0xff
  NFS.writeFileSync(path, bytes)
}

const run = (commands: string) => NodeChildProcess.execFileSync("sh", ["-c", commands])

describe("what lies in the archive", () => {
  it.live("archives that can be restored are nothing to speak of, read whole or not", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = yield* archived(root, 3)
        const before = everything(root)
        const heard: Array<RunId> = []
        const onArchive = (id: RunId) => Effect.sync(() => void heard.push(id))
        assert.deepStrictEqual(yield* check({ onArchive }), [])
        assert.deepStrictEqual(heard, made.map(({ id }) => id))
        assert.deepStrictEqual(yield* check({ archives: true, repair: true }), [])
        assert.deepStrictEqual(everything(root), before)
      })
    ))

  it.live("strange names, things in the place of others, and archives in wrong days", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [first, second] = yield* archived(root, 2)
        NFS.mkdirSync(`${root}/archive/2026-12-24`)
        NFS.renameSync(first!.path, `${root}/archive/2026-12-24/${first!.id}.tar.zst`)
        NFS.renameSync(second!.path, `${root}/elsewhere`)
        NFS.symlinkSync(`${root}/elsewhere`, second!.path)
        NFS.writeFileSync(`${root}/archive/notes.txt`, "")
        NFS.writeFileSync(`${root}/archive/2026-12-24/${first!.id}.zip`, "")
        NFS.symlinkSync("2026-12-24", `${root}/archive/2026-12-25`)
        NFS.writeFileSync(`${root}/archive/2026-12-26`, "")
        const before = everything(root)
        const found = yield* check({ archives: true, repair: true })
        assert.sameMembers(shown(root, found), [
          `problem Misplaced ${below(root, second!.id)} Left`,
          `problem WrongDay archive/2026-12-24/${first!.id}.tar.zst Left`,
          `note Strange archive/2026-12-24/${first!.id}.zip Left`,
          "problem Misplaced archive/2026-12-25 Left",
          "problem Misplaced archive/2026-12-26 Left",
          "note Strange archive/notes.txt Left"
        ])
        assert.deepStrictEqual(everything(root), before)
        run(found.flatMap((each) => each.fault._tag === "WrongDay" ? [mendOf(each) ?? ""] : []).join("\n"))
        assert.notInclude(shown(root, yield* check()).join(), "WrongDay")
        yield* RunArchive.restore(first!.id)
      })
    ))

  it.live("a link in the place of the archive is not followed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        yield* archived(root, 1)
        NFS.renameSync(`${root}/archive`, `${root}/elsewhere`)
        NFS.symlinkSync("elsewhere", `${root}/archive`)
        assert.deepStrictEqual(shown(root, yield* check({ archives: true })), ["problem Misplaced archive Left"])
      })
    ))

  it.live("archives whose beginning cannot be read, and those that are damaged further on", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [sound, empty, noise, cut, flipped] = yield* archived(root, 5)
        NFS.truncateSync(empty!.path, 0)
        NFS.writeFileSync(noise!.path, "noise")
        NFS.truncateSync(cut!.path, NFS.statSync(cut!.path).size - 20)
        flip(flipped!.path, NFS.statSync(flipped!.path).size - 10)
        const before = everything(root)
        const ofId = (id: RunId) => `problem ArchiveUnusable ${below(root, id)} Left`
        assert.sameMembers(shown(root, yield* check()), [empty!, noise!].map(({ id }) => ofId(id)))
        const found = yield* check({ archives: true, repair: true, removeUnreadable: true })
        assert.sameMembers(shown(root, found), [empty!, noise!, cut!, flipped!].map(({ id }) => ofId(id)))
        for (const each of found) {
          assert.match(words(each.fault), /^is damaged: ./)
          assert.strictEqual(mendOf(each), `put a copy of it back, or, if there is none: leasehold rm ${each.id}`)
        }
        assert.deepStrictEqual(everything(root), before)
        assert.strictEqual((yield* RunArchive.verify(sound!)).record.id, sound!.id)
      })
    ))

  it.live("archives of another run, with the record of another, and of a newer Leasehold", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [sound, swapped] = yield* archived(root, 2)
        NFS.copyFileSync(sound!.path, swapped!.path)
        const foreign = bundle(root, { startedAt: start + day })
        const newer = bundle(root, { startedAt: start + 2 * day })
        edit(foreign, { id: sound!.id })
        assert.match((yield* Effect.flip(RunArchive.archive(foreign.id))).message, /it is the record of/)
        yield* archiveBeside(root, foreign)
        const record = yield* Effect.fromResult(yield* RecordFile.read(newer.dir))
        edit(newer, { version: 7 })
        yield* Effect.scoped(Archiving.write(root, newer, record, identity))
        NFS.rmSync(`${root}/runs`, { recursive: true })
        const findings = yield* check({ archives: true })
        const told = new Map(findings.map((each) => [each.id, `${severityOf(each.fault)} ${words(each.fault)}`]))
        assert.match(told.get(swapped!.id) ?? "", /^problem is not safe to unpack: .*does not lie below/)
        assert.match(told.get(foreign.id) ?? "", new RegExp(`^problem is damaged: its record is that of ${sound!.id}$`))
        assert.match(told.get(newer.id) ?? "", /^note its record has format version 7, which is newer/)
        assert.strictEqual(findings.length, 3)
        const error = yield* Effect.flip(RunArchive.restore(newer.id))
        assert.match(error.message, /format version 7.*use a newer leasehold$/)
        assert.isTrue(NFS.existsSync(Place.pathOf(root, newer.id)))
      })
    ))
})

describe("an archive beside its bundle", () => {
  it.live("is left over, and goes by a repair; not while somebody has to do with it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const made = bundle(root, { startedAt: start, size: 100 })
        yield* archiveBeside(root, made)
        const before = everything(root)
        const found = (outcome: string) => [`note Superseded ${below(root, made.id)} ${outcome}`]
        assert.deepStrictEqual(shown(root, yield* check({ removeUnreadable: true })), found("Left"))
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Place.lock(Place.pathOf(root, made.id))
          assert.deepStrictEqual(yield* check({ repair: true }), [])
        }))
        assert.deepStrictEqual(everything(root), before)
        assert.deepStrictEqual(shown(root, yield* check({ repair: true })), found("Mended"))
        assert.deepStrictEqual([names(`${root}/archive`), NFS.existsSync(`${made.dir}/run.json`)], [[], true])
      })
    ))

  it.live("stays when it cannot be locked", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const made = bundle(root, { startedAt: start })
        yield* archiveBeside(root, made)
        const unlockable = {
          ...native,
          tryExclusive: (fd: number, path: string) =>
            path.endsWith(".zst")
              ? Effect.fail(new Errno({ code: "ENOLCK", call: "lock", path, cause: undefined }))
              : native.tryExclusive(fd, path)
        }
        NFS.mkdirSync(`${root}/staging`, { recursive: true })
        NFS.writeFileSync(Place.draftOf(root, made.id), "")
        const found = yield* Effect.provideService(check({ repair: true }), Locks, unlockable)
        assert.deepStrictEqual(shown(root, found), [
          `problem DraftInDoubt staging/${made.id}.tar.zst Left`,
          `note Superseded ${below(root, made.id)} Failed`
        ])
        assert.isTrue(NFS.existsSync(Place.pathOf(root, made.id)))
        run(mendOf(found[0]!)!.split(": ")[1]!)
        assert.deepStrictEqual(names(`${root}/staging`), [])
      })
    ))

  it.live("whose record cannot be read is a problem that says how to go on, and that works", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const [broken, foreign, newer] = series(root, 3, start, { size: 100 }) as [Made, Made, Made]
        for (const each of [broken, foreign, newer]) yield* archiveBeside(root, each)
        NFS.writeFileSync(`${broken.dir}/run.json`, "{")
        edit(foreign, { id: broken.id })
        edit(newer, { version: 2 })
        const found = (yield* check({ repair: true })).filter(({ fault }) => fault._tag === "OnlyCopy")
        assert.deepStrictEqual(shown(root, found), [
          `problem OnlyCopy ${below(root, broken.id)} Left`,
          `problem OnlyCopy ${below(root, foreign.id)} Left`,
          `note OnlyCopy ${below(root, newer.id)} Left`
        ])
        assert.match(
          mendOf(found[0]!) ?? "",
          new RegExp(`--remove-unreadable, and then: leasehold restore ${broken.id}$`)
        )
        assert.match(mendOf(found[1]!) ?? "", new RegExp(`and then: leasehold restore ${foreign.id}$`))
        assert.strictEqual(mendOf(found[2]!), "use a newer leasehold")
        yield* check({ removeUnreadable: true })
        yield* RunArchive.restore(broken.id)
        yield* RunRemoval.remove(foreign.id)
        yield* RunArchive.restore(foreign.id)
        for (const { dir } of [broken, foreign]) assert.strictEqual(NFS.statSync(`${dir}/artifacts/data`).size, 100)
      })
    ))
})

describe("what was begun", () => {
  it.live("marks of restored runs are nothing to speak of, until their bundle has gone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [restored, waiting, removed] = yield* archived(root, 3)
        for (const { id } of [restored!, removed!]) yield* RunArchive.restore(id)
        yield* TrashSweep.sweepAll(root)
        assert.deepStrictEqual(yield* check(), [])
        const bundleOf = NFS.readdirSync(`${root}/runs`).map((each) => `${root}/runs/${each}/${removed!.id}`)
        for (const each of bundleOf) NFS.rmSync(each, { recursive: true })
        const mark = Place.markOf(root, waiting!.id)
        NFS.writeFileSync(mark, "2026-11-03T00:00:00.000Z\n")
        NFS.writeFileSync(`${Place.markOf(root, restored!.id)}.draft-a1b2c3.tmp`, "")
        const gone = [`${Place.markOf(root, restored!.id)}.draft-a1b2c3.tmp`, mark, Place.markOf(root, removed!.id)]
        const found = (outcome: string) => gone.map((path) => `note Leftover ${path.slice(root.length + 1)} ${outcome}`)
        assert.sameMembers(shown(root, yield* check()), found("Left"))
        yield* Effect.scoped(Effect.gen(function*() {
          // Somebody is about to bring it back.
          yield* Place.lock(waiting!.path)
          assert.notInclude(shown(root, yield* check({ repair: true })).join(), mark.slice(root.length + 1))
        }))
        assert.deepStrictEqual(shown(root, yield* check({ repair: true })), [found("Mended")[1]!])
        assert.deepStrictEqual(yield* check(), [])
        assert.sameMembers(
          [...names(Place.dayOf(root, waiting!.id))],
          [`${waiting!.id}.tar.zst`, `${restored!.id}.restored`]
        )
      })
    ))

  it.live("the mark of a restored run stays where its bundle cannot be looked at", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [restored] = yield* archived(root, 1)
        yield* RunArchive.restore(restored!.id)
        yield* TrashSweep.sweepAll(root)
        const { dir } = yield* (yield* RunStore).get(restored!.id)
        const lstat: FilesApi["lstat"] = (path) => path === dir ? failing("EIO", "lstat") : node.lstat(path)
        yield* check({ repair: true }).pipe(withFiles({ lstat }))
        assert.isTrue(NFS.existsSync(Place.markOf(root, restored!.id)))
      })
    ))

  it.live("drafts of archives, those that are written and those that were abandoned", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const [written, abandoned, linked] = series(root, 3, start) as [Made, Made, Made]
        NFS.mkdirSync(`${root}/staging`)
        for (const { id } of [written, abandoned]) NFS.writeFileSync(Place.draftOf(root, id), "half")
        NFS.symlinkSync("/", Place.draftOf(root, linked.id))
        const found = (outcome: string) => [
          `note Building staging/${written.id}.tar.zst Left`,
          `note Abandoned staging/${abandoned.id}.tar.zst ${outcome}`,
          `problem Misplaced staging/${linked.id}.tar.zst Left`
        ]
        yield* Place.lock(Place.draftOf(root, written.id))
        const before = everything(root)
        assert.deepStrictEqual(shown(root, yield* check()), found("Left"))
        assert.deepStrictEqual(everything(root), before)
        assert.deepStrictEqual(shown(root, yield* check({ repair: true })), found("Mended"))
        assert.deepStrictEqual(names(`${root}/staging`).toSorted(), [written, linked].map(({ id }) => `${id}.tar.zst`))
      })
    ))

  it.live("a trim that is pending, and an undo that failed again and again", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const at = new Date(start + day).toISOString()
        const [trimmed, failing] = series(root, 2, start) as [Made, Made]
        const trim = { at, entries: 1, bytes: 1 }
        const done = { ...trim, paths: ["logs/**"] }
        edit(trimmed, { trimmed: [done, { ...trim, paths: ["temp/**", "artifacts/it's"], pending: true }] })
        const undo = { type: "command", argv: ["docker", "rm", "db"], cwd: "/" }
        const failure = (count: number) => ({ at, message: "no such container", count })
        edit(failing, {
          onRemove: [
            { id: "a", at, undo, failure: failure(3) },
            { id: "b", at, undo, failure: failure(1) },
            { id: "c", at, undo, failure: failure(5), doneAt: at }
          ]
        })
        const found = yield* check({ repair: true })
        assert.sameMembers(shown(root, found), [
          `note TrimPending ${trimmed.dir.slice(root.length + 1)} Left`,
          `note UndoFailed ${failing.dir.slice(root.length + 1)} Left`
        ])
        const ofTag = (tag: string) => found.find(({ fault }) => fault._tag === tag)!
        assert.strictEqual(
          mendOf(ofTag("TrimPending")),
          `leasehold trim ${trimmed.id} --path 'temp/**' --path 'artifacts/it'\\''s'`
        )
        assert.strictEqual(
          words(ofTag("UndoFailed").fault),
          "what it made outside was not undone, in 3 tries, and so it stays: " +
            "cd / && docker rm db: no such container"
        )
      })
    ))
})
