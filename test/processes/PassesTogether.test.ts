/** Passes beside passes, and beside bundles that are being made. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as Retention from "../../src/Retention.ts"
import { bundles, shell } from "../support/CommandLine.ts"
import { series } from "../support/Fabricate.ts"
import { ids, inStore, isSwept, parts } from "../support/Stores.ts"
import { fixture, gate, leasehold, run, start } from "../support/Worker.ts"

describe("a pass in the middle of a creation", () => {
  it.live("bug 09: at each of its calls takes nothing of it, or the creation begins anew", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const go = yield* gate(`${root}-go`)
        const creator = yield* fixture("create.ts", [root, `${root}-go`])
        const stops: Array<string> = []
        for (let nth = 1;; nth++) {
          const next = yield* Effect.raceFirst(
            creator.line(`stopped ${nth} at `),
            Effect.as(creator.line(`made ${nth} `), "")
          )
          if (next === "") break
          stops.push(next)
          const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
          assert.deepStrictEqual([report.failed, report.debt], [[], null], next)
          yield* go.open
          const dir = yield* creator.line(`made ${nth} `)
          assert.deepStrictEqual(NFS.readdirSync(dir).sort(), parts)
          assert.deepStrictEqual(
            (yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })).kept,
            { live: 1 },
            next
          )
          yield* go.open
        }
        assert.includeMembers(stops, ["mkdir", "open", "tryShared", "rename"])
        assert.isAbove(stops.length, 15)
        yield* go.open
        assert.strictEqual((yield* creator.exit).code, 0)
        yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual(bundles(root), [])
        isSwept(root)
      })
    ))
})
describe("passes beside one another", () => {
  /** The outsider begins when the first bundle has gone, and at the other end. */
  const together = Effect.fnUntraced(function*(root: string) {
    const made = series(root, 500, Date.now(), { size: 10 })
    const outsiders = made.filter((_, index) => index % 10 === 3)
    const passes = yield* Effect.forEach(
      [1, 2, 3, 4, 5, 6, 7, 8],
      () => leasehold(root, ["prune", "--all", "--all-the-way"])
    )
    yield* Effect.raceAllFirst(
      passes.map((pass) => Effect.catchCause(pass.line("removed "), () => Effect.never))
    )
    const remove = `for dir; do rm -rf "$dir"; done`
    const outsider = yield* start(["sh", "-c", remove, "sh", ...outsiders.toReversed().map(({ dir }) => dir)])
    const exits = yield* Effect.forEach(passes, (pass) => pass.exit)
    assert.strictEqual((yield* outsider.exit).stderr, "")
    const told = exits.map(({ stdout }) => stdout.split("\n").filter((line) => line !== ""))
    const idsIn = (pattern: RegExp) => told.flat().flatMap((line) => pattern.exec(line)?.[1] ?? [])
    const removed = idsIn(/^removed (\S+): /)
    assert.strictEqual(new Set(removed).size, removed.length)
    // One that the outsider is at may be seen half gone. Beside that nothing was kept, and nothing failed.
    const halfGone = idsIn(/^kept (\S+): unknown: run.json is missing$/)
    assert.includeMembers(ids(outsiders), halfGone)
    assert.strictEqual(removed.length + halfGone.length, told.flat().length)
    for (const { code } of exits) assert.include(halfGone.length > 0 ? [0, 3] : [0], code)
    assert.includeMembers(removed, ids(made.filter((one) => !outsiders.includes(one))))
    assert.deepStrictEqual(bundles(root), [])
    isSwept(root)
    return { exits, told }
  })

  it.live("bug 44: eight of them and an outsider's rm -rf: no error, and each bundle counted once", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { exits } = yield* together(root)
        assert.isTrue(exits.some(({ stderr }) => stderr === "another pass is at work in this store\n"))
      })
    ))

  it.live("bug 44: the same where no lock of passes can be had, so that all of them are at work", () =>
    inStore((root) =>
      Effect.gen(function*() {
        NFS.mkdirSync(`${root}/retention.lock`, { recursive: true })
        const { told } = yield* together(root)
        assert.isAbove(told.filter((lines) => lines.length > 0).length, 1)
      })
    ))

  it.live("one that is stopped, with the lock of passes in its hand, holds up no start, and another says so", () =>
    inStore((root) =>
      Effect.gen(function*() {
        series(root, 3, Date.now())
        const stopped = yield* fixture("pass.ts", [root])
        yield* stopped.line("at-work")
        yield* stopped.kill("SIGSTOP")
        const started = yield* run(root, ["run", ...shell("echo at-work")])
        assert.deepStrictEqual([started.code, started.stdout, started.stderr], [0, "at-work\n", ""])
        const told = yield* run(root, ["prune", "--all", "--json"])
        assert.deepStrictEqual([told.code, JSON.parse(told.stdout).otherPass], [0, true])
        const said = yield* run(root, ["prune", "--all"])
        assert.deepStrictEqual([said.code, said.stderr], [0, "another pass is at work in this store\n"])
      })
    ))
})
