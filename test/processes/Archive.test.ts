import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as NFS from "node:fs"
import * as Documents from "../../src/Documents.ts"
import * as Archives from "../support/Archives.ts"
import { names, plant, recordAt, shell } from "../support/CommandLine.ts"
import { withRoot } from "../support/CommandLine.ts"
import { bundle } from "../support/Fabricate.ts"
import { day, hour } from "../support/Time.ts"
import { type Exit, gate, leasehold, run } from "../support/Worker.ts"

const strictly = { onExcessProperty: "error" } as const

/** The document that a command prints, which has to be what was published. */
const read = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, { stdout }: Exit): S["Type"] =>
  Schema.decodeUnknownSync(schema, strictly)(JSON.parse(stdout))

const old = (root: string, ago = day, more: Partial<Parameters<typeof bundle>[1]> = {}) =>
  bundle(root, { startedAt: Date.now() - ago, size: 5000, ...more })

describe("leasehold archive and restore", () => {
  it.live("take runs away and bring them back, and say so to people and to programs", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [first, second] = [old(root, 2 * day), old(root)]
        const before = Archives.treeOf(first.dir)
        const told = yield* run(root, ["archive", first.id])
        assert.strictEqual(told.code, 0)
        assert.match(told.stdout, new RegExp(`^archived ${first.id}: [\\d.]+ KiB in \\d+ B\\n$`))
        assert.match(told.stderr, /given back\n$/)
        assert.deepStrictEqual([NFS.existsSync(first.dir), names(`${root}/trash`)], [false, []])
        const answer = yield* run(root, ["archive", "latest", "--json"])
        const { archived, failed, undeleted } = read(Documents.Archive, answer)
        assert.deepStrictEqual([answer.code, answer.stderr, failed, undeleted], [0, "", [], []])
        assert.deepStrictEqual(archived.map(({ id, path }) => [id, path]), [[
          second.id,
          Archives.pathOf(root, second.id)
        ]])
        const back = yield* run(root, ["restore", second.id, "--json"])
        assert.deepStrictEqual(read(Documents.Restore, back), {
          version: 1,
          restored: [{ id: second.id, dir: second.dir }],
          failed: []
        })
        const people = yield* run(root, ["restore", first.id])
        assert.deepStrictEqual([people.code, people.stdout], [0, `restored ${first.id}: ${first.dir}\n`])
        Archives.sameTree(Archives.treeOf(first.dir), before)
        assert.deepStrictEqual(Archives.archives(root), [])
      })
    ))

  it.live("of several do what they can, say what they could not, and end with the code for it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [one, other] = [old(root, 3 * day), old(root, 2 * day)]
        const pinned = old(root, day, { pin: "a release" })
        const end = yield* gate(`${root}-end`)
        const worker = yield* leasehold(root, ["run", "--retention", "off", ...shell(`echo at-work; ${end.wait}`)])
        yield* worker.line("at-work")
        const held = yield* run(root, ["archive", "latest"])
        assert.deepStrictEqual([held.code, held.stdout], [4, ""])
        assert.match(held.stderr, /in use by pid \d+/)
        const unpinned = yield* run(root, ["archive", pinned.id])
        assert.strictEqual(unpinned.code, 1)
        assert.match(unpinned.stderr, /is pinned \(a release\); unpin it first/)
        const many = yield* run(root, ["archive", one.id, "2031", pinned.id, other.id, one.id, "--json"])
        const document = read(Documents.Archive, many)
        assert.deepStrictEqual([many.code, document.archived.map(({ id }) => id)], [5, [one.id, other.id]])
        assert.deepStrictEqual(document.failed.map(({ error, id }) => [id, error]), [
          ["2031", "StoreError.NoSuchRun"],
          [pinned.id, "ArchiveError.Pinned"]
        ])
        const codes = (...args: ReadonlyArray<string>) => Effect.map(run(root, args), ({ code }) => code)
        assert.strictEqual(yield* codes("archive", one.id), 5)
        assert.strictEqual(yield* codes("archive"), 2)
        assert.strictEqual(yield* codes("archive", "../x"), 2)
        assert.strictEqual(yield* codes("restore", "2031"), 5)
        assert.strictEqual(yield* codes("restore", pinned.id), 1)
        yield* end.open
        assert.strictEqual((yield* worker.exit).code, 0)
      })
    ))

  it.live("refuse an archive that is damaged or leads out, and rm takes it away", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [damaged, leading] = [old(root), old(root)]
        NFS.symlinkSync("/etc", `${leading.dir}/artifacts/out`)
        yield* run(root, ["archive", damaged.id, leading.id])
        NFS.truncateSync(Archives.pathOf(root, damaged.id), 50)
        const refused = yield* run(root, ["restore", damaged.id])
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr, new RegExp(`is damaged: .*leasehold rm ${damaged.id}`))
        const unsafe = yield* run(root, ["restore", leading.id, "--json"])
        assert.deepStrictEqual([unsafe.code, read(Documents.Restore, unsafe).failed[0]?.error], [
          1,
          "ArchiveError.Unsafe"
        ])
        assert.match(unsafe.stdout, new RegExp(`leasehold restore --links-out ${leading.id}`))
        const shown = yield* run(root, ["ls", "--archived"])
        assert.match(shown.stdout, new RegExp(`${damaged.id} +\\? +damaged .* 50 B +unexpected end of file`))
        const document = read(Documents.LsArchived, yield* run(root, ["ls", "--archived", "--json"]))
        assert.deepStrictEqual(
          document.archives.map(({ id, problem, status }) => [id, status, problem === undefined]),
          [
            [leading.id, "ok", true],
            [damaged.id, null, false]
          ]
        )
        assert.strictEqual((yield* run(root, ["restore", "--links-out", leading.id])).code, 0)
        assert.strictEqual(NFS.readlinkSync(`${leading.dir}/artifacts/out`), "/etc")
        const removed = yield* run(root, ["rm", damaged.id, "--json"])
        assert.deepStrictEqual(read(Documents.Rm, removed).removed, [{ id: damaged.id }])
        assert.deepStrictEqual([removed.code, Archives.archives(root)], [0, []])
      })
    ))
})

describe("what has been archived", () => {
  it.live("is listed on a word, by name, status, tag and age, with its size and where it lies", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const failed = old(root, 3 * day, { name: "build", status: "error", tags: { kind: "x" } })
        const fine = old(root, 2 * day, { name: "test" })
        const left = old(root, hour, { name: "left" })
        yield* run(root, ["archive", failed.id, fine.id])
        const list = (...args: ReadonlyArray<string>) =>
          Effect.map(run(root, ["ls", "--archived", "--json", ...args]), (exit) =>
            read(Documents.LsArchived, exit).archives.map(({ id }) => id))
        assert.deepStrictEqual(yield* list(), [fine.id, failed.id])
        assert.deepStrictEqual(yield* list("--name", "build"), [failed.id])
        assert.deepStrictEqual(yield* list("--status", "ok"), [fine.id])
        assert.deepStrictEqual(yield* list("--tag", "kind=x"), [failed.id])
        assert.deepStrictEqual(yield* list("--since", "60h"), [fine.id])
        assert.deepStrictEqual(yield* list("--until", "60h"), [failed.id])
        assert.deepStrictEqual(yield* list("-n", "1"), [fine.id])
        const [row] = read(Documents.LsArchived, yield* run(root, ["ls", "--archived", "--json"])).archives
        assert.deepStrictEqual([row?.name, row?.status, row?.bytes], ["test", "ok", NFS.statSync(row!.path).size])
        const people = yield* run(root, ["ls", "--archived"])
        assert.match(
          people.stdout,
          new RegExp(`^ID +NAME +STATUS +ENDED +SIZE[^\\n]*\\n${fine.id} +test +ok .*\\n${failed.id} +build +error `)
        )
        const others = yield* run(root, ["ls", "--json"])
        assert.deepStrictEqual(
          JSON.parse(others.stdout).runs.map(({ id }: { readonly id: string }) =>
            id
          ),
          [left.id]
        )
        assert.strictEqual((yield* run(root, ["ls", "--archived", "--tree"])).code, 2)
        yield* run(root, ["rm", failed.id, fine.id])
        const none = yield* run(root, ["ls", "--archived"])
        assert.deepStrictEqual([none.code, none.stdout], [0, ""])
        assert.match(none.stderr, /no archived runs to list/)
      })
    ))

  it.live("is not there for others, who are told how to bring it back", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const { id } = old(root)
        yield* run(root, ["archive", id])
        const asks = [["show"], ["logs"], ["path"], ["pin"], ["trim"], ["du"], ["resume", "--fork"], ["unpin"], [
          "archive"
        ]] as const
        for (const [command, ...more] of asks) {
          const told = yield* run(root, [command, id.slice(0, 20), ...more])
          assert.deepStrictEqual([command, told.code, told.stdout], [command, 5, ""])
          assert.include(told.stderr, `${id} has been archived; restore it first: leasehold restore ${id}`)
        }
        assert.strictEqual((yield* run(root, ["show", "latest"])).code, 5)
        assert.strictEqual(Archives.archives(root).length, 1)
      })
    ))

  it.live("may be what the beginning of an id means, beside a run that it means as well", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const [one, two] = [old(root), old(root)]
        yield* run(root, ["archive", one.id])
        const prefix = one.id.slice(0, 10)
        for (const command of ["restore", "rm", "show", "archive", "resume"]) {
          const told = yield* run(root, [command, prefix])
          assert.deepStrictEqual([command, told.code], [command, 2])
          assert.include(told.stderr, one.id)
          assert.include(told.stderr, two.id)
        }
        assert.isTrue(NFS.existsSync(two.dir))
        yield* run(root, ["rm", two.id])
        assert.strictEqual((yield* run(root, ["restore", prefix])).stdout, `restored ${one.id}: ${one.dir}\n`)
      })
    ))

  it.live("is gone on with as any other run, and keeps what it has kept", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* run(root, ["run", ...shell("echo first; echo x > $LEASEHOLD_RUN_DIR/artifacts/x")])
        const dir = (yield* run(root, ["path", "latest"])).stdout.trim()
        const id = dir.slice(dir.lastIndexOf("/") + 1)
        yield* run(root, ["archive", id])
        assert.isFalse(NFS.existsSync(dir))
        const resumed = yield* run(root, ["resume", id, ...shell("cat $LEASEHOLD_RUN_DIR/artifacts/x; exit 3")])
        assert.deepStrictEqual([resumed.code, resumed.stdout], [3, "x\n"])
        assert.match(NFS.readFileSync(`${dir}/logs/stdout.log`, "utf8"), /^first\n--- resumed [^\n]+ ---\nx\n$/)
        const record = recordAt(dir)
        assert.deepStrictEqual(record.attempts.map(({ status }) => status), ["ok", "error"])
        assert.deepStrictEqual([record.status, Archives.archives(root), names(`${root}/staging`)], ["error", [], []])
        yield* run(root, ["archive", id])
        const again = yield* run(root, ["resume", id.slice(0, 20)])
        assert.strictEqual(again.code, 0)
        assert.strictEqual(recordAt(dir).attempts.length, 3)
      })
    ))

  it.live("that was trimmed is gone on with on a word, and stays archived without", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const dir = plant(root, day, { command: { argv: ["true"], cwd: "/" } })
        const id = dir.slice(dir.lastIndexOf("/") + 1)
        NFS.writeFileSync(`${dir}/temp/x`, "x")
        yield* run(root, ["trim", id])
        yield* run(root, ["archive", id])
        const refused = yield* run(root, ["resume", id])
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr, /--rebuilds/)
        assert.deepStrictEqual([NFS.existsSync(dir), Archives.archives(root).length], [false, 1])
        assert.strictEqual((yield* run(root, ["resume", "--rebuilds", id])).code, 0)
        assert.deepStrictEqual([NFS.existsSync(dir), Archives.archives(root).length], [true, 0])
      })
    ))
})

describe("prune with tiers", () => {
  it.live("says what it trims and archives, first and as it does it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const { id } = old(root, 20 * day)
        const young = old(root, day)
        const flags = ["--trim", "3 days", "--archive", "10 days"]
        const dry = read(Documents.Prune, yield* run(root, ["prune", ...flags, "--dry-run", "--json"]))
        assert.deepStrictEqual([dry.trimmed.map((each) => each.id), Archives.archives(root)], [[id], []])
        const done = yield* run(root, ["prune", ...flags, "--json"])
        const document = read(Documents.Prune, done)
        assert.deepStrictEqual([done.code, document.archived.map((each) => each.id)], [0, [id]])
        const expired = yield* run(root, ["prune", "--archive-max-age", "5 days", "--json"])
        assert.deepStrictEqual(read(Documents.Prune, expired).expired.map((each) => each.id), [id])
        assert.deepStrictEqual([Archives.archives(root), NFS.existsSync(young.dir)], [[], true])
      })
    ))
})
