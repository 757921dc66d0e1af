import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import * as Documents from "../../src/Documents.ts"
import type { RunRecord } from "../../src/RunRecord.ts"
import { json, makeStore, onlyRecord, plant, recordAt, shell, withRoot } from "../support/CommandLine.ts"
import { everything } from "../support/Snapshot.ts"
import { command, gate, leasehold, run, start } from "../support/Worker.ts"

const day = 86_400_000

const decode = Schema.decodeUnknownSync(Documents.Explain, { onExcessProperty: "error" })

const pin = { reason: "a release", at: "2026-01-01T00:00:00.000Z" } as RunRecord["pin"] & object

/** Twelve runs, the last of them twelve days ago. */
const plantDozen = Effect.fnUntraced(function*(root: string) {
  yield* makeStore(root)
  return Array.from({ length: 12 }, (_, index) => plant(root, (index + 1) * day, { name: `n${index + 1}` }))
})

const explain = (root: string, dir: string | undefined, ...flags: ReadonlyArray<string>) =>
  run(root, ["explain", NodePath.basename(dir ?? ""), ...flags])

const document = (root: string, ...args: ReadonlyArray<string>) => Effect.map(json(root, ["explain", ...args]), decode)

/** By words for `sh`, in which `$explain` is the command. */
const byShell = (root: string, script: string) => {
  const words = `"${process.execPath}" "${command}" explain latest --json --root "${root}" --allow-temp`
  return Effect.scoped(Effect.flatMap(start(["sh", "-c", `explain='${words}'; ${script}`]), ({ exit }) => exit))
}

describe("a policy file", () => {
  it.live("may be a pipe, and a link may lead to it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* plantDozen(root)
        const file = `${root}-policy.json`
        NFS.writeFileSync(file, JSON.stringify({ keepLast: 1 }))
        NFS.symlinkSync(file, `${root}-link`)
        const ways = [
          `eval "$explain" --policy '${root}-link'`,
          `cat '${file}' | eval "$explain" --policy /dev/stdin`,
          `eval "$explain" --policy /dev/stdin < '${file}'`,
          `mkfifo '${root}-fifo'; cat '${file}' > '${root}-fifo' & eval "$explain" --policy '${root}-fifo'`
        ]
        for (const way of ways) {
          const { code, stderr, stdout } = yield* byShell(root, way)
          assert.deepStrictEqual([code, stderr], [0, ""], way)
          assert.deepStrictEqual(decode(JSON.parse(stdout)).rules.map(({ rule }) => rule), ["keepLast"])
        }
      })
    ))

  it.live("is refused where it is too large or no text, whatever it is", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* plantDozen(root)
        NFS.writeFileSync(`${root}-large`, " ".repeat(200_000))
        NFS.writeFileSync(`${root}-latin`, Buffer.from("{\"keepTag\": [\"gr\u00fcn\"]}", "latin1"))
        const wrong = [
          ["large", "UsageError", /more than are read/],
          ["latin", "UsageError", /is not text in UTF-8/]
        ] as const
        for (const [name, error, words] of wrong) {
          for (const way of [`--policy '${root}-${name}'`, `--policy /dev/stdin`]) {
            const { code, stderr } = yield* byShell(root, `cat '${root}-${name}' | eval "$explain" ${way}`)
            assert.deepStrictEqual([code, JSON.parse(stderr).error], [2, error], way)
            assert.match(JSON.parse(stderr).message, words)
          }
        }
        const none = yield* byShell(root, `: | eval "$explain" --policy /dev/stdin`)
        assert.strictEqual(JSON.parse(none.stderr).error, "PolicyError")
        const directory = yield* byShell(root, `eval "$explain" --policy /`)
        assert.match(JSON.parse(directory.stderr).message, /is a directory, not a regular file/)
      })
    ))
})

describe("leasehold explain", () => {
  it.live("tells a person what each rule says of a run, and what they come to", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dirs = yield* plantDozen(root)
        const flags = ["--max-age", "10 days", "--max-bundles", "200", "--keep-last", "3"]
        const before = everything(root)
        const old = yield* explain(root, dirs.at(-1), ...flags)
        assert.deepStrictEqual([old.code, old.stderr], [0, ""])
        const lines = old.stdout.trimEnd().split("\n")
        const { endedAt, id } = recordAt(dirs.at(-1) ?? "")
        assert.deepStrictEqual(lines, [
          `id        ${id}`,
          "name      n12",
          "status    ok",
          "liveness  dead: lease free",
          `ended     ${endedAt} (11d ago), by its record`,
          "policy    remove the oldest finished runs beyond 200 bundles or older than 10 days, keep pinned ones and the" +
          " newest 3",
          "",
          "maxBundles  200      does not     12 of at most 200 bundles, none older than it",
          "maxAge      10 days  asks for it  ended 11d ago",
          "keepLast    3        does not     it is the 12th newest of 12",
          "",
          "it would go: older than 10 days"
        ])
        const spared = (yield* explain(root, dirs[1], "--max-age", "1 day", "--keep-last", "3")).stdout
        assert.match(spared, /^keepLast +3 +spares it +it is the 2nd newest of 12$/m)
        assert.match(spared, /^it stays: newest 3$/m)
        assert.deepStrictEqual(everything(root), before)
      })
    ))

  it.live("goes by the environment where no flag says otherwise, and else by the standard policy", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* plantDozen(root)
        const standard = yield* document(root, "latest")
        assert.deepStrictEqual(standard.rules.map(({ rule }) => rule), ["maxBundles", "maxAge", "keepLast"])
        assert.deepStrictEqual([standard.action, standard.reason], ["keep", "withinLimits"])
        const env = { LEASEHOLD_RETENTION_MAX_AGE: "1 hour" }
        const stated = decode(yield* json(root, ["explain", "latest"], { env }))
        const [only, ...others] = stated.rules
        assert.deepStrictEqual([only?.rule, only?.value, only?.verdict, others], ["maxAge", "1 hour", "asks", []])
        assert.match(only!.why, /^ended (23h|1d) ago$/)
        assert.deepStrictEqual([stated.action, stated.message], ["remove", "older than 1 hour"])
        NFS.writeFileSync(`${root}-policy.json`, JSON.stringify({ keepLast: 1 }))
        const filed = decode(
          yield* json(root, ["explain", "latest", "--policy", `${root}-policy.json`], { env })
        )
        assert.deepStrictEqual(filed.rules.map(({ rule, verdict }) => [rule, verdict]), [["keepLast", "spares"]])
      })
    ))

  it.live("names who works there, and what keeps a run whoever asks for it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, ["run", "--retention", "off", ...shell(`echo at-work; ${end.wait}`)])
        yield* worker.line("at-work")
        const { stdout } = yield* run(root, ["explain", "latest", "--all"])
        assert.match(stdout, new RegExp(`^holder +pid ${worker.pid} on \\S+ \\(owner\\)$`, "m"))
        assert.match(stdout, /^all +true +does not +has not ended$/m)
        assert.match(stdout, /^it stays: live$/m)
        const told = yield* document(root, "latest", "--all")
        assert.deepStrictEqual([told.liveness.state, told.guard, told.reason], ["live", "live", "live"])
        assert.isNull(told.endedAt)
        assert.isTrue(told.liveness.holders.some(({ pid, role }) => pid === worker.pid && role === "owner"))
        yield* end.open
        yield* worker.exit
        yield* run(root, ["pin", "latest", "--reason", "a release"])
        const pinned = yield* document(root, "latest", "--all")
        assert.deepStrictEqual(pinned.pin, onlyRecord(root).pin)
        assert.deepStrictEqual([pinned.rules[0]?.verdict, pinned.action, pinned.reason], ["asks", "keep", "pinned"])
        const unasked = yield* document(root, "latest", "--max-age", "1 day")
        assert.deepStrictEqual([unasked.guard, unasked.reason], ["pinned", "withinLimits"])
        assert.match((yield* run(root, ["explain", "latest", "--all"])).stdout, /^pinned +a release \(just now\)$/m)
      })
    ))

  it.live("tells of a record that cannot be read, and breaks no terminal", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [dir = "", evil = ""] = yield* plantDozen(root)
        NFS.writeFileSync(`${dir}/run.json`, "{")
        const told = yield* document(root, NodePath.basename(dir), "--all")
        assert.deepStrictEqual([told.name, told.status, told.reason], [null, "damaged", "unknown"])
        assert.match((yield* explain(root, dir, "--all")).stdout, /^problem +run.json is malformed/m)
        const name = "two\nlines\u001b[31m"
        NFS.writeFileSync(
          `${evil}/run.json`,
          JSON.stringify({ ...recordAt(evil), name, tags: { [name]: name }, pin: { ...pin, reason: name } })
        )
        const { stdout } = yield* explain(root, evil, "--all", "--keep-tag", "x", "--group-by", "name")
        assert.notInclude(stdout, "\u001b")
        assert.match(stdout, /^group +two\\u000alines/m)
        assert.match(stdout, /^it stays: pinned: two\\u000alines/m)
      })
    ))

  it.live("exits 5 where there is no such run, and 2 under a policy that cannot be", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [dir] = yield* plantDozen(root)
        assert.strictEqual((yield* run(root, ["explain", "20200101T000000000Z-aaaaaaaa"])).code, 5)
        const wrong = yield* explain(root, dir, "--max-age", "0d")
        assert.strictEqual(wrong.code, 2)
        assert.include(wrong.stderr, "--max-age: maxAge cannot be")
      })
    ))
})
