/** Days that become empty are taken away, also in the moment before somebody puts something into them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as RunArchive from "../src/RunArchive.ts"
import { watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { inStore, present } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

describe("a day that others take away while it is empty", () => {
  it.live("is made again as often as it takes to restore a run, and to archive one", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = bundle(root, { startedAt: Date.now() - day, size: 100 })
        const dayOf = (path: string) => path.slice(0, path.lastIndexOf("/"))
        let times = 0
        const takeAway = (call: string, [from = "", to = ""]: ReadonlyArray<string>) =>
          Effect.sync(() => {
            if (call !== "rename" || !from.includes("/staging/") || !NFS.existsSync(dayOf(to))) return
            if (++times % 3 !== 0 && NFS.readdirSync(dayOf(to)).length === 0) NFS.rmdirSync(dayOf(to))
          })
        yield* watch(takeAway)(RunArchive.archive(made.id))
        yield* watch(takeAway)(RunArchive.restore(made.id))
        assert.deepStrictEqual(present(root), [made.id])
        assert.isAbove(times, 4)
      })
    ))
})
