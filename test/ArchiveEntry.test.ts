import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import * as TarStream from "tar-stream"
import {
  type ArchiveEntry,
  type EntryKind,
  faultOfPath,
  fromHeader,
  leadsOut,
  secondsText,
  toHeader
} from "../src/archive/ArchiveEntry.ts"
import * as RunId from "../src/RunId.ts"
import { directory } from "./support/Stores.ts"
import { at } from "./support/Time.ts"

const id = RunId.fromParts(at(Date.parse("2026-11-30T12:00:00.000Z")), [0, 1, 2, 3, 4, 5, 6, 7])

const bytes = (text: string) => Buffer.from(text, "latin1")

/** Writes a header and reads it back, as another program would find it. */
const throughTar = async (entry: ArchiveEntry) => {
  const pack = TarStream.pack()
  pack.entry(toHeader(id, entry), Buffer.alloc(entry.size))
  pack.finalize()
  const extract = TarStream.extract()
  pack.pipe(extract)
  for await (const { header } of extract) return header
  throw new Error("there is nothing in it")
}

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** Every byte but those that no name has. */
const Name = Arbitrary.map(
  Arbitrary.array(Arbitrary.schema(between(1, 255)), { minLength: 1, maxLength: 255 }),
  (all) => Buffer.from(all.map((byte) => byte === 0x2f ? 0x5f : byte))
)
const Path = Arbitrary.map(
  Arbitrary.array(Name, { minLength: 1, maxLength: 4 }),
  (names) => Buffer.concat(names.flatMap((name, index) => index === 0 ? [name] : [Buffer.from("/"), name]))
)

const Fields = Arbitrary.schema(Schema.Struct({
  kind: Schema.Literals(["file", "directory", "symlink", "link", "fifo"]),
  mode: between(0, 0o7777),
  seconds: between(-5_000_000_000, 20_000_000_000),
  nanos: between(0, 999_999_999),
  size: between(0, 2000)
}))

const made = (
  fields: {
    readonly kind: EntryKind
    readonly mode: number
    readonly seconds: number
    readonly nanos: number
    readonly size: number
  },
  path: Buffer,
  target: Buffer
): ArchiveEntry => ({
  kind: fields.kind,
  path,
  mode: fields.mode,
  mtimeNanos: BigInt(fields.seconds) * 1_000_000_000n + BigInt(fields.nanos),
  size: fields.kind === "file" ? fields.size : 0,
  target: fields.kind === "symlink" || fields.kind === "link" ? target : undefined
})

describe("headers", () => {
  it.effect.prop(
    "give back what was put into them, whatever bytes a name has",
    [Fields, Path, Path],
    ([fields, path, target]) =>
      Effect.gen(function*() {
        const entry = made(fields, path, target)
        const header = yield* Effect.promise(() => throughTar(entry))
        const read = fromHeader(id, header, { linksOut: true })
        if (faultOfPath(path) !== undefined || (entry.kind === "link" && faultOfPath(target) !== undefined)) {
          return assert.isTrue(Result.isFailure(read))
        }
        const { path: foundPath, target: foundTarget, ...found } = Result.getOrThrow(read)
        const { path: _1, target: _2, ...expected } = entry
        assert.deepStrictEqual(found, expected)
        assert.deepStrictEqual([foundPath.toString("hex"), foundTarget?.toString("hex")], [
          path.toString("hex"),
          entry.target?.toString("hex")
        ])
      }),
    { arbitrary: { runs: 200, seed: 5 } }
  )

  it.each<readonly [bigint, string]>([
    [0n, "0.000000000"],
    [1n, "0.000000001"],
    [-1n, "-0.000000001"],
    [-1_500_000_000n, "-1.500000000"],
    [1_764_511_953_123_456_789n, "1764511953.123456789"]
  ])("%s nanoseconds are %s", (nanos, text) => assert.strictEqual(secondsText(nanos), text))

  it("of the bundle itself lie in the place of the run", () => {
    const top = made(
      { kind: "directory", mode: 0o700, seconds: 5, nanos: 0, size: 0 },
      Buffer.alloc(0),
      Buffer.alloc(0)
    )
    const header = toHeader(id, top)
    assert.strictEqual(header.name, `${id}/`)
    assert.deepStrictEqual(Result.getOrThrow(fromHeader(id, header, { linksOut: false })).path.length, 0)
    assert.isTrue(Result.isFailure(fromHeader(id, { ...header, type: "file" }, { linksOut: false })))
  })

  it("without a time have that of the field, and a time that makes no sense is none", () => {
    const header = { name: `${id}/a`, type: "file", mode: 0o644, size: 0, mtime: new Date(5000) } as const
    const nanos = (pax: Record<string, string>) =>
      Result.getOrThrow(fromHeader(id, { ...header, pax }, { linksOut: false })).mtimeNanos
    assert.deepStrictEqual([nanos({}), nanos({ mtime: "7" }), nanos({ mtime: "7.25" })], [
      5_000_000_000n,
      7_000_000_000n,
      7_250_000_000n
    ])
    for (const mtime of ["", "x", "1e9", "--1", "1.", "Infinity"]) assert.strictEqual(nanos({ mtime }), 5_000_000_000n)
  })

  it.each(["character-device", "block-device", "contiguous-file", "pax-header", null])(
    "of a %s are refused",
    (type) => {
      const read = fromHeader(id, { name: `${id}/a`, type: type as "file", mode: 0, size: 0 }, { linksOut: true })
      assert.isTrue(Result.isFailure(read))
    }
  )
})

describe("paths", () => {
  it.each<readonly [string, RegExp | undefined]>([
    ["", undefined],
    ["a", undefined],
    ["a/b/c", undefined],
    ["run.json", undefined],
    ["leases", undefined],
    ["a/lease", undefined],
    ["a/holders/x", undefined],
    ["...", undefined],
    ["a/..b", undefined],
    [".hidden", undefined],
    ["a\\..\\b", undefined],
    ["n".repeat(255), undefined],
    ["/a", /absolute/],
    ["a//b", /empty part/],
    ["a/", /empty part/],
    ["/", /absolute/],
    ["..", /\. or \.\./],
    [".", /\. or \.\./],
    ["a/../b", /\. or \.\./],
    ["a/./b", /\. or \.\./],
    ["a/..", /\. or \.\./],
    ["a\0b", /NUL/],
    ["lease", /belongs to the store/],
    ["lease/x", /belongs to the store/],
    ["holders", /belongs to the store/],
    ["holders/x.json", /belongs to the store/],
    ["n".repeat(256), /256 bytes/],
    [`${"n".repeat(200)}/`.repeat(21), /its path has 4221 bytes/]
  ])("%j", (path, fault) => {
    const found = faultOfPath(bytes(path))
    if (fault === undefined) assert.isUndefined(found)
    else assert.match(String(found), fault)
  })
})

/** Where it leads in the end, if anywhere. */
const realOf = (path: string) => {
  try {
    return NFS.realpathSync(path)
  } catch {
    return undefined
  }
}

describe("links", () => {
  it.each<readonly [string, string, boolean]>([
    ["l", "x", false],
    ["l", "a/b", false],
    ["l", "./a", false],
    ["l", "a//b/", false],
    ["l", ".", false],
    ["l", "..", true],
    ["l", "../x", true],
    ["l", "./../x", true],
    ["l", "a/..", true],
    ["l", "a/../b", true],
    ["l", "/a", true],
    ["l", "/", true],
    ["a/l", "..", false],
    ["a/l", "../x", false],
    ["a/l", "../..", true],
    ["a/l", ".././x", false],
    ["a/l", "../x/..", true],
    ["a/b/l", "../../x", false],
    ["a/b/l", "../../../x", true],
    ["a/l", "..b", false],
    ["a/l", "...", false]
  ])("at %s to %s", (path, target, out) => assert.strictEqual(leadsOut(bytes(path), bytes(target)), out))

  const Part = Schema.Literals(["a", "b", "c", "..", "..", "."])
  const Links = Arbitrary.array(
    Arbitrary.schema(
      Schema.Struct({
        place: between(0, 9),
        name: Schema.Literals(["a", "b", "c", "d"]),
        target: Schema.NonEmptyArray(Part)
      })
    ),
    { minLength: 1, maxLength: 12 }
  )
  const places = ["", "a", "b", "a/a", "a/b", "b/a", "a/b/c", "a/b/c/d", "b/c", "c"]

  it.live.prop(
    "that are judged to stay inside lead nowhere else, in whatever tree, one behind another",
    [Links],
    ([links]) =>
      Effect.scoped(Effect.gen(function*() {
        const top = NFS.realpathSync(yield* directory)
        const bundle = `${top}/x/y/bundle`
        NFS.mkdirSync(bundle, { recursive: true })
        for (const place of places) NFS.mkdirSync(`${bundle}/${place}`, { recursive: true })
        const isFree = (path: string) => NFS.lstatSync(path, { throwIfNoEntry: false }) === undefined
        const judged: Array<string> = []
        for (const { name, place, target } of links) {
          const path = NodePath.posix.join(places[place] ?? "", `${name}-link`)
          // Targets run through links as well as through directories.
          const to = target.map((part, index) =>
            index % 2 === 1 && part.length === 1 && part !== "." ? `${part}-link` : part
          ).join("/")
          if (leadsOut(bytes(path), bytes(to)) || !isFree(`${bundle}/${path}`)) continue
          NFS.symlinkSync(to, `${bundle}/${path}`)
          judged.push(path)
        }
        for (const path of judged) {
          const real = realOf(`${bundle}/${path}`)
          assert.isTrue(
            real === undefined || real === bundle || real.startsWith(`${bundle}/`),
            `${path} leads to ${real}`
          )
        }
      })),
    { arbitrary: { runs: 300, seed: 3 } }
  )
})
