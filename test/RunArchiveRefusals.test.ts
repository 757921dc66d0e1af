import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as Place from "../src/internal/ArchivePlace.ts"
import { type FilesApi, node } from "../src/internal/Files.ts"
import * as Retention from "../src/Retention.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import * as SqliteIndex from "../src/SqliteIndex.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { failing, withFiles } from "./fixtures/sweeps.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { filled, inStore, type Store } from "./support/Trims.ts"
import { lines, made, registeredIn, shell } from "./support/Undo.ts"

const { refusal } = Archives

const listed = Effect.map(Stream.runCollect(RunArchive.list), (entries) => entries.map(({ id }) => id))

const nothingElse = (root: string) =>
  assert.deepStrictEqual([Archives.archives(root), names(`${root}/staging`), names(`${root}/trash`)], [[], [], []])

const isDraft = (path: string | undefined) => path?.endsWith(".tar.zst") === true && path.includes("/staging/")

/** Before the archive is put in its place: all of it has been packed. */
const atPublish = (step: Effect.Effect<void>) => once((call, [path]) => call === "rename" && isDraft(path), step)

describe("what changes while it is packed", () => {
  const orDie = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.asVoid(Effect.orDie(effect))

  it.live("its record, when somebody pins the run in that moment: it has changed, and is no file that cannot be packed", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        // The record is the first file of a bundle to be opened.
        const pinNow = once((call) => call === "openAt", orDie(each.pin(id, "now")))
        assert.match(yield* refusal(RunArchive.archive(id).pipe(watch(pinNow))), /^Changed: /)
        assert.strictEqual(recordAt(dir).pin?.reason, "now")
        nothingElse(each.root)
      })
    ))

  it.live.each<readonly [string, (dir: string) => void, RegExp]>([
    ["grew", (dir) => NFS.appendFileSync(`${dir}/temp/0`, "more"), /written to while it was read/],
    ["was written to", (dir) => NFS.writeFileSync(`${dir}/temp/0`, "y".repeat(4096)), /written to while it was read/],
    ["became shorter", (dir) => NFS.truncateSync(`${dir}/temp/0`, 10), /(written to|shorter) while it was read/]
  ])(
    "a file that %s is told, and the bundle stays",
    ([_, change, expected]) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 1)
          Archives.touch(`${dir}/temp/0`, 1_000_000)
          let reads = 0
          const read: FilesApi["read"] = (fd, buffer, path, position) =>
            Effect.suspend(() => {
              if (path === "temp/0" && ++reads === 1) change(dir)
              return node.read(fd, buffer, path, position)
            })
          assert.match(yield* refusal(RunArchive.archive(id).pipe(withFiles({ read }))), expected)
          assert.isTrue(NFS.existsSync(dir))
          nothingElse(each.root)
        })
      )
  )

  it.live("a file that was replaced between the look at it and its opening", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        const openAt: FilesApi["openAt"] = (place, name, flags, mode) =>
          Effect.suspend(() => {
            if (name.toString() === "0") {
              NFS.writeFileSync(`${dir}/temp/new`, "other")
              NFS.renameSync(`${dir}/temp/new`, `${dir}/temp/0`)
            }
            return node.openAt(place, name, flags, mode)
          })
        const why = yield* refusal(RunArchive.archive(id).pipe(withFiles({ openAt })))
        assert.match(why, /^NotPackable: .*"temp\/0".*replaced while it was read/)
        nothingElse(each.root)
      })
    ))

  it.live.each<readonly [string, RegExp, (each: Store, id: ReturnType<typeof filled>["id"]) => Effect.Effect<void>]>([
    ["a pin", /^Pinned: /, (each, id) => orDie(each.pin(id, "now"))],
    [
      "another change of the record",
      /^Changed: /,
      (each, id) => orDie(each.update(id, (record) => ({ ...record, tags: { ...record.tags, more: "x" } })))
    ]
  ])(
    "%s that comes once all is packed, and nothing is lost",
    ([_, expected, change]) =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 1)
          const before = Archives.treeOf(`${dir}/temp`)
          const archiving = watch(atPublish(change(each, id)))(RunArchive.archive(id))
          assert.match(yield* refusal(archiving), expected)
          Archives.sameTree(Archives.treeOf(`${dir}/temp`), before)
          assert.deepStrictEqual(yield* listed, [])
          nothingElse(each.root)
        })
      )
  )

  it.live("an unreadable file is told of with the name of the call", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        const openAt: FilesApi["openAt"] = (place, name, flags, mode) =>
          name.toString() === "0" ? failing("EACCES", "open") : node.openAt(place, name, flags, mode)
        const why = yield* refusal(RunArchive.archive(id).pipe(withFiles({ openAt })))
        assert.match(why, /^System: .*permission denied \(EACCES on open\)/)
        assert.isTrue(NFS.existsSync(`${dir}/temp/0`))
        nothingElse(each.root)
      })
    ))

  it.live("what is damaged on its way to the disk is noticed, and the bundle stays", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        let writes = 0
        const write: FilesApi["write"] = (fd, bytes, path) =>
          Effect.suspend(() => {
            if (!isDraft(path) || ++writes > 1) return node.write(fd, bytes, path)
            const flipped = Buffer.from(bytes)
            flipped[flipped.length >> 1]! ^= 1
            return node.write(fd, flipped, path)
          })
        assert.match(yield* refusal(RunArchive.archive(id).pipe(withFiles({ write }))), /^Corrupt: /)
        assert.strictEqual(writes > 0, true)
        assert.isTrue(NFS.existsSync(`${dir}/temp/0`))
        nothingElse(each.root)
      })
    ))
})

describe("what a run has made outside", () => {
  it.live("is undone before the run is packed, and its record says so", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const log = `${each.root}/log`
        const one = made(each.root, [
          shell(`echo a $LEASEHOLD_RUN_ID >> ${log}`),
          shell(`test -d $LEASEHOLD_RUN_DIR && echo b >> ${log}`)
        ])
        yield* RunArchive.archive(one.id)
        assert.deepStrictEqual(lines(log).length, 2)
        const { onRemove = [] } = yield* Effect.flatMap(RunArchive.get(one.id), RunArchive.readRecord)
        assert.isTrue(onRemove.length === 2 && onRemove.every(({ doneAt }) => doneAt !== undefined))
        yield* RunArchive.restore(one.id)
        yield* RunArchive.archive(one.id)
        assert.deepStrictEqual(lines(log).length, 2)
      })
    ))

  it.live("and cannot be undone keeps the run where it is", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const one = made(each.root, [shell("exit 3")])
        assert.match(
          yield* refusal(RunArchive.archive(one.id)),
          /^NotUndone: .*archive the run again: leasehold archive/
        )
        assert.deepStrictEqual(registeredIn(one), ["a failed 1"])
        nothingElse(each.root)
      })
    ))

  it.live("and was undone, which could not be written down, keeps the run where it is", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const log = `${each.root}/log`
        const one = made(each.root, [shell(`echo a >> ${log}`)])
        const before = Archives.treeOf(`${one.dir}/artifacts`)
        const open: FilesApi["open"] = (path, flags, mode) =>
          path.startsWith(`${one.dir}/run.json.`) ? failing("ENOSPC", "open") : node.open(path, flags, mode)
        const why = yield* refusal(RunArchive.archive(one.id).pipe(withFiles({ open })))
        assert.match(why, /^NotUndone: .*could not be written down/)
        Archives.sameTree(Archives.treeOf(`${one.dir}/artifacts`), before)
        nothingElse(each.root)
        yield* RunArchive.archive(one.id)
        assert.deepStrictEqual(yield* listed, [one.id])
      })
    ))
})

describe("who comes at the same time", () => {
  it.live("does not restore what another restores, and does not remove it", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        yield* RunArchive.archive(id)
        const told: Array<string> = []
        const others = Effect.gen(function*() {
          told.push(yield* refusal(RunArchive.restore(id)), yield* refusal(RunArchive.remove(id)))
        })
        const isUnpacking = (call: string) => call === "openAt"
        yield* Effect.flatMap(Effect.context<never>(), (context) =>
          watch(once(isUnpacking, Effect.orDie(Effect.provide(others, context as never)) as Effect.Effect<void>))(
            RunArchive.restore(id)
          ))
        assert.match(told.join("\n"), /^Busy: .*\nBusy: /)
        assert.isTrue(NFS.existsSync(`${dir}/temp/0`))
        assert.match(yield* refusal(RunArchive.restore(id)), /^Present: /)
        assert.match(yield* refusal(RunArchive.remove(id)), /^Present: /)
        yield* RunRemoval.remove(id)
        assert.match(yield* refusal(RunArchive.restore(id)), /^NoSuchRun: /)
      })
    ))

  it.live("does not restore or remove what is in its place and still has its bundle beside it", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { id } = filled(each, 1)
        const told: Array<string> = []
        const others = Effect.gen(function*() {
          assert.deepStrictEqual(yield* listed, [])
          for (const act of [RunArchive.restore(id), RunArchive.remove(id)]) {
            told.push(yield* refusal(act as Effect.Effect<unknown, RunArchive.ArchiveError>))
          }
        })
        let reads = 0
        const isReadBack = (call: string, [path]: ReadonlyArray<string>) =>
          call === "read" && path === Archives.pathOf(each.root, id) && ++reads === 1
        yield* Effect.flatMap(Effect.context<never>(), (context) =>
          watch(once(isReadBack, Effect.orDie(Effect.provide(others, context as never)) as Effect.Effect<void>))(
            RunArchive.archive(id)
          ))
        assert.match(told.join("\n"), /^Busy: .*\nBusy: /)
        assert.deepStrictEqual(yield* listed, [id])
      })
    ))
})

describe("an archive beside its bundle, as a crash leaves it", () => {
  /** An archive of which the bundle is still there, or there again, and says something newer. */
  const stale = Effect.fnUntraced(function*(each: Store) {
    const one = filled(each, 1)
    const { path } = yield* RunArchive.archive(one.id)
    const archive = NFS.readFileSync(path)
    yield* RunArchive.restore(one.id)
    NFS.writeFileSync(`${one.dir}/temp/0`, "newer")
    NFS.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true })
    NFS.writeFileSync(path, archive)
    return { ...one, path }
  })

  it.live("is nothing: it is not listed, restored or removed, and the bundle is what is archived", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* stale(each)
        assert.deepStrictEqual(yield* listed, [])
        assert.match(yield* refusal(RunArchive.get(id)), /^NoSuchRun/)
        assert.match(yield* refusal(RunArchive.restore(id)), /^Present/)
        yield* RunArchive.archive(id)
        assert.deepStrictEqual(yield* listed, [id])
        yield* RunArchive.restore(id)
        assert.strictEqual(NFS.readFileSync(`${dir}/temp/0`, "utf8"), "newer")
      })
    ))

  it.live("goes with the bundle, and does not come back", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { id, path } = yield* stale(each)
        yield* RunRemoval.remove(id)
        assert.deepStrictEqual([NFS.existsSync(path), yield* listed], [false, []])
        assert.match(yield* refusal(each.get(id)), /^NoSuchRun/)
      })
    ))

  it.live("is not taken away from somebody who has it, and so the bundle stays as well", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id, path } = yield* stale(each)
        const remaining = () => [NFS.existsSync(dir), NFS.existsSync(path)]
        yield* Effect.scoped(Effect.gen(function*() {
          assert.isNotString(yield* Place.lock(path))
          assert.match(yield* refusal(RunRemoval.remove(id)), /^System: .*in use \(EBUSY on lock\)/)
          const report = yield* Retention.run({ policy: { all: true } }).pipe(Effect.provide(SqliteIndex.layer))
          assert.deepStrictEqual(report.failed.map((failed) => failed.id), [id])
          assert.deepStrictEqual(remaining(), [true, true])
        }))
        yield* RunRemoval.remove(id)
        assert.deepStrictEqual(remaining(), [false, false])
        assert.deepStrictEqual(names(`${each.root}/archive`), [])
      })
    ))

  it.live("stays when the bundle that goes is one that nobody can read: it may be all that is left", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id, path } = yield* stale(each)
        NFS.writeFileSync(`${dir}/run.json`, "{")
        yield* RunRemoval.removeUnreadable(id)
        assert.deepStrictEqual([NFS.existsSync(path), yield* listed], [true, [id]])
      })
    ))

  it.live("is there still where the bundle stays", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* stale(each)
        yield* each.pin(id, "keep")
        assert.match(yield* refusal(RunRemoval.remove(id)), /^Pinned/)
        assert.strictEqual(recordAt(dir).pin?.reason, "keep")
        assert.strictEqual(Archives.archives(each.root).length, 1)
        yield* TrashSweep.sweepAll(each.root)
        assert.isTrue(NFS.existsSync(dir))
      })
    ))
})
