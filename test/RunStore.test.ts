import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, node } from "../src/internal/Files.ts"
import { Locks } from "../src/internal/Locks.ts"
import type { Lease } from "../src/Lease.ts"
import * as RunStore from "../src/RunStore.ts"
import type { StoreError } from "../src/StoreError.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { once, watch } from "./support/Doors.ts"
import { parts } from "./support/Stores.ts"
import { directory } from "./support/Worker.ts"

const store = <A, E>(test: (store: RunStore.RunStore["Service"]) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Effect.flatMap(RunStore.RunStore, test).pipe(Effect.provide(TestLayers.layerStore))

const draft = { name: "build", tags: {} }

const create = Effect.flatMap(RunStore.RunStore, (each) => Effect.scoped(each.create(draft)))

const opening = (options: RunStore.Options): Effect.Effect<string, StoreError> =>
  Effect.map(RunStore.RunStore, (each) => each.root).pipe(Effect.provide(RunStore.layer(options)))

const refusal = (options: RunStore.Options) =>
  Effect.map(Effect.flip(opening(options)), (error) => [error.reason._tag, error.message] as const)

const inDirectory = <A, E>(test: (dir: string) => Effect.Effect<A, E>) => Effect.scoped(Effect.flatMap(directory, test))

describe("opening a root", () => {
  it.effect("makes it, private to its owner, and opens it again as the same store", () =>
    inDirectory((dir) =>
      Effect.gen(function*() {
        const root = `${dir}/a/b`
        const id = Effect.map(RunStore.RunStore, (each) => each.id).pipe(
          Effect.provide(RunStore.layer({ root, allowTemp: true }))
        )
        const first = yield* id
        assert.strictEqual(NFS.statSync(root).mode & 0o777, 0o700)
        assert.strictEqual(yield* id, first)
        assert.deepStrictEqual(NFS.readdirSync(root), ["store.json", "trash"])
      })
    ))

  it.effect("is the same store for everybody who makes it at once", () =>
    inDirectory((dir) =>
      Effect.gen(function*() {
        const id = Effect.map(RunStore.RunStore, (each) => each.id).pipe(
          Effect.provide(RunStore.layer({ root: `${dir}/s`, allowTemp: true }))
        )
        const ids = yield* Effect.all(Array.from({ length: 20 }, () => id), { concurrency: "unbounded" })
        assert.strictEqual(new Set(ids).size, 1)
      })
    ))

  const refused: ReadonlyArray<readonly [string, (dir: string) => string, string, RegExp]> = [
    [
      "a link",
      (dir) => {
        NFS.mkdirSync(`${dir}/real`)
        NFS.symlinkSync(`${dir}/real`, `${dir}/link`)
        return `${dir}/link`
      },
      "UnsafeRoot",
      /symbolic link.*give the path it points to/
    ],
    ["no path at all", () => "", "UnsafeRoot", /its path is empty/],
    [
      "a file",
      (dir) => {
        NFS.writeFileSync(`${dir}/file`, "")
        return `${dir}/file`
      },
      "UnsafeRoot",
      /it is a file/
    ],
    [
      "one that others may write to",
      (dir) => {
        NFS.mkdirSync(`${dir}/open`)
        NFS.chmodSync(`${dir}/open`, 0o777)
        return `${dir}/open`
      },
      "UnsafeRoot",
      /chmod go-w/
    ],
    [
      "a directory of something else",
      (dir) => {
        NFS.mkdirSync(`${dir}/home`, { mode: 0o700 })
        NFS.writeFileSync(`${dir}/home/letter.txt`, "")
        return `${dir}/home`
      },
      "UnsafeRoot",
      /holds other things \(letter.txt\)/
    ],
    [
      "a store of a newer format",
      (dir) => {
        NFS.mkdirSync(`${dir}/new`, { mode: 0o700 })
        NFS.writeFileSync(`${dir}/new/store.json`, `{"version":2,"surprise":[]}`)
        return `${dir}/new`
      },
      "NewerFormat",
      /version 2/
    ],
    [
      "a store whose store.json is broken",
      (dir) => {
        NFS.mkdirSync(`${dir}/broken`, { mode: 0o700 })
        NFS.writeFileSync(`${dir}/broken/store.json`, `{"version":`)
        return `${dir}/broken`
      },
      "IllegibleFormat",
      /put it back/
    ]
  ]
  it.effect.each(refused)(
    "refuses %s and touches nothing",
    ([_, make, tag, message]) =>
      inDirectory((dir) =>
        Effect.gen(function*() {
          const root = make(dir)
          const before = NFS.readdirSync(dir, { recursive: true })
          const [reason, text] = yield* refusal({ root, allowTemp: true })
          assert.strictEqual(reason, tag)
          assert.match(text, message)
          assert.deepStrictEqual(NFS.readdirSync(dir, { recursive: true }), before)
        })
      )
  )

  it.effect("says what the system refused, and not that the store is broken", () =>
    inDirectory((dir) =>
      Effect.gen(function*() {
        const root = `${dir}/store`
        yield* opening({ root, allowTemp: true })
        const open = (path: string, ...rest: [number, number?]) =>
          path.endsWith("store.json")
            ? Effect.fail(new Errno({ code: "EACCES", call: "open", path, cause: undefined }))
            : node.open(path, ...rest)
        const [tag, text] = yield* Effect.provideService(refusal({ root, allowTemp: true }), Files, { ...node, open })
        assert.deepStrictEqual([tag, text], ["System", `${root}/store.json: permission denied (EACCES on open)`])
      })
    ))

  it.effect.skipIf(process.getuid?.() !== 0)(
    "refuses one that belongs to another user",
    () =>
      inDirectory((dir) =>
        Effect.gen(function*() {
          NFS.mkdirSync(`${dir}/theirs`, { mode: 0o700 })
          NFS.chownSync(`${dir}/theirs`, 1234, 1234)
          assert.match((yield* refusal({ root: `${dir}/theirs`, allowTemp: true }))[1], /belongs to user 1234/)
        })
      )
  )

  it.effect("bug 05: refuses a place that sweepers clear, also through a link, unless asked for", () =>
    inDirectory((dir) =>
      Effect.gen(function*() {
        assert.match((yield* refusal({ root: `${dir}/store` }))[1], /deletes by age/)
        NFS.symlinkSync(dir, `${dir}/elsewhere`)
        assert.match((yield* refusal({ root: `${dir}/elsewhere/deeper/store` }))[1], /deletes by age/)
        assert.isFalse(NFS.existsSync(`${dir}/store`))
        assert.strictEqual(yield* opening({ root: `${dir}/store`, allowTemp: true }), `${dir}/store`)
      })
    ))
})

describe("a root where nothing can be made", () => {
  it.live.skipIf(process.platform !== "linux")("is refused, and not tried for ever", () =>
    Effect.gen(function*() {
      const opened = RunStore.RunStore.pipe(Effect.provide(RunStore.layer({ root: "/proc/leasehold/runs" })))
      assert.include((yield* Effect.flip(Effect.scoped(opened))).message, "/proc/leasehold")
    }))
})

describe("creating a bundle", () => {
  it.live("does not follow a link in the place of its day", () =>
    Effect.gen(function*() {
      const store = yield* RunStore.RunStore
      const elsewhere = yield* directory
      const { id } = yield* Effect.scoped(store.create({ name: "first", tags: {} }))
      const day = store.dir(id).slice(0, store.dir(id).lastIndexOf("/"))
      NFS.rmSync(day, { recursive: true })
      NFS.symlinkSync(elsewhere, day)
      const error = yield* Effect.flip(Effect.scoped(store.create({ name: "second", tags: {} })))
      assert.include(error.message, day)
      assert.deepStrictEqual(NFS.readdirSync(elsewhere), [])
    }).pipe(Effect.scoped, Effect.provide(TestLayers.layerStore)))

  it.effect("publishes it whole, with its lease held, and frees it with the scope", () =>
    store((each) =>
      Effect.gen(function*() {
        const bundle = yield* Effect.scoped(Effect.gen(function*() {
          const bundle = yield* each.create({ ...draft, tags: { branch: "main" } })
          assert.strictEqual((yield* each.liveness(yield* each.get(bundle.id)))._tag, "Live")
          assert.deepStrictEqual(NFS.readdirSync(bundle.dir).sort(), parts)
          assert.strictEqual(NFS.readdirSync(`${bundle.dir}/holders`).length, 1)
          return bundle
        }))
        assert.strictEqual((yield* each.liveness(yield* each.get(bundle.id)))._tag, "Dead")
        assert.deepStrictEqual(NFS.readdirSync(`${bundle.dir}/holders`), [])
        assert.deepStrictEqual(NFS.readdirSync(`${each.root}/staging`), [])
        assert.strictEqual(NFS.statSync(bundle.dir).mode & 0o777, 0o700)
        assert.strictEqual(NFS.statSync(`${bundle.dir}/run.json`).mode & 0o777, 0o600)
      })
    ))

  it.effect("bug 45: leaves nothing behind when the disk is full at any of its calls", () =>
    store((each) =>
      Effect.gen(function*() {
        let calls = 0
        const failingAt = (n: number) => {
          calls = 0
          const full = (path: string) =>
            Effect.suspend(() =>
              ++calls === n
                ? Effect.fail(new Errno({ code: "ENOSPC", call: "write", path, cause: undefined }))
                : Effect.void
            )
          return {
            ...node,
            mkdir: (path: string, options?: { readonly recursive?: boolean }) =>
              Effect.andThen(full(path), node.mkdir(path, options)),
            open: (path: string, flags: number, mode?: number) =>
              Effect.andThen(full(path), node.open(path, flags, mode)),
            write: (fd: number, bytes: Uint8Array, path: string) =>
              Effect.andThen(full(path), node.write(fd, bytes, path)),
            rename: (from: string, to: string) => Effect.andThen(full(to), node.rename(from, to))
          }
        }
        yield* create
        for (let n = 1;; n++) {
          const made = yield* Effect.result(Effect.provideService(create, Files, failingAt(n)))
          if (calls < n) break
          assert.isTrue(Result.isFailure(made), `call ${n}`)
          if (Result.isFailure(made)) assert.match(made.failure.message, /disk is full/)
          assert.deepStrictEqual(NFS.readdirSync(`${each.root}/staging`), [], `call ${n}`)
          assert.strictEqual((yield* Stream.runCollect(each.list)).length, 1, `call ${n}`)
        }
        assert.isAbove(calls, 8)
      })
    ))

  it.effect("bug 23: says so where there are no locks, and goes on only when asked to, keeping it on record", () =>
    store((each) =>
      Effect.gen(function*() {
        const refuse = (_: number, path: string) =>
          Effect.fail(new Errno({ code: "ENOLCK", call: "lock", path, cause: undefined }))
        const without = Effect.provideService(Locks, {
          tryShared: refuse,
          tryExclusive: refuse,
          tryDowngrade: refuse
        })
        const error = yield* Effect.flip(without(create))
        assert.match(error.message, /no locks \(ENOLCK\)/)
        assert.deepStrictEqual(NFS.readdirSync(`${each.root}/staging`), [])
        const bundle = yield* without(Effect.scoped(each.create({ ...draft, unprotected: true })))
        assert.strictEqual(bundle.record.lease, "unprotected")
        assert.strictEqual((yield* without(each.liveness(yield* each.get(bundle.id))))._tag, "Unknown")
      })
    ))

  it.effect("starts over when a pass takes the staging directory for an abandoned one", () =>
    store(() =>
      Effect.gen(function*() {
        let taken = 0
        const thief = {
          ...node,
          open: (path: string, flags: number, mode?: number) => {
            if (path.endsWith("/lease") && taken++ === 0) NFS.rmdirSync(path.slice(0, -"/lease".length))
            return node.open(path, flags, mode)
          }
        }
        const bundle = yield* Effect.provideService(create, Files, thief)
        assert.isAbove(taken, 1)
        assert.isTrue(NFS.existsSync(bundle.dir))
      })
    ))
})

describe("finding runs", () => {
  it.effect("by id, by its beginning, latest, and latest of a status", () =>
    store((each) =>
      Effect.gen(function*() {
        const first = yield* create
        const second = yield* create
        yield* each.update(first.id, (record) => ({ ...record, status: "error" }))
        const idOf = (name: string) => Effect.map(each.find(name), (entry) => entry.id)
        assert.strictEqual(yield* idOf(first.id), first.id)
        assert.strictEqual(yield* idOf("latest"), [first.id, second.id].sort().at(-1))
        assert.strictEqual(yield* idOf("latest:error"), first.id)
        assert.strictEqual(yield* idOf(second.id.slice(0, -1)), second.id)
        const reasonOf = (name: string) => Effect.map(Effect.flip(each.find(name)), (error) => error.reason._tag)
        assert.strictEqual(yield* reasonOf("1970"), "Ambiguous")
        assert.strictEqual(yield* reasonOf("2031"), "NoSuchRun")
        assert.strictEqual(yield* reasonOf("latest:ok"), "NoSuchRun")
        assert.strictEqual(yield* reasonOf("20300101T000000000Z-aaaaaaaa"), "NoSuchRun")
      })
    ))

  it.effect.each([
    "../x",
    "..",
    "/etc",
    "a\0b",
    "1970/",
    "latest:nothing",
    "",
    "x".repeat(10_000),
    "19700101T000000000Z/"
  ])(
    "refuses %j before it comes near a path",
    (name) =>
      store((each) =>
        Effect.gen(function*() {
          yield* create
          const error = yield* Effect.flip(each.find(name))
          assert.strictEqual(error.reason._tag, "MalformedName")
          assert.isBelow(error.message.length, 200)
        })
      )
  )

  it.effect("bug 27: a store without runs has no latest", () =>
    store((each) =>
      Effect.map(Effect.flip(each.latest()), (error) => assert.strictEqual(error.reason._tag, "NoSuchRun"))
    ))
})

describe("damaged bundles", () => {
  const damages: ReadonlyArray<readonly [string, (dir: string) => void, RegExp]> = [
    ["empty", (dir) => NFS.writeFileSync(`${dir}/run.json`, ""), /empty/],
    ["truncated", (dir) => NFS.truncateSync(`${dir}/run.json`, 40), /malformed/],
    ["null", (dir) => NFS.writeFileSync(`${dir}/run.json`, "null"), /not a JSON object/],
    ["missing", (dir) => NFS.rmSync(`${dir}/run.json`), /missing/],
    ["a directory", (dir) => {
      NFS.rmSync(`${dir}/run.json`)
      NFS.mkdirSync(`${dir}/run.json`)
    }, /is a directory/],
    ["200 MB", (dir) => NFS.truncateSync(`${dir}/run.json`, 200_000_000), /200000000 bytes/],
    ["wrong types", (dir) => {
      const record = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
      NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...record, startedAt: 12 }))
    }, /startedAt/],
    ["a newer version", (dir) => NFS.writeFileSync(`${dir}/run.json`, `{"version":7}`), /version 7/],
    ["a link", (dir) => {
      NFS.renameSync(`${dir}/run.json`, `${dir}/other.json`)
      NFS.symlinkSync("other.json", `${dir}/run.json`)
    }, /is a link/],
    ["a FIFO", (dir) => {
      NFS.rmSync(`${dir}/run.json`)
      NodeChildProcess.execFileSync("mkfifo", [`${dir}/run.json`])
    }, /is a fifo/],
    ["noise", (dir) => NFS.writeFileSync(`${dir}/run.json`, Buffer.from([0xff, 0xfe, 0, 1, 2])), /malformed/]
  ]

  it.live("are listed with their cause, among the others, and never removed or hung on", () =>
    store((each) =>
      Effect.gen(function*() {
        for (let index = 0; index < 20; index++) yield* create
        const expected = new Map<string, RegExp>()
        for (const [, damage, cause] of damages) {
          const bundle = yield* create
          damage(bundle.dir)
          expected.set(bundle.id, cause)
        }
        const linked = yield* create
        NFS.renameSync(linked.dir, `${each.root}/aside`)
        NFS.symlinkSync(`${each.root}/aside`, linked.dir)
        expected.set(linked.id, /lies a link/)
        const entries = yield* Stream.runCollect(each.list)
        assert.strictEqual(entries.length, 20 + expected.size)
        for (const entry of entries) {
          const cause = expected.get(entry.id)
          if (cause === undefined) assert.isTrue(Result.isSuccess(entry.record))
          else {
            assert.isTrue(Result.isFailure(entry.record), String(cause))
            if (Result.isFailure(entry.record)) assert.match(entry.record.failure.message, cause)
            assert.strictEqual((yield* each.liveness(entry))._tag, "Unknown", String(cause))
          }
        }
      })
    ))

  it.live("one that is taken away while it is read is gone, and not damaged", () =>
    store((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* create
        yield* create
        const vanishing = {
          ...node,
          open: (path: string, flags: number, mode?: number) => {
            if (path === `${dir}/run.json`) NFS.rmSync(dir, { recursive: true, force: true })
            return node.open(path, flags, mode)
          }
        }
        const entries = yield* Effect.provideService(Stream.runCollect(each.list), Files, vanishing)
        assert.deepStrictEqual(entries.map(({ record }) => record._tag), ["Success"])
        NFS.mkdirSync(dir)
        const error = yield* Effect.provideService(Effect.flip(each.get(id)), Files, vanishing)
        assert.strictEqual(error.reason._tag, "NoSuchRun")
      })
    ))

  const leases: ReadonlyArray<readonly [string, (lease: string) => void]> = [
    ["a link", (lease) => NFS.symlinkSync("/etc/hostname", lease)],
    ["a directory", (lease) => NFS.mkdirSync(lease)],
    ["a FIFO", (lease) => void NodeChildProcess.execFileSync("mkfifo", [lease])]
  ]
  it.effect.each(leases)(
    "a lease that is %s is unknown, and no call blocks on it",
    ([_, replace]) =>
      store((each) =>
        Effect.gen(function*() {
          const bundle = yield* create
          NFS.rmSync(`${bundle.dir}/lease`)
          replace(`${bundle.dir}/lease`)
          assert.strictEqual((yield* each.liveness(yield* each.get(bundle.id)))._tag, "Unknown")
        })
      )
  )
})

describe("changing a record", () => {
  it.live("loses nothing of what several write at once", () =>
    store((each) =>
      Effect.gen(function*() {
        const { id } = yield* create
        const writes = Array.from(
          { length: 40 },
          (_, index) => each.update(id, (record) => ({ ...record, tags: { ...record.tags, [`k${index}`]: "v" } }))
        )
        yield* Effect.all([...writes, each.pin(id, "keep")], { concurrency: "unbounded" })
        const { record } = yield* each.get(id)
        assert.isTrue(Result.isSuccess(record))
        if (Result.isSuccess(record)) {
          assert.strictEqual(Object.keys(record.success.tags).length, 40)
          assert.strictEqual(record.success.pin?.reason, "keep")
        }
        const unpinned = yield* each.unpin(id)
        assert.isUndefined(unpinned.pin)
      })
    ))

  it.effect("keeps what a newer program put there, at every level", () =>
    store((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* create
        const before = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
        const extended = { ...before, future: { a: [1] }, exit: { code: 0, core: true } }
        NFS.writeFileSync(`${dir}/run.json`, JSON.stringify(extended))
        yield* each.pin(id, "keep")
        const { pin, ...after } = JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))
        assert.strictEqual(pin.reason, "keep")
        assert.deepStrictEqual(after, extended)
      })
    ))

  it.effect("never rewrites a record of a newer version or one that it cannot read", () =>
    store((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* create
        for (const text of [`{"version":2,"id":"${id}"}`, "{"]) {
          NFS.writeFileSync(`${dir}/run.json`, text)
          const error = yield* Effect.flip(each.pin(id, "keep"))
          assert.strictEqual(error.reason._tag, "UnusableRecord")
          assert.strictEqual(NFS.readFileSync(`${dir}/run.json`, "utf8"), text)
        }
      })
    ))

  it.effect("has changed what was taken away as soon as it was changed", () =>
    store((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* create
        yield* each.pin(id, "keep")
        const takeAway = Effect.sync(() => NFS.renameSync(dir, `${dir}-taken`))
        const unpinned = yield* each.unpin(id).pipe(
          watch(once((call, [path, ...more]) => call === "open" && path === dir && more.length === 0, takeAway))
        )
        assert.isUndefined(unpinned.pin)
        assert.notInclude(NFS.readFileSync(`${dir}-taken/run.json`, "utf8"), "keep")
      })
    ))

  it.effect("bug 45: a write that fails leaves the old record whole", () =>
    store((each) =>
      Effect.gen(function*() {
        const { dir, id } = yield* create
        const before = NFS.readFileSync(`${dir}/run.json`, "utf8")
        const full = {
          ...node,
          write: (_: number, __: Uint8Array, path: string) =>
            Effect.fail(new Errno({ code: "ENOSPC", call: "write", path, cause: undefined }))
        }
        const error = yield* Effect.flip(Effect.provideService(each.pin(id, "keep"), Files, full))
        assert.match(error.message, /disk is full/)
        assert.strictEqual(NFS.readFileSync(`${dir}/run.json`, "utf8"), before)
        assert.notInclude(NFS.readdirSync(dir).join(), ".tmp")
      })
    ))
})
