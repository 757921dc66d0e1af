/**
 * What needs a run for itself, and what works in one, in both orders, as two processes of which the first has stopped in
 * the middle: whoever comes second is refused, learns why, and changes nothing.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Report } from "../../src/RetentionReport.ts"
import { shell } from "../support/CommandLine.ts"
import { bundle, type Made } from "../support/Fabricate.ts"
import { everything } from "../support/Snapshot.ts"
import { filed, makeStore, present, withRoot } from "../support/Stores.ts"
import { day } from "../support/Time.ts"
import { fixture, gate, leasehold, run } from "../support/Worker.ts"

const stage = (root: string): Made => {
  const made = bundle(root, { startedAt: Date.now() - day, size: 5000 })
  for (const part of ["logs", "temp"]) NFS.mkdirSync(`${made.dir}/${part}`)
  NFS.writeFileSync(`${made.dir}/temp/scratch`, "x".repeat(5000))
  makeStore(root)
  return made
}

const workers = ["resume", "attach"] as const

/** As the command line has them. */
const come = (root: string, how: typeof workers[number], { id }: Made, script: string) =>
  leasehold(root, [how, id, ...(how === "resume" ? ["--retention=off", "--rebuilds"] : []), ...shell(script)])

interface Expected {
  readonly code: number
  readonly says: RegExp
}

const claimed: Expected = { code: 4, says: /in use by pid \d+|being removed, archived or changed by|left no name/ }
const restoring: Expected = { code: 4, says: /another process is archiving, restoring or removing it; try again/ }
/** There is nobody to be joined in a run that is in the archive. */
const archived: Expected = { code: 5, says: /has been archived; restore it first/ }

type Verb = "trim" | "archive" | "restore" | "rm" | "prune" | "prune --trim" | "prune --archive"

const standing: ReadonlyArray<readonly [verb: Verb, resume: Expected, attach: Expected, place: string]> = [
  ["trim", claimed, claimed, "store"],
  ["archive", claimed, claimed, "archive"],
  ["restore", restoring, archived, "store"],
  ["rm", claimed, claimed, "nowhere"],
  ["prune", claimed, claimed, "nowhere"],
  ["prune --trim", claimed, claimed, "store"],
  ["prune --archive", claimed, claimed, "archive"]
]

const placeOf = (root: string) =>
  present(root).length > 0 ? "store" : filed(root, ".tar.zst").length > 0 ? "archive" : "nowhere"

// Whoever attaches waits some seconds for a claim to end.
describe.concurrent("a run that another process has for itself", () => {
  it.live.each(standing)(
    "stopped in %s: who resumes it or attaches to it is refused, and not a byte changes",
    ([verb, resume, attach, place]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const made = stage(root)
          if (verb === "restore") assert.strictEqual((yield* run(root, ["archive", made.id])).code, 0)
          const goOn = yield* gate(`${root}-go-on`)
          const first = yield* fixture("standing.ts", [root, made.id, verb, `${root}-go-on`])
          yield* first.line("standing in")
          const before = everything(root)
          const [resumed, attached] = yield* Effect.forEach(
            workers,
            (how) => Effect.flatMap(come(root, how, made, "echo at-work"), ({ exit }) => exit),
            { concurrency: 2 }
          )
          assert.deepStrictEqual(everything(root), before)
          for (const [told, { code, says }] of [[resumed!, resume], [attached!, attach]] as const) {
            assert.deepStrictEqual([told.code, told.stdout], [code, ""], told.stderr)
            assert.match(told.stderr, says)
          }
          yield* goOn.open
          const { code, stderr, stdout } = yield* first.exit
          assert.deepStrictEqual([code, stderr], [0, ""])
          assert.include(stdout, `done with ${verb}`)
          assert.strictEqual(placeOf(root), place)
        })
      )
  )
})

const used: Expected = { code: 4, says: /in use by pid \d+ on .*\((owner|joined|child)\)/ }

const second: ReadonlyArray<readonly [verb: Verb, args: ReadonlyArray<string>, expected: Expected | "kept"]> = [
  ["trim", [], used],
  ["archive", [], used],
  ["restore", [], { code: 1, says: /is in the store and has not been archived/ }],
  ["rm", [], used],
  ["prune", ["prune", "--max-age", "1ms"], "kept"],
  ["prune --trim", ["prune", "--trim", "1ms"], "kept"],
  ["prune --archive", ["prune", "--archive", "1ms"], "kept"]
]

const traces = (root: string, { dir }: Made) => [
  ...everything(dir),
  ...["archive", "staging", "trash"].flatMap((place) =>
    NFS.existsSync(`${root}/${place}`) ? everything(`${root}/${place}`) : []
  )
]

describe("a run in which a process is at work", () => {
  it.live.each(workers.flatMap((how) => second.map((each) => [how, ...each] as const)))(
    "by %s: %s is refused, and not a byte changes",
    ([how, verb, args, expected]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const made = stage(root)
          const end = yield* gate(`${root}-end`)
          const worker = yield* come(root, how, made, `echo at-work; ${end.wait}`)
          yield* worker.line("at-work")
          const before = traces(root, made)
          if (expected === "kept") {
            const { stdout } = yield* run(root, [...args, "--json"])
            const report: Report = JSON.parse(stdout)
            const { archived, failed, kept, removed, trimmed } = report
            assert.deepStrictEqual([removed, trimmed, archived, failed], [[], [], [], []])
            // It is the only one, and counted once.
            assert.deepStrictEqual(Object.values(kept), [1], JSON.stringify(kept))
          } else {
            const told = yield* run(root, [verb, made.id])
            assert.strictEqual(told.code, expected.code, told.stderr)
            assert.match(told.stderr, expected.says)
          }
          assert.deepStrictEqual(traces(root, made), before)
          yield* end.open
          assert.strictEqual((yield* worker.exit).code, 0)
        })
      )
  )
})
