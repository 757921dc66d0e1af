/** The types that are shipped, as a program sees them whose compiler looks into the declarations of what it depends on. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { repository, start } from "../support/Worker.ts"

const dist = `${repository}/dist`

const options = "--ignoreConfig --noEmit --strict --skipLibCheck false --module nodenext --target es2023 --types node"

describe("the shipped types", () => {
  it.live("compile for whoever checks them", () =>
    Effect.scoped(Effect.gen(function*() {
      const declared = [dist, `${dist}/testing`].flatMap((dir) =>
        NFS.readdirSync(dir).filter((name) => name.endsWith(".d.ts")).map((name) => `${dir}/${name}`)
      )
      assert.isNotEmpty(declared)
      const words = [...options.split(" "), ...declared]
      const compiler = yield* start([`${repository}/node_modules/.bin/tsc`, ...words])
      const { code, stdout } = yield* compiler.exit
      assert.deepStrictEqual([stdout, code], ["", 0])
    })), 60_000)
})
