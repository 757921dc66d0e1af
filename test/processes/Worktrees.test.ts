/** The example with worktrees: `clean` and `resume` come for the same run, each in a process that is held at a moment. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { bundles, recordAt, withRoot } from "../support/CommandLine.ts"
import { git, gitEnvironment, makeRepository, worktrees } from "../support/Git.ts"
import { everything } from "../support/Snapshot.ts"
import { fixture, type Gate, gate, repository as home, start, type Worker } from "../support/Worker.ts"

interface World {
  readonly root: string
  readonly repository: string
  /** The example as people have it. */
  readonly example: (...words: ReadonlyArray<string>) => Effect.Effect<Worker, never, Scope.Scope>
  /** The same, held at a moment. */
  readonly held: (
    moment: "claim" | "record" | "trash",
    ...words: ReadonlyArray<string>
  ) => Effect.Effect<Worker & { readonly letGo: Effect.Effect<void> }, never, Scope.Scope>
}

const inWorld = <A, E>(test: (world: World) => Effect.Effect<A, E, Scope.Scope>) =>
  withRoot((root) =>
    Effect.gen(function*() {
      const env = { ...gitEnvironment, LEASEHOLD_ROOT: root, LEASEHOLD_ALLOW_TEMP: "1" }
      const repository = makeRepository(`${root}-repository`)
      let nth = 0
      return yield* test({
        root,
        repository,
        example: (...words) =>
          start([process.execPath, `${home}/examples/worktrees/main.ts`, ...words], { cwd: home, env }),
        held: Effect.fnUntraced(function*(moment, ...words) {
          const path = `${root}-moment-${++nth}`
          const { open } = yield* gate(path)
          const worker = yield* fixture("worktrees.ts", [moment, path, ...words], { cwd: home, env })
          yield* worker.line(`stopped at ${moment}`)
          return { ...worker, letGo: open }
        })
      })
    })
  )

/** A run that has ended, with something in its worktree that git has been told of. */
const ended = Effect.fnUntraced(function*({ example, repository, root }: World) {
  const script = "echo made > made && git add made && git commit --quiet --message made"
  const exit = yield* (yield* example("start", repository, "sh", "-c", script)).exit
  assert.deepStrictEqual([exit.code, exit.stderr], [0, ""])
  const dir = bundles(root).at(-1)!
  return { id: dir.slice(dir.lastIndexOf("/") + 1), dir, tree: `${dir}/worktree` }
})

const atWork = ({ wait }: Gate) => ["sh", "-c", `echo at-work; ${wait}`] as const

/** Everything about a worktree that would show that something has been at it, and what git says of it. */
const state = ({ repository }: World, tree: string) => [everything(tree), git(tree, "status"), worktrees(repository)]

describe("of clean and resume exactly one has the worktree, and not a byte of it is touched by the other", () => {
  it.live("resume, when it starts after clean has decided and before its claim", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const { id, tree } = yield* ended(world)
        const before = state(world, tree)
        const end = yield* gate(`${world.root}-end`)
        const cleaning = yield* world.held("claim", "clean")
        const resumed = yield* world.example("resume", id, ...atWork(end))
        yield* resumed.line("at-work")
        yield* cleaning.letGo
        const cleaned = yield* cleaning.exit
        assert.deepStrictEqual([cleaned.code, cleaned.stdout], [0, `stopped at claim\nkept ${id} Live\n`])
        assert.deepStrictEqual(state(world, tree), before)
        yield* end.open
        const exit = yield* resumed.exit
        assert.deepStrictEqual([exit.code, exit.stdout], [0, `working ${id}\nat-work\n`])
        assert.deepStrictEqual(state(world, tree), before)
      })
    ))

  it.live("resume, when it has its lease and has written nothing yet, and clean comes", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const { dir, id, tree } = yield* ended(world)
        const before = state(world, tree)
        const resuming = yield* world.held("record", "resume", id, "true")
        assert.strictEqual(recordAt(dir).status, "ok")
        const cleaned = yield* (yield* world.example("clean")).exit
        assert.deepStrictEqual([cleaned.code, cleaned.stdout], [0, `kept ${id} Live\n`])
        assert.deepStrictEqual(state(world, tree), before)
        yield* resuming.letGo
        assert.strictEqual((yield* resuming.exit).code, 0)
        assert.deepStrictEqual(state(world, tree), before)
        assert.strictEqual(recordAt(dir).attempts.length, 2)
      })
    ))

  it.live("clean, when it has its claim: resume is refused before and after the worktree goes, and then finds nothing", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const { id, tree } = yield* ended(world)
        const resume = Effect.flatMap(world.example("resume", id, "touch", "mine"), ({ exit }) => exit)
        const before = state(world, tree)
        const early = yield* world.held("record", "clean")
        const first = yield* resume
        assert.deepStrictEqual([first.code, first.stdout], [4, ""])
        assert.deepStrictEqual(state(world, tree), before)
        yield* early.kill("SIGKILL")
        yield* early.exit

        const late = yield* world.held("trash", "clean")
        assert.deepStrictEqual([NFS.existsSync(tree), worktrees(world.repository)], [false, []])
        const second = yield* resume
        assert.strictEqual(second.code, 4)
        assert.match(second.stderr, new RegExp(`in use by pid ${late.pid} on .* \\(claim\\)`))
        yield* late.letGo
        assert.deepStrictEqual((yield* late.exit).stdout, `stopped at trash\nremoved ${id}\n`)
        const third = yield* resume
        assert.strictEqual(third.code, 1)
        assert.include(third.stderr, `no run "${id}"`)
        assert.deepStrictEqual([bundles(world.root), worktrees(world.repository)], [[], []])
      })
    ))
})

describe("a run with a worktree", () => {
  it.live("that has changes stays with them, as debt, until they are gone", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const { id, tree } = yield* ended(world)
        NFS.writeFileSync(`${tree}/precious`, "text")
        const refused = yield* (yield* world.example("clean")).exit
        assert.strictEqual(refused.code, 3)
        assert.match(refused.stdout, new RegExp(`^failed ${id} git .*modified or untracked files`))
        assert.include(refused.stderr, `{"notUndone":1}`)
        assert.strictEqual(NFS.readFileSync(`${tree}/precious`, "utf8"), "text")
        NFS.rmSync(`${tree}/precious`)
        assert.strictEqual((yield* (yield* world.example("clean")).exit).code, 0)
        assert.deepStrictEqual([bundles(world.root), worktrees(world.repository)], [[], []])
      })
    ))

  it.live("of which a removal was begun is given another when it is gone on with, which goes as well", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const { dir, id, tree } = yield* ended(world)
        const cleaning = yield* world.held("trash", "clean")
        yield* cleaning.kill("SIGKILL")
        yield* cleaning.exit
        assert.isFalse(NFS.existsSync(tree))
        assert.deepStrictEqual(recordAt(dir).onRemove?.map(({ doneAt }) => doneAt !== undefined), [true])
        assert.strictEqual((yield* (yield* world.example("resume", id, "test", "-e", "file")).exit).code, 0)
        assert.deepStrictEqual(worktrees(world.repository), [tree])
        assert.deepStrictEqual(recordAt(dir).onRemove?.map(({ doneAt }) => doneAt !== undefined), [true, false])
        assert.strictEqual((yield* (yield* world.example("clean")).exit).code, 0)
        assert.deepStrictEqual([bundles(world.root), worktrees(world.repository)], [[], []])
      })
    ))

  it.live("that was killed before it made the worktree goes", () =>
    inWorld((world) =>
      Effect.gen(function*() {
        const git = `${world.root}-git`
        NFS.mkdirSync(git)
        // In the place of git stands what is never done, so that the run is killed with its worktree registered alone.
        NFS.writeFileSync(`${git}/git`, "#!/bin/sh\necho at-work >&2\nkill -9 $PPID\n", { mode: 0o755 })
        const run = yield* start(
          [
            "env",
            `PATH=${git}:${process.env["PATH"]}`,
            process.execPath,
            `${home}/examples/worktrees/main.ts`,
            "start",
            world.repository,
            "true"
          ],
          { cwd: home, env: { LEASEHOLD_ROOT: world.root, LEASEHOLD_ALLOW_TEMP: "1" } }
        )
        assert.strictEqual((yield* run.exit).signal, "SIGKILL")
        const [dir = ""] = bundles(world.root)
        assert.strictEqual(recordAt(dir).onRemove?.length, 1)
        assert.isFalse(NFS.existsSync(`${dir}/worktree`))
        assert.strictEqual((yield* (yield* world.example("clean")).exit).code, 0)
        assert.deepStrictEqual(bundles(world.root), [])
      })
    ))
})
