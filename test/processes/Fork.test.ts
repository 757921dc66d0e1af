import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { bundles, json, onlyRecord, plant, recordAt, records, shell, withRoot } from "../support/CommandLine.ts"
import { fixture, gate, leasehold, run } from "../support/Worker.ts"

const runs = (root: string, ...args: ReadonlyArray<string>) => run(root, ["run", "--retention", "off", ...args])

const fork = (root: string, name: string, ...args: ReadonlyArray<string>) =>
  run(root, ["resume", name, "--fork", "--retention", "off", ...args])

const artifact = "\"$LEASEHOLD_RUN_DIR/artifacts/count\""

describe("leasehold resume --fork", () => {
  it.live("runs the recorded command in a new run, on what the old one has made, and exits as it does", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(
          root,
          "--name",
          "job",
          "--tag",
          "a=b",
          ...shell(`echo x >> ${artifact}; wc -l < ${artifact}; exit 3`)
        )
        const [old = ""] = bundles(root)
        const before = NFS.readFileSync(`${old}/run.json`, "utf8")
        const forked = yield* fork(root, "latest")
        assert.deepStrictEqual([forked.code, forked.stdout.trim(), forked.stderr], [3, "2", ""])
        const [, dir = ""] = bundles(root)
        const { command, forkedFrom, name, tags } = recordAt(dir)
        assert.deepStrictEqual([forkedFrom, name, tags], [recordAt(old).id, "job", { a: "b" }])
        assert.deepStrictEqual(command, recordAt(old).command)
        assert.strictEqual(NFS.readFileSync(`${old}/run.json`, "utf8"), before)
        assert.strictEqual(NFS.readFileSync(`${old}/artifacts/count`, "utf8"), "x\n")
        assert.strictEqual(NFS.readFileSync(`${dir}/logs/stdout.log`, "utf8").trim(), "2")
        assert.match((yield* run(root, ["show", "latest"])).stdout, new RegExp(`^forked from +${forkedFrom}$`, "m"))
        assert.strictEqual((yield* json(root, ["show", "latest"])).run.forkedFrom, forkedFrom)
      })
    ))

  it.live("runs another command where one is given, here and now", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, ...shell(`echo x > ${artifact}`))
        const forked = yield* fork(root, "latest", ...shell(`cat ${artifact}; pwd`))
        assert.deepStrictEqual([forked.code, forked.stdout], [0, `x\n${process.cwd()}\n`])
        assert.strictEqual(records(root)[1]?.command?.argv[0], "sh")
      })
    ))

  it.live("takes a live run as it is, says so, and may be removed while that goes on", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const owner = yield* leasehold(root, ["run", ...shell(`echo x > ${artifact}; echo at-work; ${end.wait}`)])
        yield* owner.line("at-work")
        const forked = yield* fork(root, "latest", ...shell(`cat ${artifact}`))
        assert.deepStrictEqual([forked.code, forked.stdout], [0, "x\n"])
        assert.match(forked.stderr, /^leasehold: \S+ is still at work; its artifacts are copied as they are/)
        assert.strictEqual((yield* run(root, ["rm", "latest"])).code, 0)
        assert.strictEqual(onlyRecord(root).status, "running")
        yield* end.open
        assert.strictEqual((yield* owner.exit).code, 0)
      })
    ))

  it.live("does not say so of a finished run that others copy from at the same time", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, ...shell(`echo x > ${artifact}`))
        const end = `${root}-end`
        yield* gate(end)
        const other = yield* fixture("hold.ts", [root, onlyRecord(root).id, "hold", "0", end])
        yield* other.line("held")
        const forked = yield* fork(root, "latest", ...shell(`cat ${artifact}`))
        assert.deepStrictEqual([forked.code, forked.stdout, forked.stderr], [0, "x\n", ""])
      })
    ))

  it.live("refuses what resume refuses, and makes no run", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* runs(root, "--", "sh", "-c", "true", "--password=hunter2")
        const hidden = yield* fork(root, "latest")
        assert.strictEqual(hidden.code, 2)
        assert.include(hidden.stderr, "had secrets in it")
        plant(root, 0)
        const without = yield* fork(root, "latest")
        assert.strictEqual(without.code, 2)
        assert.include(without.stderr, "has no command")
        assert.strictEqual(bundles(root).length, 2)
        const id = records(root)[0]?.id ?? ""
        yield* run(root, ["rm", id])
        assert.strictEqual((yield* fork(root, id, "--", "true")).code, 5)
        assert.strictEqual(bundles(root).length, 1)
      })
    ))
})
