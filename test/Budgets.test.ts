/** What a start loads, so that a module that comes along by accident is seen when it does. Needs a build. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { withRoot } from "./support/CommandLine.ts"
import { command, run } from "./support/Worker.ts"

const home = `${NodePath.dirname(command)}/command`

/** A start with an empty cache keeps what it has compiled of every file that it has loaded, by the file's own name. */
const loadedBy = Effect.fnUntraced(function*(root: string, args: ReadonlyArray<string>) {
  const cache = `${root}-cache-${args[0]}`
  assert.strictEqual((yield* run(root, args, { env: { XDG_CACHE_HOME: cache } })).code, 0)
  return NFS.readdirSync(cache, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => ({ name, kB: NFS.statSync(`${home}/${name}`).size / 1000 }))
})

describe("a start loads no more than", () => {
  const budgets: ReadonlyArray<readonly [ReadonlyArray<string>, number, number]> = [
    [["run", "--retention", "off", "--", "true"], 2, 290],
    [["run", "--", "true"], 8, 360],
    [["ls"], 2, 290]
  ]
  it.live.each(budgets)(
    "its budget: %s, %d files, %d kB",
    ([args, files, kB]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          yield* run(root, ["run", "--retention", "off", "--", "true"])
          const loaded = yield* loadedBy(root, args)
          const names = loaded.map(({ name }) => name).join(" ")
          assert.isNotEmpty(loaded)
          assert.isAtMost(loaded.length, files, names)
          assert.isAtMost(loaded.reduce((sum, file) => sum + file.kB, 0), kB, names)
        })
      )
  )
})
