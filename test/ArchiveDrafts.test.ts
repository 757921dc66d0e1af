/** Archives that are being written, and what is left of those that were not finished. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as Place from "../src/internal/ArchivePlace.ts"
import { Errno } from "../src/internal/Errno.ts"
import { Locks, native } from "../src/internal/Locks.ts"
import * as Retention from "../src/Retention.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import { names } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle, type Made, series } from "./support/Fabricate.ts"
import { inStore, makeStore } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

const old = () => Date.now() - day

/** A finished run in a store that was made by hand. */
const one = (root: string): Made => {
  makeStore(root)
  return bundle(root, { startedAt: old(), size: 1000 })
}

const draft = (root: string, id: RunId) => {
  NFS.mkdirSync(`${root}/staging`, { recursive: true })
  const path = Place.draftOf(root, id)
  NFS.writeFileSync(path, "half an archive")
  return path
}

const archivedIn = (root: string, id: RunId) => NFS.existsSync(Place.pathOf(root, id))

describe("a pass", () => {
  it.live("takes away drafts that nobody writes any more, and leaves those that somebody does", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const [abandoned, written] = series(root, 2, old()) as [Made, Made]
        draft(root, abandoned.id)
        const at = draft(root, written.id)
        NFS.writeFileSync(`${root}/staging/notes.tar.zst`, "")
        yield* Place.lock(at)
        const { failed } = yield* Retention.run({ policy: {}, dryRun: true })
        assert.deepStrictEqual([failed, names(`${root}/staging`).length], [[], 3])
        yield* Retention.run({ policy: {} })
        assert.sameMembers([...names(`${root}/staging`)], [`${written.id}.tar.zst`, "notes.tar.zst"])
      })
    ))

  it.live("looks at no more drafts than its budget has", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        for (const { id } of series(root, 5, old())) draft(root, id)
        yield* Retention.run({ policy: {}, budget: { maxLooked: 2 } })
        assert.lengthOf(names(`${root}/staging`), 3)
      })
    ))

  it.live("tells of a draft that cannot be locked, and leaves it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = one(root)
        const at = draft(root, id)
        const unlockable = {
          ...native,
          tryExclusive: (fd: number, path: string) =>
            path === at
              ? Effect.fail(new Errno({ code: "ENOLCK", call: "lock", path, cause: undefined }))
              : native.tryExclusive(fd, path)
        }
        const { failed } = yield* Effect.provideService(Retention.run({ policy: {} }), Locks, unlockable)
        assert.match(failed.map((each) => `${each.id}: ${each.reason}`).join(), new RegExp(`^${id}: .*cannot lock`))
        assert.isTrue(NFS.existsSync(at))
      })
    ))
})

describe("archiving", () => {
  it.live("begins a new draft when a pass takes its own for an abandoned one, and when one was left", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = one(root)
        const at = draft(root, id)
        let locked = 0
        // The first lock is on what was left, the second on its own, before which a pass comes.
        const isOwn = (call: string, paths: ReadonlyArray<string>) =>
          call === "tryExclusive" && paths[0] === at && ++locked === 2
        yield* RunArchive.archive(id).pipe(
          watch(once(isOwn, Effect.orDie(Effect.asVoid(Place.clearDraft(root, id)))))
        )
        assert.isTrue(archivedIn(root, id))
        assert.deepStrictEqual(names(`${root}/staging`), [])
        yield* RunArchive.restore(id)
      })
    ))

  it.live("replaces what a crash has left in its place, but not while somebody has to do with it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = one(root)
        NFS.mkdirSync(Place.dayOf(root, id), { recursive: true })
        NFS.writeFileSync(Place.pathOf(root, id), "left behind")
        yield* Effect.scoped(Effect.gen(function*() {
          yield* Place.lock(Place.pathOf(root, id))
          const error = yield* Effect.flip(RunArchive.archive(id))
          assert.strictEqual(error._tag === "ArchiveError" ? error.reason._tag : error._tag, "Busy")
        }))
        assert.isTrue(NFS.existsSync(`${dir}/run.json`))
        assert.strictEqual(NFS.readFileSync(Place.pathOf(root, id), "utf8"), "left behind")
        assert.deepStrictEqual(names(`${root}/staging`), [])
        yield* RunArchive.archive(id)
        assert.isFalse(NFS.existsSync(dir))
        yield* RunArchive.restore(id)
        assert.strictEqual(NFS.statSync(`${dir}/artifacts/data`).size, 1000)
      })
    ))

  it.live("has its draft locked while it packs, so that no pass takes it for an abandoned one", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = one(root)
        let cleared: boolean | undefined
        // The name of a file in the bundle, which is packed.
        const isPacking = (call: string, paths: ReadonlyArray<string>) =>
          call === "read" && paths[0] === "artifacts/data"
        const pass = Effect.map(Effect.orDie(Place.clearDraft(root, id)), (gone) => void (cleared = gone))
        yield* RunArchive.archive(id).pipe(watch(once(isPacking, pass)))
        assert.deepStrictEqual([cleared, archivedIn(root, id)], [false, true])
      })
    ))

  it.live.each([0.2, 0.5, 0.8])(
    "keeps the bundle when what came to the disk is not what was packed, %d of the way through",
    (share) =>
      inStore((root) =>
        Effect.gen(function*() {
          makeStore(root)
          const { dir, id } = bundle(root, { startedAt: old() })
          NFS.writeFileSync(`${dir}/artifacts/data`, NodeCrypto.randomBytes(20_000))
          const isPublished = (call: string, [from]: ReadonlyArray<string>) =>
            call === "rename" && from === Place.draftOf(root, id)
          const flip = Effect.sync(() => {
            const fd = NFS.openSync(Place.draftOf(root, id), "r+")
            const byte = Buffer.alloc(1)
            const at = Math.floor(NFS.fstatSync(fd).size * share)
            NFS.readSync(fd, byte, 0, 1, at)
            NFS.writeSync(fd, Buffer.from([byte[0]! ^ 1]), 0, 1, at)
            NFS.closeSync(fd)
          })
          const refused = yield* Effect.flip(RunArchive.archive(id).pipe(watch(once(isPublished, flip))))
          assert.strictEqual(refused._tag === "ArchiveError" ? refused.reason._tag : refused._tag, "Corrupt")
          assert.deepStrictEqual([NFS.existsSync(`${dir}/artifacts/data`), archivedIn(root, id)], [true, false])
        })
      )
  )
})

describe("the lock of an archive", () => {
  it.live("is not to be had on a file that was replaced before it was locked", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = one(root)
        const path = draft(root, id)
        const swap = Effect.sync(() => {
          NFS.unlinkSync(path)
          NFS.writeFileSync(path, "another")
        })
        const isLock = (call: string) => call === "tryExclusive"
        assert.strictEqual(yield* Place.lock(path).pipe(watch(once(isLock, swap))), "absent")
        assert.isNotString(yield* Place.lock(path))
      })
    ))
})
