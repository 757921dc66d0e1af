/** Archives on disks that refuse: no locks, no writing, no space. Nothing is lost, and it is said what was refused. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Place from "../src/internal/ArchivePlace.ts"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, Flags, node } from "../src/internal/Files.ts"
import { Locks, type LocksApi } from "../src/internal/Locks.ts"
import type { LeaseError } from "../src/Lease.ts"
import * as Retention from "../src/Retention.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import { RunStore } from "../src/RunStore.ts"
import type { StoreError } from "../src/StoreError.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { names } from "./support/CommandLine.ts"
import { by } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { everything } from "./support/Snapshot.ts"
import { inStore, makeStore, type World } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

type Refused = RunArchive.ArchiveError | StoreError | LeaseError

const size = 700_000

const refuse = (code: string, call: string, path: string) =>
  Effect.fail(new Errno({ code, call, path, cause: undefined }))

/** A disk on which some calls are refused, by what they are about. */
const refusing = (code: string, isRefused: (call: string, args: ReadonlyArray<unknown>) => boolean): FilesApi =>
  by(
    node,
    (call, args, perform) =>
      isRefused(call, args) ? refuse(code, call, String(args.find((arg) => typeof arg === "string"))) : perform
  )

const without: LocksApi = {
  tryShared: (_, path) => refuse("ENOLCK", "lock", path),
  tryExclusive: (_, path) => refuse("ENOLCK", "lock", path),
  tryDowngrade: (_, path) => refuse("ENOLCK", "lock", path)
}

const changes: ReadonlySet<string> = new Set(["unlink", "rmdir", "rename", "mkdir"])

/** What a read-only file system does with the archive on it. */
const readOnly = (root: string) =>
  refusing(
    "EROFS",
    (call, args) =>
      (changes.has(call) && args.some((arg) => String(arg).startsWith(`${root}/archive`))) ||
      (call === "open" && String(args[0]).startsWith(`${root}/archive`) && args[1] === Flags.lock)
  )

const code = <E extends { readonly _tag: string }>(error: E) =>
  error instanceof RunArchive.ArchiveError && error.reason._tag === "System" ? error.reason.errno.code : error._tag

/** The file of whoever claims a run comes and goes. */
const content = (dir: string) => everything(dir).filter((line) => !/^(\.|holders) /.test(line))

const made = (root: string) => {
  makeStore(root)
  NFS.mkdirSync(`${root}/staging`)
  return bundle(root, { startedAt: Date.now() - day, size })
}

const archived = Effect.fnUntraced(function*(root: string) {
  const { dir, id } = made(root)
  yield* RunArchive.archive(id)
  yield* TrashSweep.sweepAll(root)
  return { dir, id, path: Place.pathOf(root, id) }
})

const comesBack = Effect.fnUntraced(function*(dir: string, id: RunId) {
  yield* RunArchive.restore(id)
  assert.strictEqual(NFS.statSync(`${dir}/artifacts/data`).size, size)
})

describe("where the file system has no locks", () => {
  it.live("an archive is neither restored nor gone on with nor removed, and nothing is touched", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = yield* archived(root)
        const before = everything(root)
        const attempts = [RunArchive.restore(id), RunArchive.remove(id), Effect.scoped(RunArchive.resume(id))]
        for (const attempt of attempts.map((each) => Effect.asVoid<unknown, Refused, World>(each))) {
          const error = yield* Effect.flip(Effect.provideService(attempt, Locks, without))
          assert.strictEqual(code(error), "ENOLCK")
          assert.match(error.message, /the file system cannot lock/)
        }
        assert.deepStrictEqual(everything(root), before)
        yield* comesBack(dir, id)
      })
    ))
})

describe("on a read-only file system", () => {
  it.live("an archive stays, and so does a run that was to be archived", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = yield* archived(root)
        const other = bundle(root, { startedAt: Date.now() - 2 * day })
        const before = everything(root)
        const frozen = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provideService(effect, Files, readOnly(root))
        assert.strictEqual(code(yield* Effect.flip(frozen(RunArchive.restore(id)))), "EROFS")
        assert.strictEqual(code(yield* Effect.flip(frozen(RunArchive.remove(id)))), "EROFS")
        assert.deepStrictEqual(everything(root), before)
        assert.strictEqual(code(yield* Effect.flip(frozen(RunArchive.archive(other.id)))), "EROFS")
        assert.isTrue(NFS.existsSync(`${other.dir}/run.json`))
        assert.deepStrictEqual(names(`${root}/staging`), [])
        yield* comesBack(dir, id)
      })
    ))

  it.live("that begins to refuse when a run is back already, the run counts", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id, path } = yield* archived(root)
        const disk = refusing("EROFS", (call, args) => call === "unlink" && args[0] === path)
        yield* Effect.provideService(RunArchive.restore(id), Files, disk)
        assert.deepStrictEqual([NFS.existsSync(path), NFS.existsSync(`${dir}/run.json`)], [true, true])
        const error = yield* Effect.flip(RunArchive.restore(id))
        assert.strictEqual(error._tag === "ArchiveError" ? error.reason._tag : error._tag, "Present")
      })
    ))
})

describe("on a disk that cannot say what is there", () => {
  const unreadable = (path: string) => refusing("EIO", (call, args) => call === "lstat" && args[0] === path)

  const tag = (error: Refused) => error._tag === "ArchiveError" ? error.reason._tag : error._tag

  const verbs: ReadonlyArray<readonly [string, (id: RunId) => Effect.Effect<unknown, Refused, World>]> = [
    ["restored", RunArchive.restore],
    ["removed", RunArchive.remove]
  ]

  it.live.each(verbs)(
    "an archive is not %s beside what may be its bundle, and not taken for one alone",
    ([, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id, path } = yield* archived(root)
          const disk = unreadable(dir)
          assert.strictEqual(tag(yield* Effect.flip(Effect.provideService(verb(id), Files, disk))), "Present")
          assert.isTrue(NFS.existsSync(path))
          const error = yield* Effect.flip(Effect.provideService(RunArchive.get(id), Files, disk))
          assert.strictEqual(error.reason._tag, "NoSuchRun")
          yield* comesBack(dir, id)
        })
      )
  )

  it.live.each(verbs)(
    "an archive is not %s that is not seen to be the locked one, and nobody tries for ever",
    ([, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id, path } = yield* archived(root)
          const error = yield* Effect.flip(Effect.provideService(verb(id), Files, unreadable(path)))
          assert.strictEqual(code(error), "EIO")
          yield* comesBack(dir, id)
        })
      )
  )
})

describe("an archive that cannot be looked at", () => {
  const unreadable = (root: string, id: RunId) => {
    const path = Place.pathOf(root, id)
    return refusing("EIO", (call, args) => call === "lstat" && args[0] === path)
  }

  it.live("keeps its bundle from going alone, since it would stand for the run again", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id, path } = yield* archived(root)
        const bytes = NFS.readFileSync(path)
        yield* RunArchive.restore(id)
        NFS.writeFileSync(path, bytes)
        const error = yield* Effect.flip(Effect.provideService(RunRemoval.remove(id), Files, unreadable(root, id)))
        assert.match(error.message, /EIO/)
        assert.isTrue(NFS.existsSync(`${dir}/run.json`))
        yield* RunRemoval.remove(id)
        assert.deepStrictEqual([NFS.existsSync(dir), NFS.existsSync(path)], [false, false])
      })
    ))

  it.live("is no run that there is not", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { id } = yield* archived(root)
        const gets: ReadonlyArray<Effect.Effect<unknown, StoreError, World>> = [
          Effect.flatMap(RunStore, (store) => store.get(id)),
          RunArchive.get(id)
        ]
        for (const get of gets) {
          const error = yield* Effect.flip(
            Effect.provideService(get, Files, unreadable(root, id))
          )
          assert.strictEqual(error.reason._tag, "System")
        }
      })
    ))
})

describe("on a disk that does not flush its directories", () => {
  const unflushed = (code: string, ...paths: ReadonlyArray<string>) =>
    refusing(code, (call, args) => call === "fsync" && paths.includes(String(args[1])))

  it.live("a bundle stays until its archive is there for good", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = made(root)
        const before = content(dir)
        const disk = unflushed("EIO", Place.dayOf(root, id))
        assert.strictEqual(code(yield* Effect.flip(Effect.provideService(RunArchive.archive(id), Files, disk))), "EIO")
        assert.deepStrictEqual(content(dir), before)
        assert.deepStrictEqual([names(`${root}/staging`), names(`${root}/archive`)], [[], []])
      })
    ))

  it.live("an archive stays until its bundle is there for good", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id, path } = yield* archived(root)
        yield* Effect.provideService(
          RunArchive.restore(id),
          Files,
          unflushed("EIO", dir.slice(0, dir.lastIndexOf("/")))
        )
        assert.deepStrictEqual([NFS.existsSync(path), NFS.existsSync(`${dir}/run.json`)], [true, true])
      })
    ))

  it.live.each(["EINVAL", "ENOTSUP", "EOPNOTSUPP"])(
    "since it has no such thing, runs come and go as elsewhere: %s",
    (code) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = made(root)
          const disk = unflushed(code, Place.dayOf(root, id), dir.slice(0, dir.lastIndexOf("/")))
          yield* Effect.provideService(RunArchive.archive(id), Files, disk)
          assert.deepStrictEqual([NFS.existsSync(dir), names(Place.dayOf(root, id))], [false, [`${id}.tar.zst`]])
          yield* Effect.provideService(RunArchive.restore(id), Files, disk)
          assert.deepStrictEqual(names(Place.dayOf(root, id)), [`${id}.restored`])
        })
      )
  )
})

describe("on a full disk", () => {
  const calls = ["open", "write", "fsync", "rename", "mkdir"] as const

  it.live.each(calls)(
    "a run that is to be archived stays whole, wherever the space ends: %s",
    (refused) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = made(root)
          const before = content(dir)
          const disk = refusing(
            "ENOSPC",
            (call, args) => call === refused && args.some((arg) => /archive|tar\.zst/.test(String(arg)))
          )
          assert.strictEqual(
            code(yield* Effect.flip(Effect.provideService(RunArchive.archive(id), Files, disk))),
            "ENOSPC"
          )
          assert.deepStrictEqual(content(dir), before)
          assert.deepStrictEqual([names(`${root}/staging`), names(`${root}/archive`)], [[], []])
          yield* RunArchive.archive(id)
          yield* comesBack(dir, id)
        })
      )
  )

  const steps: ReadonlyArray<readonly [string, (call: string, args: ReadonlyArray<unknown>) => boolean]> = [
    ["the directory in staging", (call, args) => call === "mkdir" && String(args[0]).includes("/staging/")],
    ["a directory in it", (call) => call === "mkdirAt"],
    ["a file in it", (call) => call === "openAt"],
    ["the content of a file", (call, args) => call === "write" && String(args[2]).includes("artifacts")],
    ["the flush of a file", (call, args) => call === "fsync" && String(args[1]).includes("artifacts")],
    ["its day", (call, args) => call === "mkdir" && String(args[0]).includes("/runs/")]
  ]

  it.live.each(steps)(
    "an archive stays, and nothing half restored: %s",
    ([, isRefused]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = yield* archived(root)
          const disk = refusing("ENOSPC", isRefused)
          assert.strictEqual(
            code(yield* Effect.flip(Effect.provideService(RunArchive.restore(id), Files, disk))),
            "ENOSPC"
          )
          assert.deepStrictEqual([names(`${root}/staging`), names(`${root}/runs`)], [[], []])
          assert.deepStrictEqual(names(Place.dayOf(root, id)), [`${id}.tar.zst`])
          yield* comesBack(dir, id)
        })
      )
  )
})

describe("where the trash takes nothing", () => {
  type Leave = (id: RunId) => Effect.Effect<unknown, Refused | RunRemoval.RemovalError, World>

  it.live.each<readonly [string, Leave]>([
    ["removed", RunRemoval.remove],
    ["archived", RunArchive.archive]
  ])(
    "a run that was brought back and was to be %s is as young as before",
    ([, leave]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = yield* archived(root)
          yield* comesBack(dir, id)
          const disk = refusing("EIO", (call, args) => call === "rename" && String(args[1]).includes("/trash/"))
          yield* Effect.flip(Effect.provideService(leave(id), Files, disk))
          const { archived: gone, removed } = yield* Retention.run({ policy: { maxAge: "1 hour", archive: "1 hour" } })
          assert.deepStrictEqual([gone, removed], [[], []])
          yield* RunRemoval.remove(id)
          assert.deepStrictEqual(names(`${root}/archive`), [])
        })
      )
  )
})
