import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Lease } from "../src/Lease.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import type { RunStore } from "../src/RunStore.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { git, makeRepository, worktrees } from "./support/Git.ts"
import { inStore, present } from "./support/Stores.ts"
import { day } from "./support/Time.ts"
import { at, recordOf, refusal } from "./support/Undo.ts"

describe("a worktree of git", () => {
  const withWorktree = (
    test: (root: string, repository: string, path: string, one: Made) => Effect.Effect<void, unknown, RunStore | Lease>
  ) =>
    inStore((root) =>
      Effect.gen(function*() {
        const repository = makeRepository(`${root}-repository`)
        const one = bundle(root, { startedAt: Date.now() - day })
        const path = `${one.dir}/worktree`
        const undo = { type: "git-worktree", repository, path }
        NFS.writeFileSync(
          `${one.dir}/run.json`,
          JSON.stringify({ ...recordOf(one), onRemove: [{ id: "a", at, undo }] })
        )
        yield* test(root, repository, path, one)
      }).pipe(Effect.ensuring(Effect.sync(() => NFS.rmSync(`${root}-repository`, { recursive: true, force: true }))))
    )

  it.live("is removed by git, so that the repository knows nothing of it any more", () =>
    withWorktree((root, repository, path, one) =>
      Effect.gen(function*() {
        git(repository, "worktree", "add", "--quiet", path)
        assert.deepStrictEqual(worktrees(repository), [path])
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual([worktrees(repository), present(root)], [[], []])
      })
    ))

  it.live("with changes in it stays, as git says, and so does the bundle; nothing stronger follows", () =>
    withWorktree((_, repository, path, one) =>
      Effect.gen(function*() {
        git(repository, "worktree", "add", "--quiet", path)
        NFS.writeFileSync(`${path}/new`, "precious")
        assert.match(yield* refusal(one), /worktree remove .*ended with 128: fatal: .*modified or untracked files/)
        assert.match(yield* refusal(one), /^NotUndone/)
        assert.strictEqual(NFS.readFileSync(`${path}/new`, "utf8"), "precious")
        assert.deepStrictEqual(worktrees(repository), [path])
        NFS.rmSync(`${path}/new`)
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual(worktrees(repository), [])
      })
    ))

  it.live("that is locked stays", () =>
    withWorktree((_, repository, path, one) =>
      Effect.gen(function*() {
        git(repository, "worktree", "add", "--quiet", path)
        git(repository, "worktree", "lock", path)
        NFS.rmSync(path, { recursive: true })
        assert.match(yield* refusal(one), /locked/)
        assert.deepStrictEqual(worktrees(repository), [path])
      })
    ))

  it.live("that was registered and never made is undone", () =>
    withWorktree((root, repository, _, one) =>
      Effect.gen(function*() {
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual([worktrees(repository), present(root)], [[], []])
      })
    ))

  it.live("that somebody has deleted is forgotten by git, and no other is", () =>
    withWorktree((root, repository, path, one) =>
      Effect.gen(function*() {
        const other = `${root}-other`
        for (const tree of [path, other]) {
          git(repository, "worktree", "add", "--quiet", tree)
          NFS.rmSync(tree, { recursive: true })
        }
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual(worktrees(repository), [other])
      })
    ))

  it.live("whose repository has gone is undone when it has gone as well, and else stays", () =>
    withWorktree((root, repository, path, one) =>
      Effect.gen(function*() {
        git(repository, "worktree", "add", "--quiet", path)
        NFS.rmSync(repository, { recursive: true })
        assert.match(yield* refusal(one), /repository is not there any more, and .*worktree is/)
        assert.isTrue(NFS.existsSync(`${path}/file`))
        NFS.rmSync(path, { recursive: true })
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual(present(root), [])
      })
    ))

  it.live("is that of its own repository, also when a hook of git in another has started us", () =>
    withWorktree((root, repository, path, one) =>
      Effect.gen(function*() {
        const other = makeRepository(`${root}-other`)
        git(repository, "worktree", "add", "--quiet", path)
        process.env["GIT_DIR"] = `${other}/.git`
        yield* Effect.ensuring(
          RunRemoval.remove(one.id),
          Effect.sync(() => {
            delete process.env["GIT_DIR"]
          })
        )
        assert.deepStrictEqual(worktrees(repository), [])
      })
    ))

  it.live("of which git is stopped in the middle says that somebody has to look", () =>
    withWorktree((root, _, path, one) =>
      Effect.gen(function*() {
        const before = process.env["PATH"]
        const instead = `${root}-git`
        NFS.mkdirSync(instead)
        NFS.mkdirSync(path)
        NFS.writeFileSync(`${instead}/git`, "#!/bin/sh\nexec sleep 60\n", { mode: 0o755 })
        const [registered] = recordOf(one).onRemove!
        NFS.writeFileSync(
          `${one.dir}/run.json`,
          JSON.stringify({ ...recordOf(one), onRemove: [{ ...registered, timeoutMs: 100 }] })
        )
        process.env["PATH"] = `${instead}:${before}`
        const message = yield* Effect.ensuring(
          refusal(one),
          Effect.sync(() => void (process.env["PATH"] = before))
        )
        assert.match(message, /did not end within 100ms and was stopped; if git now takes it for changed, see/)
        assert.isTrue(NFS.existsSync(path))
      })
    ))
})
