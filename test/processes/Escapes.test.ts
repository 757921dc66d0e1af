/** What an enemy has written is shown on a terminal as escapes, wherever it comes from; JSON says the same as ever. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Timestamp } from "../../src/RunRecord.ts"
import { json, names, plant, withRoot } from "../support/CommandLine.ts"
import { run } from "../support/Worker.ts"

const evil = "e\u001b[31mvil\u0007\u202e\u009b31m\u2028x\r"

const minute = 60_000

/** Line breaks are ours. */
const control = /[^\P{Cc}\n]|[\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

const isHarmless = ({ stderr, stdout }: { readonly stdout: string; readonly stderr: string }, args: unknown) => {
  assert.notMatch(stdout, control, JSON.stringify(args))
  assert.notMatch(stderr, control, JSON.stringify(args))
}

const at = "2026-11-01T00:00:00.000Z" as Timestamp

/** Runs of which everything that may be text is evil, and strays by such names in every directory. */
const poison = (root: string) => {
  const dir = plant(root, 5 * minute, {
    name: evil,
    status: "error",
    exit: { code: 1, message: evil },
    command: { argv: [evil, evil], cwd: `/${evil}` },
    tags: { [evil]: evil },
    pin: { reason: evil, at },
    onRemove: [{ id: "abcdef", at, undo: { type: "command", argv: ["/bin/sh", "-c", `exit 3 #${evil}`], cwd: "/" } }]
  })
  const damaged = plant(root, 4 * minute)
  NFS.writeFileSync(`${damaged}/run.json`, `{"version":1,"id":"${evil}"`)
  const wrong = plant(root, 3 * minute, { status: evil as "ok" })
  const doubtful = plant(root, 2 * minute)
  NFS.writeFileSync(`${doubtful}/holders/${evil}.json`, `{${evil}`)
  NFS.writeFileSync(`${doubtful}/artifacts/${evil}`, "")
  for (const place of ["runs", "staging", "archive", "archive/2026-01-01", "trash"]) {
    NFS.mkdirSync(`${root}/${place}`, { recursive: true })
    NFS.writeFileSync(`${root}/${place}/${evil}`, "")
  }
  NFS.mkdirSync(`${root}/trash/${evil}.stuck`)
  return [dir, damaged, wrong, doubtful].map((each) => each.slice(each.lastIndexOf("/") + 1))
}

describe("what an enemy has written", () => {
  it.live("is shown as escapes by every command", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const ids = poison(root)
        const ofRun = ["show", "explain", "path", "unpin", "trim", "archive", "rm"]
        const all = [
          ["ls"],
          ["ls", "--archived"],
          ["verify", "--archives"],
          ["du"],
          ["recover"],
          ["prune", "--all", "--dry-run"],
          ["prune", "--all"],
          ...ids.flatMap((id) => ofRun.map((verb) => [verb, id])),
          ["verify", "--repair"]
        ]
        const each = all.flatMap((args) => ids.slice(1).includes(args[1] ?? "") ? [args] : [args, [...args, "--json"]])
        yield* Effect.forEach(
          each,
          (args) => Effect.map(run(root, args), (exit) => isHarmless(exit, args)),
          { concurrency: 2 }
        )
        isHarmless(yield* run(root, ["resume", ids[3]!, "--", "true"]), "resume")
      })
    ), 120_000)

  it.live("is in JSON what it was", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        poison(root)
        const { runs } = yield* json(root, ["ls"])
        assert.include(runs.map(({ name }: { readonly name: string }) => name), evil)
      })
    ))

  it.live(
    "is shown as escapes where it comes from the command line or the environment",
    () =>
      withRoot((root) =>
        Effect.gen(function*() {
          for (const more of [[], ["--json"]]) {
            isHarmless(yield* run(root, ["run", "--cleanup", `false # ${evil}`, ...more, "--", "true"]), "run")
            isHarmless(yield* run(root, ["run", ...more, "--", evil]), "a command")
            isHarmless(yield* run(root, ["show", evil, ...more]), "a run")
            isHarmless(yield* run(root, ["prune", "--max-age", evil, ...more]), "a policy")
            isHarmless(yield* run(root, [evil, ...more]), "a verb")
            isHarmless(yield* run(`${root}-${evil}`, ["ls", ...more]), "a root")
            for (const name of ["LEASEHOLD_RETENTION_MAX_AGE", "LEASEHOLD_RUN_ID", "TMPDIR"]) {
              const env = { LEASEHOLD_ROOT: root, [name]: evil }
              isHarmless(yield* run(root, ["run", ...more, "--", "true"], { env }), name)
            }
          }
          assert.deepStrictEqual(names(`${root}/staging`), [])
        })
      ),
    60_000
  )
})
