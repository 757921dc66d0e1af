import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as Archives from "./support/Archives.ts"
import { base, directory, file, inPlace, isRefused, link, pack, type Place, symlink } from "./support/Hostile.ts"

const { refusal } = Archives
type Entry = Archives.Entry

describe("what is forged to lead out of its place", () => {
  type Case = readonly [string, (place: Place) => ReadonlyArray<Entry>, RegExp]

  const cases: ReadonlyArray<Case> = [
    ["an absolute path", ({ outside }) => [file(`${outside}/evil`)], /^Unsafe: .*outside\/evil.*absolute path/],
    [
      "an absolute path below the run",
      ({ id, outside }) => [file(`${id}/${outside}/evil`)],
      /^Unsafe: .*absolute path/
    ],
    ["a path that goes up", ({ id }) => [file(`${id}/../../evil`)], /^Unsafe: .*\.\..*\. or \.\./],
    ["a path that goes up and comes back", ({ id }) => [file(`${id}/a/../run.json`)], /^Unsafe: .*\. or \.\./],
    ["a path of another run", ({ id }) => [file(`${id}x/evil`)], /^Unsafe: .*does not lie below/],
    ["a path of no run", () => [file("evil")], /^Unsafe: .*"evil": it does not lie below/],
    ["a path that says another in its pax record", ({ id, outside }) => [
      { ...file(`${id}/a/plain`), pax: { "LEASEHOLD.path": Buffer.from(`${outside}/evil`).toString("base64") } }
    ], /^Unsafe: .*absolute path/],
    ["a pax record that goes up", ({ id }) => [
      { ...file(`${id}/a/plain`), pax: { "LEASEHOLD.path": Buffer.from("a/../../evil").toString("base64") } }
    ], /^Unsafe: .*\. or \.\./],
    ["a NUL in a pax record", ({ id }) => [
      { ...file(`${id}/a/plain`), pax: { "LEASEHOLD.path": Buffer.from("a/b\0c").toString("base64") } }
    ], /^Unsafe: .*NUL/],
    [
      "a link to an absolute path",
      ({ id, outside }) => [symlink(`${id}/a/l`, outside)],
      /^Unsafe: .*leads out, to \/.*--links-out/
    ],
    [
      "a link up out of the run",
      ({ id }) => [symlink(`${id}/a/l`, "../../x")],
      /^Unsafe: .*leads out, to \.\.\/\.\.\/x/
    ],
    ["a link that winds through one before it", ({ id }) => [
      directory(`${id}/a/b/`),
      symlink(`${id}/a/up`, "b"),
      symlink(`${id}/a/l`, "up/../../../x")
    ], /^Unsafe: .*leads out, to up/],
    ["a link whose pax record leads out", ({ id }) => [
      { ...symlink(`${id}/a/l`, "f"), pax: { "LEASEHOLD.linkpath": Buffer.from("/etc").toString("base64") } }
    ], /^Unsafe: .*leads out, to \/etc/],
    ["a file behind a link that was made before", ({ id }) => [
      symlink(`${id}/a/l`, ".."),
      file(`${id}/a/l/evil`)
    ], /^Unsafe: .*a\/l\/evil.*directory it lies in is not there/],
    ["a directory in the place of a link, and a file in it", ({ id }) => [
      symlink(`${id}/a/l`, ".."),
      directory(`${id}/a/l/`),
      file(`${id}/a/l/evil`)
    ], /^Unsafe: .*its name comes twice/],
    [
      "another name of a file outside",
      ({ id, outside }) => [link(`${id}/a/l`, `${outside}/canary`)],
      /^Unsafe: .*leads out/
    ],
    ["another name of what lies above", ({ id }) => [link(`${id}/a/l`, `${id}/../x`)], /^Unsafe: .*\. or \.\./],
    ["another name of a link", ({ id }) => [
      symlink(`${id}/a/s`, "f"),
      link(`${id}/a/l`, `${id}/a/s`)
    ], /^Unsafe: .*a\/l.*link to a link/],
    ["another name of a directory", ({ id }) => [link(`${id}/a/l`, `${id}/a`)], /^Unsafe: .*link to a directory/],
    ["another name of the run", ({ id }) => [link(`${id}/a/l`, `${id}/`)], /^Unsafe: .*it links a directory/],
    [
      "another name of what is not there",
      ({ id }) => [link(`${id}/a/l`, `${id}/a/none`)],
      /^Unsafe: .*a\/l.*not there/
    ],
    ["another name of what lies behind a link", ({ id }) => [
      symlink(`${id}/a/s`, ".."),
      link(`${id}/a/t`, `${id}/a/s/run.json`)
    ], /^Unsafe: .*a\/t.*not there/],
    ["another name of the lease", ({ id }) => [link(`${id}/a/l`, `${id}/lease`)], /^Unsafe: .*belongs to the store/],
    ["a device", ({ id }) => [
      { ...file(`${id}/a/null`), type: "character-device", devmajor: 1, devminor: 3, content: "" }
    ], /^Unsafe: .*a\/null.*character-device/],
    [
      "a block device",
      ({ id }) => [{ ...file(`${id}/a/sda`), type: "block-device", content: "" }],
      /^Unsafe: .*block-device/
    ],
    ["a name of 5,000 bytes", ({ id }) => [file(`${id}/a/${"n".repeat(5000)}`)], /^Unsafe: .*its path has 5002 bytes/],
    ["a name of 256 bytes", ({ id }) => [file(`${id}/a/${"n".repeat(256)}`)], /^Unsafe: .*a name in it has 256 bytes/],
    [
      "a path of 5,000 bytes",
      ({ id }) => [file(`${id}/a/${"n/".repeat(2500)}x`)],
      /^Unsafe: .*its path has 5003 bytes/
    ],
    ["a target of 5,000 bytes", ({ id }) => [symlink(`${id}/a/l`, "t".repeat(5000))], /^Unsafe: .*its target is none/],
    ["a link that says nothing", ({ id }) => [
      { ...symlink(`${id}/a/l`, "x"), pax: { "LEASEHOLD.linkpath": "" } }
    ], /^Unsafe: .*its target is none/],
    ["a file that comes twice", ({ id }) => [file(`${id}/a/f`, "other")], /^Unsafe: .*a\/f.*its name comes twice/],
    ["a directory that comes twice", ({ id }) => [directory(`${id}/a/`)], /^Unsafe: .*its name comes twice/],
    ["a link in the place of a file", ({ id }) => [symlink(`${id}/a/f`, "x")], /^Unsafe: .*its name comes twice/],
    ["a FIFO in the place of a file", ({ id }) => [
      { ...file(`${id}/a/f`), type: "fifo", content: "" }
    ], /^Unsafe: .*its name comes twice/],
    [
      "another name in the place of a file",
      ({ id }) => [link(`${id}/a/f`, `${id}/run.json`)],
      /^Unsafe: .*its name comes twice/
    ],
    ["a file in the place of a directory", ({ id }) => [file(`${id}/a`)], /^Unsafe: .*its name comes twice/],
    ["a directory that was left and comes again", ({ id }) => [
      directory(`${id}/b/`),
      file(`${id}/a/late`)
    ], /^Unsafe: .*a\/late.*directory it lies in is not there/],
    [
      "a file without its directory",
      ({ id }) => [file(`${id}/none/f`)],
      /^Unsafe: .*directory it lies in is not there/
    ],
    ["a lease", ({ id }) => [file(`${id}/lease`)], /^Unsafe: .*lease.*belongs to the store/],
    [
      "a holder",
      ({ id }) => [directory(`${id}/holders/`), file(`${id}/holders/x.json`)],
      /^Unsafe: .*belongs to the store/
    ],
    ["a holder in a pax record", ({ id }) => [
      { ...file(`${id}/a/x`), pax: { "LEASEHOLD.path": Buffer.from("holders/x.json").toString("base64") } }
    ], /^Unsafe: .*belongs to the store/],
    ["a file in the place of the run", ({ id }) => [file(`${id}`)], /^Unsafe: .*in the place of the bundle/],
    ["the run once more", ({ id }) => [directory(`${id}/`)], /^Corrupt: .*does not begin with the directory/]
  ]
  it.live.each(cases)("%s", ([_, more, expected]) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const entries = Archives.forged(place.id, [...base(place), ...more(place)])
        yield* isRefused(place, yield* pack(entries), expected)
        // Only links of their own may lead out, and only where somebody says so.
        const mayBeMeant = /leads out, to/.test(String(expected)) && !/another/.test(_)
        if (!mayBeMeant) yield* isRefused(place, yield* pack(entries), expected, { linksOut: true })
      })
    ))

  it.live("links out come back as links where that is meant, and nothing is followed", () =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { each, id, outside } = place
        const links = [
          symlink(`${id}/a/abs`, outside),
          symlink(`${id}/a/up`, "../../../../x"),
          symlink(`${id}/a/way`, "abs/../x")
        ]
        Archives.put(each.root, id, yield* pack(Archives.forged(id, [...base(place), ...links])))
        assert.match(yield* refusal(RunArchive.restore(id)), /^Unsafe: .*--links-out/)
        yield* RunArchive.restore(id, { linksOut: true })
        const there = (name: string) => NFS.readlinkSync(`${each.dir(id)}/a/${name}`)
        assert.deepStrictEqual(["abs", "up", "way"].map(there), [outside, "../../../../x", "abs/../x"])
      })
    ))

  it.live("links out do not lead what comes after them, either", () =>
    inPlace((place) =>
      Effect.gen(function*() {
        const { id, outside } = place
        const entries = [...base(place), symlink(`${id}/a/abs`, outside), file(`${id}/a/abs/evil`)]
        const expected = /^Unsafe: .*a\/abs\/evil.*directory it lies in is not there/
        yield* isRefused(place, yield* pack(Archives.forged(id, entries)), expected, { linksOut: true })
        const canary = [...base(place), symlink(`${id}/a/abs`, outside), link(`${id}/a/mine`, `${id}/a/abs/canary`)]
        yield* isRefused(place, yield* pack(Archives.forged(id, canary)), /^Unsafe: .*a\/mine.*not there/, {
          linksOut: true
        })
      })
    ))
})

describe("a record that is not the run's", () => {
  it.live.each<readonly [string, (place: Place) => string | undefined, RegExp]>([
    [
      "of another run",
      ({ id, record }) => record.replaceAll(id, `${id.slice(0, -1)}0`),
      /^Corrupt: .*its record is that of/
    ],
    ["of one that is at work", ({ record }) => record.replace(`"status":"ok"`, `"status":"running"`), /^Corrupt: /],
    ["of a newer version", ({ record }) => record.replace(`"version":1`, `"version":7`), /^NewerVersion: .*version 7/],
    ["no record", () => "{", /^Corrupt: /],
    ["missing", () => undefined, /^Corrupt: .*run\.json/]
  ])("%s", ([_, change, expected]) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const changed = change(place)
        const [top, , ...rest] = base(place)
        const record = changed === undefined ? [] : [file(`${place.id}/run.json`, changed)]
        yield* isRefused(place, yield* pack(Archives.forged(place.id, [top!, ...record, ...rest])), expected)
      })
    ))

  it.live.each<readonly [string, (id: RunId) => Entry]>([
    ["a link", (id) => symlink(`${id}/run.json`, "a/f")],
    ["a directory", (id) => directory(`${id}/run.json/`)],
    ["a FIFO", (id) => ({ ...file(`${id}/run.json`), type: "fifo", content: "" })]
  ])("%s in its place", ([_, instead]) =>
    inPlace((place) =>
      Effect.gen(function*() {
        const [top, , ...rest] = base(place)
        const entries = Archives.forged(place.id, [top!, instead(place.id), ...rest])
        yield* isRefused(place, yield* pack(entries), /^Corrupt: /)
        const told = yield* refusal(Effect.flatMap(RunArchive.get(place.id), RunArchive.readRecord))
        assert.match(told, /^Corrupt: .*first file is no run\.json/)
      })
    ))
})
