/** Runs to be archived, what is in them by the files, and archives that nobody should unpack. */
import { assert } from "@effect/vitest"
import * as Result from "effect/Result"
import * as NodeChildProcess from "node:child_process"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as NodeZlib from "node:zlib"
import * as TarStream from "tar-stream"
import { fromHeader } from "../../src/archive/ArchiveEntry.ts"
import * as Manifest from "../../src/archive/Manifest.ts"
import * as RunId from "../../src/RunId.ts"

/** A name below a bundle, each byte of it one character. */
interface Thing {
  readonly name: string
  readonly what: string
  readonly mtimeNs: bigint
}

const latin1 = (bytes: Buffer) => bytes.toString("latin1")

const path = (dir: string, name: string) =>
  name === "" ? Buffer.from(dir) : Buffer.concat([Buffer.from(`${dir}/`), Buffer.from(name, "latin1")])

const kindOf = (stats: NFS.BigIntStats) =>
  stats.isFile()
    ? "file"
    : stats.isDirectory()
    ? "directory"
    : stats.isSymbolicLink()
    ? "link"
    : stats.isFIFO()
    ? "fifo"
    : "other"

/** Everything in a bundle but what is new in it each time, with all that an archive is to give back. */
export const treeOf = (dir: string): ReadonlyArray<Thing> => {
  const things: Array<Thing> = []
  const firstNames = new Map<bigint, string>()
  const waiting = [""]
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (name === "lease" || name === "holders") continue
    const there = path(dir, name)
    const stats = NFS.lstatSync(there, { bigint: true })
    const kind = kindOf(stats)
    const what = [kind, (stats.mode & 0o7777n).toString(8)]
    if (kind === "file") {
      const first = firstNames.get(stats.ino) ?? name
      firstNames.set(stats.ino, first)
      what.push(`${stats.size}`, sha256(NFS.readFileSync(there)))
      if (stats.nlink > 1n) what.push(`is ${first}`)
    }
    if (kind === "link") what.push(latin1(NFS.readlinkSync(there, "buffer")))
    things.push({ name, what: what.join(" "), mtimeNs: stats.mtimeNs })
    if (kind !== "directory") continue
    const names = (NFS.readdirSync(there, "buffer") as ReadonlyArray<Buffer>).map(latin1).sort()
    waiting.push(...names.toReversed().map((each) => name === "" ? each : `${name}/${each}`))
  }
  return things
}

/** Of times no more is asked for than that they are the same to a microsecond. */
export const sameTree = (found: ReadonlyArray<Thing>, expected: ReadonlyArray<Thing>): void => {
  const plain = (things: ReadonlyArray<Thing>) => things.map(({ name, what }) => `${name} ${what}`)
  assert.deepStrictEqual(plain(found), plain(expected))
  for (const [index, { mtimeNs, name }] of found.entries()) {
    const apart = Number(mtimeNs - expected[index]!.mtimeNs)
    assert.isAtMost(Math.abs(apart), 1000, `the time of ${name}`)
  }
}

export const fifo = (path: string): void => void NodeChildProcess.execFileSync("mkfifo", [path])

/** Sets the time of a name itself, to as much as node can. */
export const touch = (path: string | Buffer, seconds: number): void => {
  NFS.lutimesSync(path, String(seconds), String(seconds))
}

/** Why nothing came of it. */
export { refusal } from "./Trims.ts"

export const pathOf = (root: string, id: RunId.RunId): string => `${root}/archive/${RunId.day(id)}/${id}.tar.zst`

const isDirectory = (path: string) => NFS.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** The names of all archives and of whatever else lies there. */
export const archives = (root: string): ReadonlyArray<string> =>
  isDirectory(`${root}/archive`)
    ? NFS.readdirSync(`${root}/archive`).sort().flatMap((day) =>
      NFS.readdirSync(`${root}/archive/${day}`).filter((name) => name.endsWith(".tar.zst")).sort()
    )
    : []

// == made by hand

/** A header and what comes after it, as the archive is to have them, whatever sense they make. */
export interface Entry extends Partial<TarStream.Header> {
  readonly name: string
  readonly content?: string | Buffer
}

/** The bytes of a tar with these entries. */
export const tarOf = (entries: ReadonlyArray<Entry>): Promise<Buffer> => {
  const pack = TarStream.pack()
  for (const { content, ...header } of entries) {
    if (content === undefined) pack.entry(header)
    else pack.entry(header, content)
  }
  pack.finalize()
  return collect(pack)
}

const collect = async (stream: AsyncIterable<unknown>) => {
  const pieces: Array<Buffer> = []
  for await (const piece of stream) pieces.push(piece as Buffer)
  return Buffer.concat(pieces)
}

/** What an archive holds, one entry after another, so that they can be changed and packed again. */
export const entriesOf = async (archive: string): Promise<Array<Entry>> => {
  const extract = TarStream.extract()
  extract.end(NodeZlib.zstdDecompressSync(NFS.readFileSync(archive)))
  const entries: Array<Entry> = []
  for await (const entry of extract) {
    const content = await collect(entry)
    entries.push({ ...entry.header, content })
  }
  return entries
}

export const compress = (tar: Buffer): Buffer => NodeZlib.zstdCompressSync(tar)

/** These entries and a manifest that says just what they are, as somebody makes it who knows how. */
export const forged = (id: RunId.RunId, entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
  const manifest = Manifest.make(id)
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? "")
    const read = fromHeader(id, { ...entry, size: content.length }, { linksOut: true })
    if (Result.isFailure(read)) continue
    manifest.add(read.success, read.success.kind === "file" ? sha256(content) : undefined)
  }
  const name = manifest.name()
  return [...entries, { name, type: "file", mode: 0o600, mtime: new Date(0), content: manifest.last() }]
}

export const sha256 = (bytes: Buffer): string => NodeCrypto.createHash("sha256").update(bytes).digest("hex")

/** Puts bytes in the place of the archive of a run. */
export const put = (root: string, id: RunId.RunId, bytes: Buffer): string => {
  const path = pathOf(root, id)
  NFS.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true, mode: 0o700 })
  NFS.writeFileSync(path, bytes, { mode: 0o600 })
  return path
}
