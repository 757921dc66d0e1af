import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import { Kernel } from "../src/internal/Kernel.ts"
import type { Lease } from "../src/Lease.ts"
import * as Retention from "../src/Retention.ts"
import type { RunId } from "../src/RunId.ts"
import { type Row, RunIndex } from "../src/RunIndex.ts"
import * as RunStore from "../src/RunStore.ts"
import * as SqliteIndex from "../src/SqliteIndex.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import * as Verification from "../src/Verification.ts"
import { describe as words, type Finding, isOpenProblem, mendOf, severityOf } from "../src/VerificationFinding.ts"
import { bundle, type Made, series, type Spec } from "./support/Fabricate.ts"
import { everything } from "./support/Snapshot.ts"
import { day, hour } from "./support/Time.ts"

type World = RunStore.RunStore | Lease | RunIndex | Scope.Scope

const layers = SqliteIndex.layer.pipe(Layer.provideMerge(TestLayers.layerStore))

const inStore = <A, E>(test: (root: string) => Effect.Effect<A, E, World>) =>
  Effect.flatMap(RunStore.RunStore, ({ root }) => Effect.scoped(test(root))).pipe(Effect.provide(layers))

const check = (options?: Verification.Options) => Stream.runCollect(Verification.check(options))

const fifo = (path: string) => void NodeChildProcess.execFileSync("mkfifo", [path])

const instead = (path: string, make: (path: string) => void) => {
  NFS.rmSync(path, { recursive: true })
  make(path)
}

const edit = (dir: string, change: (record: Record<string, unknown>) => unknown) => {
  const path = `${dir}/run.json`
  NFS.writeFileSync(path, JSON.stringify(change(JSON.parse(NFS.readFileSync(path, "utf8")))))
}

/** A holder file of a process that was killed. */
const deadHolder = (dir: string, change: Record<string, unknown> = {}) =>
  Effect.map(Kernel, ({ boot, host, machine }) => {
    const holder = {
      version: 1,
      id: "999999-abcdef",
      role: "owner",
      pid: 999_999,
      host,
      boot,
      machine,
      inode: String(NFS.lstatSync(`${dir}/lease`, { bigint: true }).ino),
      since: "2026-11-01T00:00:00.000Z",
      ...change
    }
    NFS.writeFileSync(`${dir}/holders/${holder.id}.json`, JSON.stringify(holder))
  })

/** What was found, below the root, and what came of it. */
const shown = (root: string, findings: ReadonlyArray<Finding>) =>
  findings.map(({ fault, outcome, where }) =>
    `${severityOf(fault)} ${fault._tag} ${where.slice(root.length + 1)} ${outcome._tag}`
  )

const start = Date.parse("2026-11-01T12:00:00.000Z")
const late = Date.parse("2999-01-01T00:00:00.000Z")

/** Each is done to a finished bundle, or to one of the given kind; what is to be found then, and what mends it. */
interface Damage {
  readonly name: string
  readonly spec?: Partial<Spec>
  readonly damage: (made: Made, root: string) => Effect.Effect<void> | void
  readonly found: ReadonlyArray<string>
  /** By which option it goes, if by any. */
  readonly mended?: "repair" | "removeUnreadable"
}

const unreadable = (name: string, damage: (path: string) => void): Damage => ({
  name: `a record that is ${name}`,
  damage: ({ dir }) => damage(`${dir}/run.json`),
  found: ["problem RecordUnusable"],
  mended: "removeUnreadable"
})

const damages: ReadonlyArray<Damage> = [
  unreadable("empty", (path) => NFS.writeFileSync(path, "")),
  unreadable("half a text", (path) => NFS.truncateSync(path, 40)),
  unreadable("too large", (path) => NFS.truncateSync(path, 200_000_000)),
  unreadable("missing", (path) => NFS.rmSync(path)),
  unreadable("a directory", (path) => instead(path, NFS.mkdirSync)),
  unreadable("a FIFO", (path) => instead(path, fifo)),
  unreadable("a link", (path) => instead(path, (there) => NFS.symlinkSync("lease", there))),
  {
    name: "a bundle that is a link",
    damage: ({ dir }, root) => {
      NFS.renameSync(dir, `${root}/archive-of-it`)
      NFS.symlinkSync(`${root}/archive-of-it`, dir)
    },
    found: ["problem RecordUnusable"],
    mended: "removeUnreadable"
  },
  {
    name: "a bundle that is a FIFO",
    damage: ({ dir }) => instead(dir, fifo),
    found: ["problem RecordUnusable"],
    mended: "removeUnreadable"
  },
  {
    name: "a record of a newer version",
    damage: ({ dir }) => edit(dir, (record) => ({ ...record, version: 2 })),
    found: ["note RecordUnusable"]
  },
  {
    name: "a record of another run",
    damage: ({ dir }) => edit(dir, (record) => ({ ...record, id: "20261101T000000000Z-aaaaaaaa" })),
    found: ["problem WrongId"]
  },
  {
    name: "a record of another run that says running",
    spec: { status: "running" },
    damage: ({ dir }) => edit(dir, (record) => ({ ...record, id: "20261101T000000000Z-aaaaaaaa" })),
    found: ["problem WrongId"]
  },
  {
    name: "no lease, though the record says running",
    spec: { status: "running" },
    damage: ({ dir }) => NFS.rmSync(`${dir}/lease`),
    found: ["problem LeaseInDoubt"]
  },
  { name: "no lease, in an older layout", damage: ({ dir }) => NFS.rmSync(`${dir}/lease`), found: [] },
  {
    name: "a lease that is a FIFO",
    damage: ({ dir }) => instead(`${dir}/lease`, fifo),
    found: ["problem LeaseInDoubt"]
  },
  {
    name: "a lease that was replaced under its holder",
    damage: ({ dir }) => deadHolder(dir, { inode: "1" }),
    found: ["problem LeaseInDoubt"]
  },
  {
    name: "a broken record under a lease that is a link",
    damage: ({ dir }) => {
      NFS.writeFileSync(`${dir}/run.json`, "{")
      instead(`${dir}/lease`, (path) => NFS.symlinkSync("run.json", path))
    },
    found: ["problem RecordUnusable", "problem LeaseInDoubt"]
  },
  {
    name: "a holder of another machine",
    damage: ({ dir }) => deadHolder(dir, { boot: "another", machine: "another", host: "build-7" }),
    found: ["note LeaseInDoubt"]
  },
  {
    name: "a holder file that cannot be read",
    damage: ({ dir }) => NFS.writeFileSync(`${dir}/holders/x.json`, "{"),
    found: ["problem LeaseInDoubt"]
  },
  { name: "a crashed run", spec: { status: "running" }, damage: () => {}, found: ["note Crashed"], mended: "repair" },
  {
    name: "a crashed run with all that it left behind",
    spec: { status: "running" },
    damage: ({ dir }) => {
      NFS.writeFileSync(`${dir}/run.json.draft-a1b2c3.tmp`, "{")
      NFS.writeFileSync(`${dir}/holders/999999-abcdef.json.draft-a1b2c3.tmp`, "{")
      return deadHolder(dir)
    },
    found: ["note Crashed", "note Leftover", "note Leftover", "note StaleHolder"],
    mended: "repair"
  },
  {
    name: "a file of its program with a name like that of a draft",
    damage: ({ dir }) => NFS.writeFileSync(`${dir}/run.json.backup.tmp`, "{}"),
    found: []
  },
  {
    name: "a run that ends in the future",
    spec: { endedAt: late },
    damage: () => {},
    found: ["note ClockAhead"]
  }
]

const restOf = (found: string) => found.replace(/ runs\/.* Left$/, "")

describe("what is wrong with a bundle", () => {
  it.live.each(damages)("$name", ({ damage, found, mended, spec }) =>
    inStore((root) =>
      Effect.gen(function*() {
        const sound = bundle(root, { startedAt: start })
        const made = bundle(root, { startedAt: start + hour, ...spec })
        yield* Effect.suspend(() => damage(made, root) ?? Effect.void)
        const before = everything(root)
        const findings = yield* check()
        assert.sameMembers(shown(root, findings).map(restOf), [...found])
        for (const finding of findings) {
          assert.isTrue(finding.where.startsWith(made.dir), finding.where)
          assert.strictEqual(finding.id, made.id)
          assert.isNotEmpty(words(finding.fault))
          if (severityOf(finding.fault) === "problem") assert.isDefined(mendOf(finding))
        }
        // The other verb leaves what is not its own.
        const other = mended === "repair" ? { removeUnreadable: true } : { repair: true }
        const untouched = yield* check(other)
        assert.sameMembers(shown(root, untouched), shown(root, findings))
        assert.deepStrictEqual(everything(root), before)
        if (mended === undefined) {
          yield* check({ repair: true, removeUnreadable: true })
          assert.sameMembers(shown(root, yield* check()), shown(root, findings))
          return
        }
        const outcomes = yield* check({ [mended]: true })
        assert.isTrue(outcomes.every(({ outcome }) => outcome._tag === "Mended"))
        assert.deepStrictEqual(shown(root, yield* check()), [])
        const store = yield* RunStore.RunStore
        const left = (yield* Stream.runCollect(store.list)).map(({ id }) => id)
        assert.deepStrictEqual(left, mended === "repair" ? [made.id, sound.id] : [sound.id])
      })
    ))
})

it.live("a record that may not be read is to be made readable, and its run is not to be removed for it", () =>
  inStore((root) =>
    Effect.gen(function*() {
      const { dir } = bundle(root, { startedAt: start })
      const shut: FilesApi = {
        ...node,
        open: (path, ...rest) =>
          path.endsWith("run.json")
            ? Effect.fail(new Errno({ code: "EACCES", call: "open", path, cause: undefined }))
            : node.open(path, ...rest)
      }
      const [finding] = yield* Effect.provideService(check(), Files, shut)
      assert.isDefined(finding)
      if (finding !== undefined) assert.match(mendOf(finding) ?? "", new RegExp(`chmod -R u\\+rwX '${dir}'$`))
    })
  ))

describe("what lies in the directories of the store", () => {
  it.live("strange names, bundles in wrong days, things in the place of directories, and days nobody can read", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: start })
        NFS.mkdirSync(`${root}/runs/2026-11-02`)
        NFS.renameSync(dir, `${root}/runs/2026-11-02/${id}`)
        NFS.writeFileSync(`${root}/runs/notes.txt`, "")
        NFS.mkdirSync(`${root}/runs/2026-11-02/${id}.bak`)
        NFS.symlinkSync("2026-11-02", `${root}/runs/2026-11-03`)
        NFS.mkdirSync(`${root}/runs/2026-11-04`)
        NFS.mkdirSync(`${root}/staging`)
        NFS.writeFileSync(`${root}/staging/notes.txt`, "")
        NFS.rmdirSync(`${root}/trash`)
        NFS.symlinkSync("/", `${root}/trash`)
        fifo(`${root}/retention.lock`)
        const blind: FilesApi = {
          ...node,
          listAt: (place) => node.listAt(String(place).endsWith("2026-11-04") ? Buffer.from("/proc/self/mem") : place)
        }
        const before = everything(root)
        const findings = yield* Effect.provideService(check(), Files, blind)
        assert.sameMembers(shown(root, findings), [
          "problem Misplaced trash Left",
          "problem Misplaced retention.lock Left",
          `problem WrongDay runs/2026-11-02/${id} Left`,
          `note Strange runs/2026-11-02/${id}.bak Left`,
          "problem Misplaced runs/2026-11-03 Left",
          "problem Unlistable runs/2026-11-04 Left",
          "note Strange runs/notes.txt Left",
          "note Strange staging/notes.txt Left"
        ])
        const [move = ""] = findings.flatMap((each) => each.fault._tag === "WrongDay" ? [mendOf(each) ?? ""] : [])
        assert.deepStrictEqual(everything(root), before)
        const after = yield* Effect.provideService(check({ repair: true, removeUnreadable: true }), Files, blind)
        assert.sameMembers(shown(root, after), shown(root, findings))
        assert.deepStrictEqual(everything(root), before)
        NodeChildProcess.execFileSync("sh", ["-c", `mkdir -p ${root}/runs/2026-11-01; ${move}`])
        assert.notInclude(shown(root, yield* check()).join(), "WrongDay")
      })
    ))

  it.live("bundles that are being built, those that were abandoned, and those nobody can tell of", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const staged = (made: Made) => {
          NFS.mkdirSync(`${root}/staging`, { recursive: true })
          NFS.renameSync(made.dir, `${root}/staging/${made.id}`)
          return `${root}/staging/${made.id}`
        }
        const abandoned = staged(bundle(root, { startedAt: start, status: "running" }))
        const without = staged(bundle(root, { startedAt: start + 1, status: "running" }))
        NFS.rmSync(`${without}/run.json`)
        const begun = `${root}/staging/20261101T000000000Z-aaaaaaaa`
        NFS.mkdirSync(begun)
        const bare = staged(bundle(root, { startedAt: start + 2 }))
        NFS.rmSync(`${bare}/lease`)
        const odd = staged(bundle(root, { startedAt: start + 3 }))
        instead(`${odd}/lease`, fifo)
        NFS.rmSync(`${root}/runs`, { recursive: true })
        const building = yield* store.create({ name: "building", tags: {} })
        NFS.renameSync(building.dir, `${root}/staging/${building.id}`)
        const name = (path: string) => path.slice(root.length + 1)
        const before = everything(root)
        const found = (outcome: string) => [
          `note Abandoned ${name(abandoned)} ${outcome}`,
          `note Abandoned ${name(without)} ${outcome}`,
          `note Abandoned ${name(begun)} ${outcome}`,
          `note Abandoned ${name(bare)} ${outcome.replace("Mended", "Failed")}`,
          `problem LeaseInDoubt ${name(odd)} Left`,
          `note Building staging/${building.id} Left`
        ]
        assert.sameMembers(shown(root, yield* check()), found("Left"))
        assert.deepStrictEqual(everything(root), before)
        const repaired = shown(root, yield* check({ repair: true }))
        assert.sameMembers(repaired, [...found("Mended"), "note Waiting trash Mended"])
        assert.sameMembers(
          NFS.readdirSync(`${root}/staging`).map((each) => `staging/${each}`),
          [name(bare), name(odd), `staging/${building.id}`]
        )
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
      })
    ))

  it.live("what waits in the trash, and what would not go", () =>
    inStore((root) =>
      Effect.gen(function*() {
        NFS.mkdirSync(`${root}/trash/a-000000/artifacts`, { recursive: true })
        NFS.mkdirSync(`${root}/trash/b-000000`)
        NFS.mkdirSync(`${root}/trash/c-000000.stuck`)
        NFS.mkdirSync(`${root}/trash/d-000000.stuck`)
        const found = yield* check()
        assert.deepStrictEqual(shown(root, found), [
          "note Waiting trash Left",
          "problem Stuck trash/c-000000.stuck Left",
          "problem Stuck trash/d-000000.stuck Left"
        ])
        assert.strictEqual(words(found[0]!.fault), "2 removed bundles wait in the trash to be deleted")
        const refusing: FilesApi = {
          ...node,
          rmdirAt: (place, name) =>
            name.includes("d-00") ? node.rmdirAt(Buffer.from("/"), Buffer.from("proc")) : node.rmdirAt(place, name)
        }
        const mended = yield* Effect.provideService(check({ repair: true }), Files, refusing)
        assert.deepStrictEqual(shown(root, mended), [
          "note Waiting trash Failed",
          "problem Stuck trash/c-000000.stuck Mended",
          "problem Stuck trash/d-000000.stuck Failed"
        ])
        assert.strictEqual(mended.filter(isOpenProblem).length, 1)
        yield* check({ removeUnreadable: true })
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
      })
    ))

  it.live("more that would not go than are told one by one, and what waits beside it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        for (let nth = 0; nth < 103; nth++) NFS.mkdirSync(`${root}/trash/${nth}-000000.stuck`)
        const crowd = (found: ReadonlyArray<Finding>) => found.filter(({ fault }) => fault._tag !== "Stuck")
        const found = yield* check()
        assert.deepStrictEqual(shown(root, crowd(found)), ["problem StuckCrowd trash Left"])
        assert.strictEqual(words(crowd(found)[0]!.fault), "holds 3 more that could not be deleted in whole")
        NFS.mkdirSync(`${root}/trash/a-000000`)
        assert.deepStrictEqual(shown(root, crowd(yield* check({ repair: true }))), [
          "note Waiting trash Mended",
          "problem StuckCrowd trash Mended"
        ])
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
      })
    ))
})

describe("the index against the disk", () => {
  /** Twelve bundles of two days that a pass has taken in, with days old enough to be believed. */
  const indexed = Effect.gen(function*() {
    const { root } = yield* RunStore.RunStore
    const made = [...series(root, 6, start), ...series(root, 6, start + day)]
    const past = new Date(Date.now() - hour)
    for (const name of NFS.readdirSync(`${root}/runs`)) NFS.utimesSync(`${root}/runs/${name}`, past, past)
    yield* Retention.run({ policy: { maxBundles: 1000, maxAge: "9000 days" }, budget: { maxTime: "1 minute" } })
    return made
  })

  /** Changes the index as a pass does, so that it is believed afterwards. */
  const lie = (
    change: (session: {
      readonly row: Row
      readonly put: (row: Row) => Effect.Effect<void, unknown>
      readonly remove: (id: RunId) => Effect.Effect<void, unknown>
    }) => Effect.Effect<void, unknown>
  ) =>
    Effect.scoped(Effect.gen(function*() {
      const index = yield* RunIndex
      const session = yield* index.open({ dryRun: false })
      const [row] = yield* session.all
      yield* change({ row: row!, put: session.put, remove: session.remove })
      yield* session.commit
    }))

  const messages = (findings: ReadonlyArray<Finding>) => findings.map(({ fault }) => words(fault))

  it.live("says nothing of one that is true, of none, and of bundles that came and went since but that it is behind", () =>
    inStore((root) =>
      Effect.gen(function*() {
        bundle(root, { startedAt: start - day })
        assert.deepStrictEqual(yield* check(), [])
        const made = yield* indexed
        const before = everything(root)
        assert.deepStrictEqual(yield* check(), [])
        assert.deepStrictEqual(everything(root), before)
        NFS.rmSync(made[0]!.dir, { recursive: true })
        bundle(root, { startedAt: start })
        bundle(root, { startedAt: start + 9 * day })
        const behind = yield* check({ repair: true })
        assert.deepStrictEqual(shown(root, behind), ["note IndexBehind index.db Left"])
        assert.match(messages(behind)[0] ?? "", /2 bundles without a row, 1 row of no bundle$/)
        yield* Retention.run({ policy: { maxBundles: 1000 }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual(yield* check(), [])
      })
    ))

  const lies: ReadonlyArray<readonly [string, Parameters<typeof lie>[0], RegExp]> = [
    [
      "a row of no bundle",
      ({ put, row }) => put({ ...row, id: `${row.id.slice(0, -1)}${row.id.endsWith("z") ? "y" : "z"}` as RunId }),
      /1 row of no bundle/
    ],
    ["no row of a bundle", ({ remove, row }) => remove(row.id), /1 bundle without a row/],
    ["a wrong status", ({ put, row }) => put({ ...row, status: "error" }), /1 with a wrong one/],
    ["a wrong end", ({ put, row }) => put({ ...row, endedAt: row.endedAt + day }), /1 with a wrong one/]
  ]
  it.live.each(lies)(
    "finds %s in a day that the index says it knows, and sets it aside",
    ([_, change, expected]) =>
      inStore((root) =>
        Effect.gen(function*() {
          yield* indexed
          yield* lie(change)
          const before = everything(root)
          const found = yield* check()
          assert.deepStrictEqual(shown(root, found), ["problem IndexWrong index.db Left"])
          assert.match(messages(found)[0] ?? "", expected)
          assert.deepStrictEqual(everything(root), before)
          assert.deepStrictEqual(shown(root, yield* check({ repair: true })), ["problem IndexWrong index.db Mended"])
          assert.isFalse(NFS.existsSync(`${root}/index.db`))
          yield* Retention.run({ policy: { maxBundles: 1000 }, budget: { maxTime: "1 minute" } })
          assert.deepStrictEqual(yield* check(), [])
        })
      )
  )

  it.live("takes nothing for a lie in a day that changed too close to the last pass to be believed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        series(root, 3, start)
        yield* Retention.run({ policy: { maxBundles: 1000 }, budget: { maxTime: "1 minute" } })
        yield* lie(({ remove, row }) => remove(row.id))
        assert.deepStrictEqual(shown(root, yield* check({ repair: true })), ["note IndexBehind index.db Left"])
      })
    ))

  const strange: ReadonlyArray<readonly [string, (path: string) => void]> = [
    ["noise", (path) => NFS.writeFileSync(path, Buffer.alloc(50_000, 7))],
    ["half of it", (path) => NFS.truncateSync(path, 5000)],
    ["a link", (path) => {
      NFS.renameSync(path, `${path}.real`)
      NFS.symlinkSync(`${path}.real`, path)
    }],
    ["a FIFO", (path) => instead(path, fifo)],
    ["a directory", (path) => instead(path, NFS.mkdirSync)]
  ]
  it.live.each(strange)(
    "notes that passes will not believe %s in its place, and sets it aside",
    ([_, change]) =>
      inStore((root) =>
        Effect.gen(function*() {
          yield* indexed
          change(`${root}/index.db`)
          const before = everything(root)
          assert.deepStrictEqual(shown(root, yield* check()), ["note IndexUnusable index.db Left"])
          assert.deepStrictEqual(everything(root), before)
          assert.deepStrictEqual(shown(root, yield* check({ repair: true })), ["note IndexUnusable index.db Mended"])
          assert.isFalse(NFS.existsSync(`${root}/index.db`))
        })
      )
  )

  it.live("leaves it alone while a pass is using it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        yield* indexed
        NFS.writeFileSync(`${root}/index.db`, "noise")
        const findings = yield* Effect.scoped(Effect.gen(function*() {
          const { take } = yield* Effect.promise(() => import("../src/retention/PassLock.ts"))
          assert.isTrue(yield* take(root, { dryRun: false }))
          return yield* check({ repair: true })
        }))
        assert.deepStrictEqual(shown(root, findings), ["note IndexBusy index.db Left"])
        assert.strictEqual(NFS.readFileSync(`${root}/index.db`, "utf8"), "noise")
      })
    ))
})

describe("while others work", () => {
  it.live("live runs are no finding, are not recovered, and keep their unreadable records", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const running = yield* store.create({ name: "running", tags: {} })
        const broken = yield* store.create({ name: "broken", tags: {} })
        NFS.writeFileSync(`${running.dir}/run.json.draft-a1b2c3.tmp`, "{")
        NFS.writeFileSync(`${broken.dir}/run.json`, "{")
        const findings = yield* check({ repair: true, removeUnreadable: true })
        const path = broken.dir.slice(root.length + 1)
        assert.deepStrictEqual(shown(root, findings), [`problem RecordUnusable ${path} Failed`])
        assert.match(words(findings[0]!.fault), /while its run is at work/)
        assert.isTrue(NFS.existsSync(`${running.dir}/run.json.draft-a1b2c3.tmp`))
        const { record } = yield* store.get(running.id)
        assert.strictEqual(Result.getOrThrow(record).status, "running")
      })
    ))

  it.live("a bundle that goes while it is looked at is no finding", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 20, start)
        const vanishing: FilesApi = {
          ...node,
          open: (path, flags, mode) => {
            const gone = made.find(({ dir }) => path === `${dir}/run.json`)
            if (gone !== undefined) NFS.rmSync(gone.dir, { recursive: true, force: true })
            return node.open(path, flags, mode)
          }
        }
        assert.deepStrictEqual(yield* Effect.provideService(check(), Files, vanishing), [])
      })
    ))

  it.live("a draft of a record goes only between two writes of it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const { dir, id } = bundle(root, { startedAt: start })
        const writes = Effect.forEach(Array.from({ length: 200 }), () => store.pin(id, "again"))
        const checks = Effect.forEach(Array.from({ length: 20 }), () => check({ repair: true }))
        yield* Effect.all([writes, checks], { concurrency: 2 })
        assert.notInclude(NFS.readdirSync(dir).join(), ".tmp")
      })
    ))
})
