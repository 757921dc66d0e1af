import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, Flags, node } from "../src/internal/Files.ts"
import type { Lease } from "../src/Lease.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import * as TrashSweep from "../src/TrashSweep.ts"
import { bundle } from "./support/Fabricate.ts"
import { everything } from "./support/Snapshot.ts"
import { day } from "./support/Time.ts"

type Store = RunStore.RunStore["Service"]

const store = <A, E>(test: (store: Store) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Effect.flatMap(RunStore.RunStore, test).pipe(Effect.provide(TestLayers.layerStore))

const start = Date.parse("2026-11-01T00:00:00.000Z")

const listed = (each: Store) => Effect.map(Stream.runCollect(each.list), (entries) => entries.map(({ id }) => id))

const trash = (root: string) => NFS.existsSync(`${root}/trash`) ? NFS.readdirSync(`${root}/trash`) : []

/** Why nothing came of it. */
const refusal = <A, E extends { readonly reason: { readonly _tag: string }; readonly message: string }, R>(
  removal: Effect.Effect<A, E, R>
) => Effect.map(Effect.flip(removal), (error) => `${error.reason._tag}: ${error.message}`)

const edit = (dir: string, change: (record: Record<string, unknown>) => unknown) => {
  const path = `${dir}/run.json`
  NFS.writeFileSync(path, JSON.stringify(change(JSON.parse(NFS.readFileSync(path, "utf8")))))
}

const fifo = (path: string) => void NodeChildProcess.execFileSync("mkfifo", [path])

const instead = (name: string, make: (path: string) => void) => (dir: string) => {
  NFS.rmSync(`${dir}/${name}`)
  make(`${dir}/${name}`)
}

describe("remove", () => {
  it.effect("puts a finished run into the trash, whole, and its day goes with the last one", () =>
    store((each) =>
      Effect.gen(function*() {
        const first = bundle(each.root, { startedAt: start, size: 5000 })
        const second = bundle(each.root, { startedAt: start + 1, status: "running" })
        const other = bundle(each.root, { startedAt: start - day })
        yield* RunRemoval.remove(first.id)
        assert.deepStrictEqual(yield* listed(each), [second.id, other.id])
        const [name = ""] = trash(each.root)
        assert.match(name, new RegExp(`^${first.id}-\\w{6}$`))
        assert.strictEqual(NFS.statSync(`${each.root}/trash/${name}/artifacts/data`).size, 5000)
        yield* RunRemoval.remove(second.id)
        assert.deepStrictEqual(NFS.readdirSync(`${each.root}/runs`), ["2026-10-31"])
        assert.match(yield* refusal(RunRemoval.remove(first.id)), /^NoSuchRun/)
        assert.match(yield* refusal(RunRemoval.removeUnreadable(first.id)), /^NoSuchRun/)
      })
    ))

  it.effect("leaves one that somebody works in, and names them", () =>
    store((each) =>
      Effect.gen(function*() {
        const running = yield* Effect.scoped(Effect.gen(function*() {
          const running = yield* each.create({ name: "build", tags: {} })
          assert.match(yield* refusal(RunRemoval.remove(running.id)), /^Held: .*in use by pid \d+ on .* \(owner\)$/)
          yield* each.update(running.id, (record) => ({ ...record, status: "ok" }))
          assert.match(yield* refusal(RunRemoval.remove(running.id)), /^Held/)
          NFS.writeFileSync(`${running.dir}/run.json`, "{")
          assert.match(yield* refusal(RunRemoval.removeUnreadable(running.id)), /^Held/)
          return running
        }))
        assert.deepStrictEqual(yield* listed(each), [running.id])
        assert.deepStrictEqual(trash(each.root), [])
        yield* RunRemoval.removeUnreadable(running.id)
        assert.deepStrictEqual(yield* listed(each), [])
      })
    ))

  it.effect("bug 55: leaves one that is pinned, and says to unpin it first", () =>
    store((each) =>
      Effect.gen(function*() {
        const { id } = bundle(each.root, { startedAt: start, pin: "a release" })
        assert.match(yield* refusal(RunRemoval.remove(id)), new RegExp(`^Pinned: .*a release.*leasehold unpin ${id}$`))
        assert.deepStrictEqual(yield* listed(each), [id])
        yield* each.unpin(id)
        yield* RunRemoval.remove(id)
        assert.deepStrictEqual(yield* listed(each), [])
      })
    ))

  it.live("sees a pin that comes after the claim, and one that comes too late is told so", () =>
    store((each) =>
      Effect.gen(function*() {
        const early = bundle(each.root, { startedAt: start })
        let pinned = 0
        const pinsFirst: FilesApi = {
          ...node,
          open: (path, flags, mode) => {
            const isLocking = path === `${early.dir}/run.json` && flags === Flags.lock
            if (isLocking && pinned++ === 0) {
              edit(early.dir, (record) => ({ ...record, pin: { reason: "now", at: record["endedAt"] } }))
            }
            return node.open(path, flags, mode)
          }
        }
        const removal = Effect.provideService(RunRemoval.remove(early.id), Files, pinsFirst)
        assert.match(yield* refusal(removal), /^Pinned/)
        assert.strictEqual(pinned, 1)

        const late = bundle(each.root, { startedAt: start + 1 })
        let pin: Fiber.Fiber<unknown, unknown> | undefined
        const pinsBeside: FilesApi = {
          ...node,
          rename: (from, to) =>
            Effect.gen(function*() {
              if (from === late.dir) {
                pin = yield* Effect.forkDetach(Effect.provideService(each.pin(late.id, "late"), Files, node))
                yield* Effect.sleep(20)
                assert.isUndefined(pin.pollUnsafe())
              }
              yield* node.rename(from, to)
            })
        }
        yield* Effect.provideService(RunRemoval.remove(late.id), Files, pinsBeside)
        assert.isTrue(Result.isFailure(yield* Effect.result(Fiber.join(pin!))))
        assert.deepStrictEqual(yield* listed(each), [early.id])
      })
    ))

  it.effect("leaves one whose record nobody can read, and says what does remove it", () =>
    store((each) =>
      Effect.gen(function*() {
        const broken = bundle(each.root, { startedAt: start })
        NFS.writeFileSync(`${broken.dir}/run.json`, "")
        assert.match(yield* refusal(RunRemoval.remove(broken.id)), /^Unreadable: .*empty.*verify --remove-unreadable$/)
        NFS.writeFileSync(`${broken.dir}/run.json`, `{"version":7}`)
        assert.match(yield* refusal(RunRemoval.remove(broken.id)), /^NewerVersion: .*version 7.*newer leasehold$/)
        assert.deepStrictEqual(yield* listed(each), [broken.id])
      })
    ))
})

describe("removeUnreadable", () => {
  const damages: ReadonlyArray<readonly [string, (dir: string) => void]> = [
    ["empty", (dir) => NFS.writeFileSync(`${dir}/run.json`, "")],
    ["half a text", (dir) => NFS.truncateSync(`${dir}/run.json`, 40)],
    ["noise", (dir) => NFS.writeFileSync(`${dir}/run.json`, Buffer.from([0xff, 0xfe, 0, 1, 2]))],
    ["of wrong types", (dir) => edit(dir, (record) => ({ ...record, startedAt: 12 }))],
    ["too large", (dir) => NFS.truncateSync(`${dir}/run.json`, 200_000_000)],
    ["missing", instead("run.json", () => {})],
    ["a directory", instead("run.json", NFS.mkdirSync)],
    ["a FIFO", instead("run.json", fifo)],
    ["a link", instead("run.json", (path) => NFS.symlinkSync("lease", path))],
    ["missing, and the lease too", (dir) => {
      NFS.rmSync(`${dir}/run.json`)
      NFS.rmSync(`${dir}/lease`)
    }]
  ]
  it.effect.each(damages)(
    "removes a bundle whose record is %s",
    ([_, damage]) =>
      store((each) =>
        Effect.gen(function*() {
          const { dir, id } = bundle(each.root, { startedAt: start })
          damage(dir)
          yield* RunRemoval.removeUnreadable(id)
          assert.deepStrictEqual(yield* listed(each), [])
          assert.deepStrictEqual(NFS.readdirSync(`${each.root}/runs`), [])
          assert.strictEqual(trash(each.root).length, 1)
        })
      )
  )

  const stays: ReadonlyArray<readonly [string, (dir: string) => void, RegExp]> = [
    ["can be read", () => {}, /^Readable: .*leasehold rm/],
    [
      "is of a newer version",
      (dir) => edit(dir, (record) => ({ ...record, version: 2 })),
      /^NewerVersion: .*version 2/
    ],
    ["is half of one of a newer version", (dir) => {
      NFS.writeFileSync(`${dir}/run.json`, `{\n  "version": 3,\n  "id": `)
    }, /^NewerVersion: .*version 3/],
    ["is of a newer version and larger than ours may be", (dir) => {
      edit(dir, (record) => ({ ...record, version: 4, more: "x".repeat(2_000_000) }))
    }, /^NewerVersion: .*version 4/],
    ["is broken, and pinned as far as can be seen", (dir) => {
      edit(dir, (record) => ({ ...record, startedAt: 12, pin: { reason: "a release", at: record["endedAt"] } }))
    }, /^PerhapsPinned: .*by hand/],
    ["is missing, while the lease is a FIFO", (dir) => {
      NFS.rmSync(`${dir}/run.json`)
      instead("lease", fifo)(dir)
    }, /^Undecided: .*lease is a fifo/],
    ["is missing, while a holder file cannot be read", (dir) => {
      NFS.rmSync(`${dir}/run.json`)
      NFS.writeFileSync(`${dir}/holders/x.json`, "{")
    }, /^Undecided: .*holder file/]
  ]
  it.effect.each(stays)(
    "leaves one whose record %s",
    ([_, damage, expected]) =>
      store((each) =>
        Effect.gen(function*() {
          const { dir, id } = bundle(each.root, { startedAt: start })
          damage(dir)
          const before = NFS.existsSync(`${dir}/run.json`) ? NFS.readFileSync(`${dir}/run.json`) : undefined
          assert.match(yield* refusal(RunRemoval.removeUnreadable(id)), expected)
          assert.deepStrictEqual(yield* listed(each), [id])
          assert.deepStrictEqual(trash(each.root), [])
          if (before !== undefined) assert.isTrue(before.equals(NFS.readFileSync(`${dir}/run.json`)))
        })
      )
  )

  it.effect.each(["EIO", "EMFILE", "ENOMEM", "ESTALE"])(
    "leaves one whose record could not be read at this moment (%s)",
    (code) =>
      store((each) =>
        Effect.gen(function*() {
          const { dir, id } = bundle(each.root, { startedAt: start })
          const failing: FilesApi = {
            ...node,
            open: (path, flags, mode) =>
              path === `${dir}/run.json`
                ? Effect.fail(new Errno({ code, call: "open", path, cause: undefined }))
                : node.open(path, flags, mode)
          }
          const removal = Effect.provideService(RunRemoval.removeUnreadable(id), Files, failing)
          assert.match(yield* refusal(removal), new RegExp(`^NotNow: .*${code}.*try again`))
          assert.deepStrictEqual(yield* listed(each), [id])
        })
      )
  )
})

describe("bug 37: nothing outside the store is touched", () => {
  /** A whole bundle outside, in the place of which the store has a link. */
  const outside = (root: string) => {
    const { dir, id } = bundle(`${root}-outside`, { startedAt: start })
    NFS.writeFileSync(`${dir}/canary`, "alive")
    return { dir, id }
  }

  const inStore = (
    test: (each: Store, there: { readonly dir: string; readonly id: RunId }) => Effect.Effect<
      void,
      unknown,
      RunStore.RunStore | Lease
    >
  ) =>
    store((each) =>
      Effect.gen(function*() {
        const there = outside(each.root)
        const before = everything(`${each.root}-outside`)
        yield* test(each, there)
        yield* TrashSweep.sweep(each.root, { maxUnlinked: 1000 })
        assert.deepStrictEqual(everything(`${each.root}-outside`), before)
      }).pipe(Effect.ensuring(Effect.sync(() => NFS.rmSync(`${each.root}-outside`, { recursive: true, force: true }))))
    )

  const placeOf = (each: Store, id: RunId) => {
    const place = each.dir(id)
    NFS.mkdirSync(NodePath.dirname(place), { recursive: true })
    return place
  }

  it.effect("a link in the place of a bundle is unlinked itself, and only by the verb that says so", () =>
    inStore((each, { dir, id }) =>
      Effect.gen(function*() {
        NFS.symlinkSync(dir, placeOf(each, id))
        assert.match(yield* refusal(RunRemoval.remove(id)), /^Unreadable: .*lies a link/)
        assert.deepStrictEqual(yield* listed(each), [id])
        yield* RunRemoval.removeUnreadable(id)
        assert.deepStrictEqual(yield* listed(each), [])
        assert.deepStrictEqual(trash(each.root), [])
      })
    ))

  it.effect.each<readonly [string, (path: string) => void]>([
    ["file", (path) => NFS.writeFileSync(path, "text")],
    ["FIFO", fifo],
    ["dangling link", (path) => NFS.symlinkSync("nowhere", path)]
  ])(
    "a %s in the place of a bundle is unlinked, unopened",
    ([_, make]) =>
      inStore((each, { id }) =>
        Effect.gen(function*() {
          make(placeOf(each, id))
          assert.match(yield* refusal(RunRemoval.remove(id)), /^Unreadable/)
          yield* RunRemoval.removeUnreadable(id)
          assert.deepStrictEqual(yield* listed(each), [])
        })
      )
  )

  it.effect.each(["day", "runs", "trash"])(
    "a %s that is a link is not gone through",
    (which) =>
      inStore((each, { dir, id }) =>
        Effect.gen(function*() {
          if (which === "day") {
            NFS.mkdirSync(`${each.root}/runs`)
            NFS.symlinkSync(NodePath.dirname(dir), `${each.root}/runs/2026-11-01`)
          } else if (which === "runs") NFS.symlinkSync(NodePath.dirname(NodePath.dirname(dir)), `${each.root}/runs`)
          else {
            bundle(each.root, { startedAt: start - 1000 })
            NFS.cpSync(dir, each.dir(id), { recursive: true })
            NFS.rmdirSync(`${each.root}/trash`)
            NFS.symlinkSync(`${each.root}-outside`, `${each.root}/trash`)
          }
          assert.match(yield* refusal(RunRemoval.remove(id)), /^Astray: .* is a link/)
          assert.match(yield* refusal(RunRemoval.removeUnreadable(id)), /^Astray: .* is a link/)
          assert.isTrue(NFS.existsSync(`${each.dir(id)}/run.json`))
        })
      )
  )
})
