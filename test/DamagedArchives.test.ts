import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodeZlib from "node:zlib"
import * as RunArchive from "../src/RunArchive.ts"
import { RunStore } from "../src/RunStore.ts"
import * as Trees from "./fixtures/trees.ts"
import * as Archives from "./support/Archives.ts"
import { base, file, inPlace, isRefused, pack, type Place } from "./support/Hostile.ts"
import { inStore } from "./support/Stores.ts"
import { filled } from "./support/Trims.ts"

type Entry = Archives.Entry

/** A number from 0 on below another, the same each time. */
const random = (seed: number) => {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor(state / 2 ** 32 * below)
  }
}

/** More files than one part of a manifest tells of. */
const many = 300

/** An archive as this program makes it. */
const genuine = ({ each, id, record }: Place, files = many) =>
  Effect.gen(function*() {
    const dir = each.dir(id)
    NFS.mkdirSync(`${dir}/holders`, { recursive: true, mode: 0o700 })
    NFS.writeFileSync(`${dir}/lease`, "")
    NFS.writeFileSync(`${dir}/run.json`, record)
    Trees.bush(`${dir}/bush`, 2, files)
    NFS.writeFileSync(`${dir}/noise`, Buffer.from(Array.from({ length: 20_000 }, random(1).bind(undefined, 256))))
    const tree = Archives.treeOf(dir)
    const { path } = yield* RunArchive.archive(id)
    NFS.rmSync(`${each.root}/trash`, { recursive: true })
    return { tree, bytes: NFS.readFileSync(path), path }
  })

const isPart = ({ name }: Entry) => name.includes(".manifest/")

describe("what is damaged is refused, and stays where it is", () => {
  it.live("cut off anywhere", () =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { bytes } = yield* genuine(place, 3)
        const lengths = [
          0,
          1,
          3,
          4,
          5,
          18,
          100,
          bytes.length >> 1,
          bytes.length - 5,
          bytes.length - 4,
          bytes.length - 1
        ]
        for (const length of lengths) yield* isRefused(place, bytes.subarray(0, length), /^Corrupt: .* is damaged: /)
      })
    ))

  it.live("with a bit that is another, anywhere", () =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { bytes, path, tree } = yield* genuine(place, 3)
        const next = random(7)
        let refused = 0
        for (let round = 0; round < 60; round++) {
          const flipped = Buffer.from(bytes)
          // The first bytes say how all others are to be read.
          flipped[round < 12 ? round : next(bytes.length)]! ^= 1 << next(8)
          NFS.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true })
          NFS.writeFileSync(path, flipped)
          const exit = yield* Effect.exit(RunArchive.restore(place.id))
          if (exit._tag === "Failure") {
            refused++
            yield* isRefused(place, flipped, /^(Corrupt|Unsafe): /)
            continue
          }
          // Not every bit of such a file means something.
          Archives.sameTree(Archives.treeOf(place.each.dir(place.id)), tree)
          NFS.rmSync(`${place.each.root}/runs`, { recursive: true })
        }
        assert.isAtLeast(refused, 55)
      })
    ))

  it.live.each<readonly [string, (bytes: Buffer) => Buffer]>([
    ["bytes", (bytes) => Buffer.concat([bytes, Buffer.from("garbage")])],
    ["zeros", (bytes) => Buffer.concat([bytes, Buffer.alloc(512)])],
    ["so many bytes that they are read by themselves", (bytes) => Buffer.concat([bytes, Buffer.alloc(600_000, 7)])],
    ["another archive", (bytes) => Buffer.concat([bytes, bytes])],
    ["something compressed", (bytes) => Buffer.concat([bytes, Archives.compress(Buffer.from("more"))])]
  ])("with %s after its end", ([_, damage]) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { bytes } = yield* genuine(place, 3)
        yield* isRefused(place, damage(bytes), /^Corrupt: /)
      })
    ))

  it.live.each<readonly [string, (tar: Buffer) => Buffer]>([
    ["nothing at all", () => Buffer.alloc(0)],
    ["text", () => Buffer.from("not compressed at all, and longer than a header of tar would be".repeat(20))],
    ["zeros", () => Buffer.alloc(10_240)],
    ["a tar that is not compressed", (tar) => tar],
    ["a tar that gzip has compressed", (tar) => NodeZlib.gzipSync(tar)],
    ["text that is compressed", () => Archives.compress(Buffer.from("text".repeat(1000)))],
    ["zeros that are compressed", () => Archives.compress(Buffer.alloc(100_000))],
    ["nothing that is compressed", () => Archives.compress(Buffer.alloc(0))]
  ])("%s in its place", ([_, make]) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const tar = yield* Effect.promise(() => Archives.tarOf(Archives.forged(place.id, base(place))))
        yield* isRefused(place, make(tar), /^Corrupt: /)
        const told = yield* Archives.refusal(Effect.flatMap(RunArchive.get(place.id), RunArchive.readRecord))
        assert.match(told, /^Corrupt: /)
      })
    ))

  const changed = (change: (place: Place, entries: ReadonlyArray<Entry>) => ReadonlyArray<Entry>, expected: RegExp) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { path } = yield* genuine(place)
        const entries = yield* Effect.promise(() => Archives.entriesOf(path))
        assert.strictEqual(entries.filter(isPart).length, 2)
        yield* isRefused(place, yield* pack(change(place, entries)), expected)
      })
    )

  const swapped = (entries: ReadonlyArray<Entry>, left: number, right: number) =>
    entries.map((entry, index) => index === left ? entries[right]! : index === right ? entries[left]! : entry)

  it.live.each<readonly [string, (place: Place, entries: ReadonlyArray<Entry>) => ReadonlyArray<Entry>, RegExp]>([
    [
      "without a manifest",
      (_, entries) => entries.filter((entry) => !isPart(entry)),
      /^Corrupt: .*manifest is out of order/
    ],
    ["without the first part of it", (_, entries) => {
      const first = entries.findIndex(isPart)
      return entries.filter((_, index) => index !== first)
    }, /^Corrupt: .*manifest is out of order/],
    [
      "with no part where the first is due, and what comes then refused already",
      (_, entries) => {
        const first = entries.findIndex(isPart)
        return [...entries.slice(0, first), file("elsewhere"), ...entries.slice(first)]
      },
      /^Corrupt: .*manifest is out of order/
    ],
    ["without its last part", (_, entries) => entries.slice(0, -1), /^Corrupt: .*ends before its manifest/],
    [
      "with its parts the other way round",
      (_, entries) => swapped(entries, entries.findIndex(isPart), entries.length - 1),
      /^Corrupt: .*manifest is out of order/
    ],
    [
      "with a part that is cut",
      (_, entries) =>
        entries.map((entry, index) =>
          index === entries.length - 1
            ? { ...entry, content: (entry.content as Buffer).subarray(0, -20), size: 0 }
            : entry
        ),
      /^Corrupt: .*its manifest says/
    ],
    ["with a part that says something else", (_, entries) =>
      entries.map((entry) =>
        isPart(entry)
          ? { ...entry, content: entry.content!.toString().replaceAll("\"kind\":\"file\"", "\"kind\":\"fifo\"") }
          : entry
      ), /^Corrupt: .*its manifest says/],
    [
      "with a part too large to be one",
      (_, entries) => entries.map((entry) => isPart(entry) ? { ...entry, content: Buffer.alloc(70 << 20) } : entry),
      /^Corrupt: .*manifest is too large/
    ],
    [
      "with a file that is another",
      (_, entries) => entries.map((entry) => entry.name.endsWith("/noise") ? { ...entry, content: "other" } : entry),
      /^Corrupt: .*noise/
    ],
    [
      "with a file that has another mode",
      (_, entries) => entries.map((entry) => entry.name.endsWith("/noise") ? { ...entry, mode: 0o4755 } : entry),
      /^Corrupt: .*noise/
    ],
    [
      "with a file that has another time",
      (_, entries) =>
        entries.map((entry) => entry.name.endsWith("/noise") ? { ...entry, pax: { mtime: "5.5" } } : entry),
      /^Corrupt: .*noise/
    ],
    [
      "without one of its files",
      (_, entries) => entries.filter(({ name }) => !name.endsWith("/noise")),
      /^Corrupt: .*"entries"/
    ],
    ["with one more file", ({ id }, entries) => [
      ...entries.slice(0, 2),
      file(`${id}/more`),
      ...entries.slice(2)
    ], /^Corrupt: /],
    ["with two files the other way round", (_, entries) => swapped(entries, 5, 6), /^Corrupt: /],
    [
      "with a file after its end",
      ({ id }, entries) => [...entries, file(`${id}/late`)],
      /^Corrupt: .*late\\?".* comes after its end/
    ],
    ["with one more part after its end", ({ id }, entries) => [
      ...entries,
      file(`${id}.manifest/000003.jsonl`, "{\"entries\":0,\"bytes\":0}\n")
    ], /^Corrupt: .*comes after its end/],
    [
      "with a size that is far beyond it",
      (_, entries) =>
        entries.map((entry) => entry.name.endsWith("/noise") ? { ...entry, pax: { size: "9000000000000" } } : entry),
      /^Corrupt: .*[Uu]nexpected end/
    ],
    [
      "with a size that is none",
      (_, entries) => entries.map((entry) => entry.name.endsWith("/noise") ? { ...entry, pax: { size: "-5" } } : entry),
      /^Corrupt: .*Invalid header/
    ]
  ])("%s", ([_, change, expected]) => changed(change, expected))
})

describe("names and targets as long as they may be", () => {
  it.live.skipIf(process.platform !== "linux")(
    "fit into a manifest, whatever they are made of",
    () =>
      inStore(() =>
        Effect.gen(function*() {
          const each = yield* RunStore
          const { dir, id } = filled(each, 0)
          const deep = Array.from({ length: 15 }, () => "\u0001".repeat(250)).join("/")
          const anchor = 0o10000000 | NFS.constants.O_DIRECTORY
          let fd = NFS.openSync(dir, anchor)
          for (const part of deep.split("/")) {
            NFS.mkdirSync(`/proc/self/fd/${fd}/${part}`, { recursive: true })
            const next = NFS.openSync(`/proc/self/fd/${fd}/${part}`, anchor)
            NFS.closeSync(fd)
            fd = next
          }
          for (let nth = 0; nth < 520; nth++) NFS.symlinkSync("\u0001".repeat(4000), `/proc/self/fd/${fd}/${nth}`)
          NFS.closeSync(fd)
          const { entries } = yield* RunArchive.archive(id)
          yield* RunArchive.restore(id)
          assert.isAbove(entries, 530)
        })
      )
  )
})
