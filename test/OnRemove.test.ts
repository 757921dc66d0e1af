import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NFS from "node:fs"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import type { Lease } from "../src/Lease.ts"
import * as OnRemove from "../src/OnRemove.ts"
import * as Run from "../src/Run.ts"
import * as RunRecord from "../src/RunRecord.ts"
import type * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"

const command = (...argv: [string, ...Array<string>]): OnRemove.Undo => ({ type: "command", argv })

const inRun = <A, E>(
  program: (run: Run.Run["Service"]) => Effect.Effect<A, E, Run.Run | RunStore.RunStore | Lease>,
  options: Partial<Run.Options> = {}
) =>
  Effect.flatMap(Run.Run, program).pipe(
    Run.scoped({ name: "test", retention: "off", ...options }),
    Effect.provide(TestLayers.layerStore)
  )

const written = ({ paths }: Run.Run["Service"]): RunRecord.RunRecord =>
  JSON.parse(NFS.readFileSync(paths.record, "utf8"))

const refusal = <A, E extends { readonly message: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ message }) => message)

describe("what a run registers", () => {
  it.effect("is in its record when that returns, in the order in which it came, with paths that are absolute", () =>
    inRun((run) =>
      Effect.gen(function*() {
        const first = yield* run.onRemove(command("true"))
        const second = yield* Run.onRemove({ type: "git-worktree", repository: "src", path: "/srv/tree" }, {
          timeout: "5 minutes"
        })
        assert.notStrictEqual(first, second)
        const all = written(run).onRemove
        assert.deepStrictEqual(all?.map(({ at: _, ...rest }) => rest), [
          { id: first, undo: { type: "command", argv: ["true"], cwd: process.cwd() } },
          {
            id: second,
            undo: { type: "git-worktree", repository: `${process.cwd()}/src`, path: "/srv/tree" },
            timeoutMs: 300_000
          }
        ])
        assert.deepStrictEqual(yield* run.registered, all)
      })
    ))

  it.effect("is flushed to the disk, the file and its directory, before that returns", () =>
    inRun((run) =>
      Effect.gen(function*() {
        const calls: Array<string> = []
        const told: FilesApi = {
          ...node,
          fsync: (fd, path) => Effect.andThen(Effect.sync(() => calls.push(`fsync ${path}`)), node.fsync(fd, path)),
          rename: (from, to) => Effect.andThen(Effect.sync(() => calls.push(`rename ${to}`)), node.rename(from, to))
        }
        yield* Effect.provideService(run.onRemove(command("true")), Files, told)
        const [file, ...rest] = calls
        assert.match(file ?? "", /^fsync .*run\.json\.[-\w]+\.tmp$/)
        assert.deepStrictEqual(rest, [`rename ${run.paths.record}`, `fsync ${run.dir}`])
      })
    ))

  it.effect("is gone from it when it is withdrawn, and an id that is not there is no error", () =>
    inRun((run) =>
      Effect.gen(function*() {
        const first = yield* run.onRemove(command("first"))
        const second = yield* run.onRemove(command("second"))
        yield* run.withdraw(first)
        yield* run.withdraw(first)
        assert.deepStrictEqual((yield* run.registered).map(({ id }) => id), [second])
      })
    ))

  it.effect("stays registered when the run ends and when it is gone on with", () =>
    Effect.gen(function*() {
      const register = Effect.flatMap(Run.Run, (run) => Effect.as(run.onRemove(command("true")), run.id))
      const id = yield* Run.scoped({ name: "test", retention: "off" })(register)
      const found = yield* Effect.flatMap(Run.Run, (run) => run.registered).pipe(
        Run.resume(id, { retention: "off" })
      )
      assert.strictEqual(found.length, 1)
    }).pipe(Effect.provide(TestLayers.layerStore)))

  it.effect("may come from whoever has joined it", () =>
    inRun((run) =>
      Effect.gen(function*() {
        yield* Run.onRemove(command("joined")).pipe(Run.attach({ run: run.id }))
        assert.strictEqual((yield* run.registered).length, 1)
      })
    ))
})

describe("what cannot be registered is refused, says why, and is not written", () => {
  const refused: ReadonlyArray<readonly [string, OnRemove.Undo, OnRemove.Options, RegExp]> = [
    [
      "a secret in an argument",
      command("curl", "--token", "hunter2", "x"),
      {},
      /argument 2 of the command.*secret.*file/
    ],
    ["a secret in a script", command("sh", "-c", "PASSWORD=hunter2 drop-database"), {}, /argument 2 of the command/],
    ["a secret by a pattern of the run's own", command("drop", "internal-7"), {}, /argument 1 of the command/],
    [
      "a secret in the path of a repository",
      { type: "git-worktree", repository: "/srv/internal-7", path: "/x" },
      {},
      /path of the repository/
    ],
    ["a secret in a directory", { type: "command", argv: ["x"], cwd: "/srv/internal-7" }, {}, /the directory of/],
    ["no time", command("true"), { timeout: 0 }, /timeout cannot be 0/],
    ["for ever", command("true"), { timeout: "Infinity" as never }, /timeout cannot be/],
    ["so much that nobody could read it", command("x".repeat(300_000)), {}, /no room/]
  ]
  it.effect.each(refused)("%s", ([_, undo, options, expected]) =>
    inRun((run) =>
      Effect.gen(function*() {
        const before = written(run)
        const { ino } = NFS.statSync(run.paths.record)
        const message = yield* refusal(run.onRemove(undo, options))
        assert.match(message, expected)
        assert.notInclude(message, "hunter2")
        assert.deepStrictEqual(written(run), before)
        assert.strictEqual(NFS.statSync(run.paths.record).ino, ino)
      }), { redact: [/internal-\d/] }))

  it.effect("in a run without a disk as well", () =>
    Effect.gen(function*() {
      const run = yield* Run.Run
      const test = yield* TestLayers.TestRun
      assert.match(yield* refusal(run.onRemove(command("x", "--token", "hunter2"))), /secret/)
      const id = yield* run.onRemove(command("x"))
      assert.deepStrictEqual((yield* test.record).onRemove?.map((registered) => registered.id), [id])
      yield* run.withdraw(id)
      assert.deepStrictEqual(yield* run.registered, [])
    }).pipe(Effect.provide(TestLayers.layerRun())))
})

describe("a record of a newer program", () => {
  const at = "2026-11-30T00:00:00.000Z"
  const text = JSON.stringify({
    version: 1,
    id: "20261130T000000000Z-00000001",
    name: "test",
    status: "ok",
    startedAt: at,
    attempts: [],
    tags: {},
    onRemove: [
      { id: "a", at, undo: { type: "container", name: "db", deep: { kept: [1] } }, later: true },
      { id: "b", at, undo: { type: "command", argv: [] } },
      { id: "c", at, undo: { type: "command", argv: ["x"], cwd: "/", shell: true } }
    ]
  })

  it("can be read whatever kinds it has, gives them back as they were, and says which are not known", () => {
    const record = Result.getOrThrow(RunRecord.decode(text))
    assert.deepStrictEqual(JSON.parse(RunRecord.encode(record)), JSON.parse(text))
    assert.deepStrictEqual(OnRemove.pending(record).map((each) => [each.id, OnRemove.isKnown(each)]), [
      ["c", true],
      ["b", false],
      ["a", false]
    ])
    assert.deepStrictEqual(record.onRemove?.map(OnRemove.describe), [
      "a, of the kind \"container\"",
      "b, of the kind \"command\"",
      "cd / && x"
    ])
  })
})
