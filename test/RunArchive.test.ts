import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeNet from "node:net"
import * as RunArchive from "../src/RunArchive.ts"
import { isTerminal } from "../src/RunRecord.ts"
import { bothWays, withFiles } from "./fixtures/sweeps.ts"
import * as Trees from "./fixtures/trees.ts"
import * as Archives from "./support/Archives.ts"
import { names, recordAt } from "./support/CommandLine.ts"
import { everything } from "./support/Snapshot.ts"
import { directory } from "./support/Stores.ts"
import { filled, inStore } from "./support/Trims.ts"

const { refusal } = Archives

const bytes = (text: string, ...more: ReadonlyArray<number>) => Buffer.concat([Buffer.from(text), Buffer.from(more)])

/** Of everything that a program may leave behind something that is hard to give back. */
const plants: ReadonlyArray<readonly [string, (dir: string) => void]> = [
  ["no more than a record", () => {}],
  ["names of other bytes than UTF-8, and links to them", (dir) => {
    NFS.mkdirSync(bytes(`${dir}/odd`, 0xff, 0x0a))
    NFS.writeFileSync(bytes(`${dir}/odd`, 0xff, 0x0a, 0x2f, 0xfe), "x")
    NFS.symlinkSync(bytes("odd", 0xff, 0x0a), bytes(`${dir}/to`, 0xff))
    NFS.linkSync(bytes(`${dir}/odd`, 0xff, 0x0a, 0x2f, 0xfe), bytes(`${dir}/same`, 0xc3))
  }],
  ["names with newlines, quotes, backslashes, spaces at the end, and of 255 bytes", (dir) => {
    for (const name of ["a\nb", "\"q\"", "b\\c", " ", "x ", "-rf *", "ü", "\u0001", "=", "1 a=b\n", "😀"]) {
      NFS.writeFileSync(`${dir}/${name}`, name)
      NFS.mkdirSync(`${dir}/${name}.d`)
    }
    NFS.writeFileSync(`${dir}/${"n".repeat(255)}`, "x")
    NFS.symlinkSync("t".repeat(4000), `${dir}/${"l".repeat(255)}`)
  }],
  ["every mode that a file or a directory can have", (dir) => {
    for (const mode of [0, 0o1, 0o444, 0o555, 0o777, 0o1777, 0o2755, 0o4755, 0o7777]) {
      NFS.writeFileSync(`${dir}/file-${mode}`, "x")
      NFS.mkdirSync(`${dir}/dir-${mode}`)
      NFS.writeFileSync(`${dir}/dir-${mode}/x`, "x")
      for (const kind of ["file", "dir"]) NFS.chmodSync(`${dir}/${kind}-${mode}`, mode)
    }
  }],
  ["FIFOs with all sorts of names and modes", (dir) => {
    NFS.mkdirSync(`${dir}/deep`)
    for (const [index, mode] of [0, 0o600, 0o666, 0o1644, 0o4711].entries()) {
      Archives.fifo(`${dir}/fifo`)
      NFS.chmodSync(`${dir}/fifo`, mode)
      Archives.touch(`${dir}/fifo`, 1_000_000 + index)
      NFS.renameSync(`${dir}/fifo`, bytes(`${dir}/deep/`, 0xf0 + index))
    }
  }],
  ["times before 1970, beyond 2038 and between two seconds", (dir) => {
    for (const seconds of [-1.5, -0.25, -2_000_000_000.123456, 0, 0.000001, 1_764_511_953.123456, 5_000_000_000.5]) {
      NFS.writeFileSync(`${dir}/at ${seconds}`, "x")
      NFS.mkdirSync(`${dir}/dir at ${seconds}`)
      NFS.symlinkSync("x", `${dir}/link at ${seconds}`)
      for (const kind of ["", "dir ", "link "]) Archives.touch(`${dir}/${kind}at ${seconds}`, seconds)
    }
  }],
  ["files with several names, near and far", (dir) => {
    NFS.mkdirSync(`${dir}/a`)
    NFS.mkdirSync(`${dir}/z`)
    NFS.writeFileSync(`${dir}/m`, "many")
    for (const name of ["a/first", "z/last", "zz"]) NFS.linkSync(`${dir}/m`, `${dir}/${name}`)
    NFS.writeFileSync(`${dir}/z/two`, "")
    NFS.linkSync(`${dir}/z/two`, `${dir}/z/too`)
  }],
  ["links to nowhere, to itself, up and down", (dir) => {
    for (const [name, target] of [["up", ".."], ["self", "self"], ["none", "not/there"], ["down", "./up"]]) {
      NFS.symlinkSync(target!, `${dir}/${name}`)
    }
  }],
  ["a directory in a directory, 300 times, with a file in each", (dir) => Trees.well(`${dir}/well`, 300)],
  ["two thousand names in one directory", (dir) => void Trees.bush(`${dir}/bush`, 1, 2000)],
  ["as many names as make the last part of its manifest full", (dir) => void Trees.bush(`${dir}/bush`, 1, 991)],
  ["large files, sparse ones, and empty ones", (dir) => {
    const noise = Buffer.from(Array.from({ length: 70_001 }, (_, nth) => (nth * 7919) % 251))
    NFS.writeFileSync(`${dir}/large`, Buffer.concat(Array.from({ length: 20 }, () => noise)))
    for (const size of [0, 1, 511, 512, 513, 262_143, 262_144, 262_145]) {
      NFS.writeFileSync(`${dir}/of ${size}`, Buffer.alloc(size, size % 256))
    }
    NFS.writeFileSync(`${dir}/sparse`, "")
    NFS.truncateSync(`${dir}/sparse`, 8 << 20)
  }],
  ["directories that nothing may be put into", (dir) => {
    NFS.mkdirSync(`${dir}/a/b`, { recursive: true })
    NFS.writeFileSync(`${dir}/a/b/x`, "x")
    for (const path of ["a/b", "a"]) NFS.chmodSync(`${dir}/${path}`, 0o555)
  }]
]

describe("what was archived comes back as it was", () => {
  const roundTrip = (plant: (dir: string) => void) =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2, { size: 10_000 })
        plant(`${dir}/artifacts`)
        Archives.touch(dir, 1_700_000_000.5)
        const before = Archives.treeOf(dir)
        const record = NFS.readFileSync(`${dir}/run.json`)
        const archived = yield* RunArchive.archive(id)
        assert.isFalse(NFS.existsSync(dir))
        assert.deepStrictEqual(Archives.archives(each.root), [`${id}.tar.zst`])
        assert.strictEqual(archived.bytes, NFS.statSync(archived.path).size)
        assert.strictEqual(archived.entries, before.length)
        const restored = yield* RunArchive.restore(id)
        assert.strictEqual(restored.id, id)
        Archives.sameTree(Archives.treeOf(dir), before)
        assert.isTrue(record.equals(NFS.readFileSync(`${dir}/run.json`)))
        assert.deepStrictEqual(NFS.readdirSync(`${dir}/holders`), [])
        assert.strictEqual(NFS.statSync(`${dir}/lease`).size, 0)
        assert.deepStrictEqual([Archives.archives(each.root), names(`${each.root}/staging`)], [[], []])
        const liveness = yield* each.liveness(yield* each.get(id))
        assert.strictEqual(liveness._tag, "Dead")
      })
    )

  it.live.each(plants)("%s", ([_, plant]) => roundTrip(plant))

  it.live.each(bothWays)("through %s", ([_, files]) =>
    roundTrip((dir) => {
      for (const [name, plant] of plants.slice(1, 8)) {
        NFS.mkdirSync(`${dir}/${name.slice(0, 20)}`)
        plant(`${dir}/${name.slice(0, 20)}`)
      }
    }).pipe(withFiles(files)))

  it.live("without the sockets, which are counted", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1)
        const before = Archives.treeOf(dir)
        const server = NodeNet.createServer()
        yield* Effect.callback<void>((resume) => void server.listen(`${dir}/temp/s`, () => resume(Effect.void)))
        const time = before.find(({ name }) => name === "temp")!.mtimeNs
        Archives.touch(`${dir}/temp`, Number(time) / 1e9)
        assert.strictEqual((yield* RunArchive.archive(id)).omitted, 1)
        yield* RunArchive.restore(id)
        Archives.sameTree(Archives.treeOf(dir), before)
        yield* Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
      })
    ))

  it.live("without the temporary files of its record, and with what only looks like the store's own", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 0)
        for (const name of ["lease", "run.json", "run.json.draft-a1b2c3.tmp"]) {
          NFS.writeFileSync(`${dir}/temp/${name}`, name)
        }
        NFS.mkdirSync(`${dir}/temp/holders`)
        for (const name of ["holdersx", "run.json.backup.tmp"]) {
          NFS.writeFileSync(`${dir}/${name}`, "x")
        }
        Archives.touch(dir, 1_700_000_000)
        const before = Archives.treeOf(dir)
        NFS.writeFileSync(`${dir}/run.json.draft-a1b2c3.tmp`, "{")
        Archives.touch(dir, 1_700_000_000)
        yield* RunArchive.archive(id)
        yield* RunArchive.restore(id)
        Archives.sameTree(Archives.treeOf(dir), before)
      })
    ))

  it.live("again and again, and what comes back makes the same archive", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { id } = filled(each, 3, { size: 700_000 })
        const packed: Array<Buffer> = []
        for (let round = 0; round < 3; round++) {
          const { path } = yield* RunArchive.archive(id)
          packed.push(NFS.readFileSync(path))
          yield* RunArchive.restore(id)
        }
        assert.isTrue(packed[1]!.equals(packed[2]!))
      })
    ))

  it.live.skipIf(!Trees.can("zstd", "--version"))(
    "and can be read by the system's own tar",
    () =>
      inStore((each) =>
        Effect.gen(function*() {
          const { dir, id } = filled(each, 2)
          // It reads names of other bytes as text, and says that it does not know where they are kept.
          for (const [name, plant] of [...plants.slice(2, 4), ...plants.slice(5, 8)]) {
            NFS.mkdirSync(`${dir}/artifacts/${name.slice(0, 20)}`)
            plant(`${dir}/artifacts/${name.slice(0, 20)}`)
          }
          const before = Archives.treeOf(dir)
          const { entries, path } = yield* RunArchive.archive(id)
          const out = `${each.root}-out`
          NFS.mkdirSync(out)
          const tar = (...args: ReadonlyArray<string>) =>
            NodeChildProcess.spawnSync("tar", ["--zstd", ...args], { cwd: out, encoding: "utf8" })
          const listed = tar("--quoting-style=escape", "-tf", path)
          assert.deepStrictEqual([listed.status, listed.stderr], [0, ""])
          assert.strictEqual(listed.stdout.trim().split("\n").length, entries + 1)
          const unpacked = tar("--warning=no-timestamp", "-xpf", path)
          assert.deepStrictEqual([unpacked.status, unpacked.stderr], [0, ""])
          Archives.sameTree(Archives.treeOf(`${out}/${id}`), before)
          NFS.rmSync(out, { recursive: true })
        })
      )
  )
})

describe("what cannot be archived stays whole", () => {
  const stays: ReadonlyArray<readonly [string, (dir: string) => void, RegExp]> = [
    ...(Trees.isRoot
      ? [
        ["a device", (dir: string) => {
          NodeChildProcess.execFileSync("mknod", [`${dir}/null`, "c", "1", "3"])
        }, /^NotPackable: .*"temp\/null".*device/] as const
      ]
      : []),
    ["a path of more bytes than systems take", (dir) => {
      let here = `${dir}/deep`
      NFS.mkdirSync(here)
      const [first, ...rest] = Array.from({ length: 40 }, () => "d".repeat(120))
      NodeChildProcess.execFileSync("sh", [
        "-c",
        `cd "$0" && for d in "$@"; do mkdir "$d" && cd -P "$d"; done`,
        here,
        first!,
        ...rest
      ])
    }, /^NotPackable: .*its path has 4\d\d\d bytes/]
  ]
  it.live.each(stays)("%s in it", ([_, plant, expected]) =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 2)
        plant(`${dir}/temp`)
        assert.match(yield* refusal(RunArchive.archive(id)), expected)
        assert.deepStrictEqual([Archives.archives(each.root), names(`${each.root}/staging`)], [[], []])
        assert.isTrue(NFS.existsSync(`${dir}/run.json`))
        NodeChildProcess.execFileSync("rm", ["-rf", `${dir}/temp`])
      })
    ))

  it.live("one that is pinned, or that somebody works in, who is named", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const pinned = filled(each, 1, { pin: "a release" })
        const held = filled(each, 1)
        const before = everything(`${held.dir}/temp`)
        const why = new RegExp(`^Pinned: .*a release.*leasehold unpin ${pinned.id}$`)
        assert.match(yield* refusal(RunArchive.archive(pinned.id)), why)
        const working = Effect.scoped(Effect.andThen(each.resume(held.id), refusal(RunArchive.archive(held.id))))
        assert.match(yield* working, /^Held: .*in use by pid \d+ on .* \(owner\)$/)
        assert.deepStrictEqual(everything(`${held.dir}/temp`), before)
        assert.deepStrictEqual(yield* Stream.runCollect(RunArchive.list), [])
        assert.deepStrictEqual(Archives.archives(each.root), [])
      })
    ))

  it.live.skipIf(!Trees.canMount)(
    "one with a mount point in it",
    () =>
      inStore((each) =>
        Effect.scoped(Effect.gen(function*() {
          const { dir, id } = filled(each, 1)
          NFS.mkdirSync(`${dir}/artifacts/there`)
          yield* Trees.bind(`${dir}/temp`, `${dir}/artifacts/there`)
          assert.match(yield* refusal(RunArchive.archive(id)), /^NotPackable: .*artifacts\/there.*mounted/)
          assert.isTrue(NFS.existsSync(`${dir}/temp/0`))
        }))
      )
  )

  it.live.skipIf(process.platform !== "linux")(
    "what this user may not read, which is named; what is read-only is not that",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const place = yield* directory
        NFS.chmodSync(place, 0o777)
        const inChild = (shape: string) => {
          const args = [`${place}/${shape}`, shape]
          return Trees.inChild<Record<string, unknown>>("archive.ts", args, { unprivileged: true })
        }
        const unreadable = inChild("unreadable")
        assert.match(String(unreadable["archived"]), /artifacts\/closed\/x: permission denied/)
        const unlistable = inChild("unlistable")
        assert.match(String(unlistable["archived"]), /artifacts\/closed: permission denied/)
        for (const { isThere, staging } of [unreadable, unlistable]) {
          assert.deepStrictEqual([isThere, staging], [true, []])
        }
        const { archived, mode, restored, staging } = inChild("read-only")
        assert.deepStrictEqual([archived, restored, Number(mode) & 0o7777, staging], ["done", "done", 0o555, []])
      }))
  )

  it.live("brings a run that crashed to its end first", () =>
    inStore((each) =>
      Effect.gen(function*() {
        const { dir, id } = filled(each, 1, { status: "running" })
        yield* RunArchive.archive(id)
        const record = yield* Effect.flatMap(RunArchive.get(id), RunArchive.readRecord)
        assert.deepStrictEqual([record.status, isTerminal(record)], ["crashed", true])
        yield* RunArchive.restore(id)
        assert.strictEqual(recordAt(dir).status, "crashed")
      })
    ))
})
