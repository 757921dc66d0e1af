/**
 * What a pass does not take: from somebody who came after the plan or has just brought it back, beside another pass, or out
 * of the store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { Lease } from "../src/Lease.ts"
import * as Retention from "../src/Retention.ts"
import * as PassLock from "../src/retention/PassLock.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import * as RunArchive from "../src/RunArchive.ts"
import { names } from "./support/CommandLine.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, makeStore, removedBy } from "./support/Stores.ts"
import { day, hour } from "./support/Time.ts"

const all = { policy: { all: true } } as const

describe("a pass", () => {
  it.live("leaves a run to which somebody came after the plan was made", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const lease = yield* Lease
        const target = bundle(root, { startedAt: Date.now() - hour })
        const path = `${target.dir}/lease`
        const scope = yield* Scope.make("sequential")
        const come = Effect.orDie(Scope.provide(lease.hold(target, { role: "joined" }), scope))
        const isClaim = (call: string, paths: ReadonlyArray<string>) => call === "tryExclusive" && paths[0] === path
        const report = yield* Retention.run(all).pipe(watch(once(isClaim, Effect.asVoid(come))))
        assert.deepStrictEqual([removedBy(report), report.kept], [[], { live: 1 }])
        assert.isTrue(NFS.existsSync(path))
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(removedBy(yield* Retention.run(all)), [target.id])
      })
    ))

  it.live("does nothing beside another", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour })
        yield* Effect.scoped(Effect.gen(function*() {
          assert.isTrue(yield* PassLock.take(root, { dryRun: false }))
          const report = yield* Retention.run(all)
          assert.deepStrictEqual([report.otherPass, removedBy(report), NFS.existsSync(dir)], [true, [], true])
        }))
        assert.deepStrictEqual(removedBy(yield* Retention.run(all)), [id])
      })
    ))

  it.live("puts nothing into a trash that leads out of the store", () =>
    inStore((root) =>
      Effect.gen(function*() {
        makeStore(root)
        const { dir, id } = bundle(root, { startedAt: Date.now() - hour })
        const outside = `${root}-outside`
        NFS.mkdirSync(outside)
        NFS.writeFileSync(`${outside}/canary`, "sings")
        NFS.rmdirSync(`${root}/trash`)
        NFS.symlinkSync(outside, `${root}/trash`)
        const report = yield* Retention.run(all)
        assert.deepStrictEqual(removedBy(report), [])
        assert.include(report.failed.map((failed) => failed.id), id)
        assert.deepStrictEqual([NFS.existsSync(dir), names(outside)], [true, ["canary"]])
      })
    ))

  it.live.each<readonly [string, PolicyInput]>([
    ["archived again", { archive: "1 day" }],
    ["trimmed", { trim: "1 day" }],
    ["removed", { maxAge: "1 day" }]
  ])(
    "leaves a run that was brought back today from being %s, as if it had ended today",
    ([_, policy]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const { dir, id } = bundle(root, { startedAt: Date.now() - 30 * day })
          NFS.mkdirSync(`${dir}/temp`)
          NFS.writeFileSync(`${dir}/temp/file`, "x")
          yield* RunArchive.archive(id)
          yield* RunArchive.restore(id)
          const report = yield* Retention.run({ policy })
          assert.deepStrictEqual([report.archived, report.trimmed, report.removed, report.failed], [[], [], [], []])
          assert.isTrue(NFS.existsSync(`${dir}/temp/file`))
        })
      )
  )
})
