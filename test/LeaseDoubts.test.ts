/** Leases and records that are not what they should be, locks that are not what they were, and what has to be on the disk. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Kernel } from "../src/internal/Kernel.ts"
import { Locks, native } from "../src/internal/Locks.ts"
import { Lease, type Target } from "../src/Lease.ts"
import { describeLiveness } from "../src/Liveness.ts"
import * as Run from "../src/Run.ts"
import * as RunStore from "../src/RunStore.ts"
import { recordAt } from "./support/CommandLine.ts"
import { watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, type World } from "./support/Stores.ts"
import { hour } from "./support/Time.ts"

const withBundle = <A, E>(
  test: (target: Target, lease: Lease["Service"]) => Effect.Effect<A, E, World | Scope.Scope>
) =>
  inStore((root) =>
    Effect.flatMap(Lease, (lease) => Effect.scoped(test(bundle(root, { startedAt: Date.now() - hour }), lease)))
  )

describe("a lease", () => {
  it.live("that belongs to another user proves nothing", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const kernel = yield* Kernel
        const other = { ...kernel, uid: kernel.uid + 1 }
        const liveness = yield* Effect.provideService(lease.probe(target), Kernel, other)
        assert.include(describeLiveness(liveness), "belongs to another user")
        const refused = yield* Effect.flip(Effect.provideService(Effect.scoped(lease.claim(target)), Kernel, other))
        assert.strictEqual(refused.reason._tag, "Undecided")
      })
    ))

  it.live("that somebody took while a claim became a lease is his", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const slow = { ...native, tryDowngrade: () => Effect.succeed(false) }
        const refused = yield* Effect.flip(Effect.provideService(lease.resume(target), Locks, slow))
        assert.strictEqual(refused.reason._tag, "Held")
        assert.deepStrictEqual(NFS.readdirSync(`${target.dir}/holders`), [])
        // Nor is anything kept of it.
        yield* lease.claim(target)
      })
    ))
})

describe("a record", () => {
  const tryLock = (path: string) =>
    Effect.acquireUseRelease(
      Effect.sync(() => NFS.openSync(path, "r+")),
      (fd) => native.tryExclusive(fd, path),
      (fd) => Effect.sync(() => NFS.closeSync(fd))
    )

  it.live("that was replaced before it was locked is locked again, so that two do not change it at once", () =>
    withBundle(({ dir, id }) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const path = `${dir}/run.json`
        let replaced = false
        const swapping = {
          ...native,
          tryExclusive: (fd: number, at: string) => {
            if (at === path && !replaced) {
              replaced = true
              NFS.copyFileSync(path, `${path}.copy`)
              NFS.renameSync(`${path}.copy`, path)
            }
            return native.tryExclusive(fd, at)
          }
        }
        let grants: boolean | undefined
        const run = Effect.runSyncWith(yield* Effect.context<never>())
        const change = store.update(id, (record) => {
          grants = run(tryLock(path))
          return record
        })
        yield* Effect.provideService(change, Locks, swapping)
        assert.deepStrictEqual([replaced, grants], [true, false])
      })
    ))

  it.live.each([["ENOLCK", true], ["EIO", false], ["EACCES", false]] as const)(
    "is changed without a lock only where there are none: %s",
    ([code, isChanged]) =>
      withBundle(({ dir, id }) =>
        Effect.gen(function*() {
          const store = yield* RunStore.RunStore
          const refuse = (_: number, path: string) =>
            Effect.fail(new Errno({ code, call: "lock", path, cause: undefined }))
          const pinned = yield* Effect.result(
            Effect.provideService(store.pin(id, "kept"), Locks, { ...native, tryExclusive: refuse })
          )
          assert.strictEqual(Result.isSuccess(pinned), isChanged)
          if (Result.isFailure(pinned)) assert.include(pinned.failure.message, code)
          assert.strictEqual(recordAt(dir).pin !== undefined, isChanged)
        })
      )
  )

  it.live("is on the disk, when its run has ended, before the lease goes", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const events: Array<string> = []
        const tell = (call: string, [path = ""]: ReadonlyArray<string>) =>
          Effect.sync(() => {
            if (call === "fsync" && path.startsWith(`${root}/runs/`)) events.push(path.replace(/^.*-[0-9a-z]{8}/, ""))
            if (call === "rename" && path.includes("/run.json.")) events.push("replaced")
            if (call === "unlink" && path.includes("/holders/")) events.push("holder gone")
          })
        yield* watch(tell)(Effect.void.pipe(Run.scoped({ name: "flushed", retention: "off" })))
        const last = events.slice(-4).map((event) => event.replace(/run\.json\..*/, "its draft"))
        assert.deepStrictEqual(last, ["/its draft", "replaced", "", "holder gone"])
      })
    ))

  it.live("that a newer program has written meanwhile is not written over at the end", () =>
    inStore(() =>
      Effect.gen(function*() {
        const newer = JSON.stringify({ version: 2, future: true })
        let path = ""
        const exit = yield* Run.Run.pipe(
          Effect.tap(({ paths }) =>
            Effect.sync(() => {
              path = paths.record
              NFS.writeFileSync(path, newer)
            })
          ),
          Run.scoped({ name: "outlived", retention: "off" }),
          Effect.exit
        )
        assert.isTrue(Exit.isFailure(exit))
        assert.strictEqual(NFS.readFileSync(path, "utf8"), newer)
      }).pipe(Effect.provide(Logger.layer([])))
    ))
})
