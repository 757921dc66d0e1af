/**
 * The manifest of an archive: a line for everything in it, with sizes and hashes. It lies in the archive itself, in parts
 * between the entries, each part behind those that it tells of: so neither who writes nor who reads an archive has to
 * remember more than a part of it, and what was read can be compared as it comes.
 */
import * as NodeCrypto from "node:crypto"
import type { RunId } from "../RunId.ts"
import { type ArchiveEntry, type Heading, isUtf8, secondsText } from "./ArchiveEntry.ts"

/** So many lines has a part at the most. */
const linesPerPart = 500

/**
 * What is known of an archive at its end.
 *
 * @internal
 */
export interface Sums {
  readonly entries: number
  /** The lengths of all files together. */
  readonly bytes: number
}

const named = (key: string, bytes: Buffer) =>
  isUtf8(bytes) ? { [key]: bytes.toString() } : { [`${key}Base64`]: bytes.toString("base64") }

const lineOf = (entry: ArchiveEntry, sha256: string | undefined): string =>
  JSON.stringify({
    ...named("path", entry.path),
    kind: entry.kind,
    mode: entry.mode.toString(8).padStart(4, "0"),
    mtime: secondsText(entry.mtimeNanos),
    ...(entry.kind === "file" ? { bytes: entry.size, sha256 } : {}),
    ...(entry.target === undefined ? {} : named("target", entry.target))
  })

/**
 * Adds up what goes by, and says when a part is due. Who writes and who reads do the same, and so come to the same parts.
 *
 * @internal
 */
export const make = (id: RunId) => {
  const whole = NodeCrypto.createHash("sha256")
  let lines: Array<string> = []
  let parts = 0
  let entries = 0
  let bytes = 0
  const take = (last: ReadonlyArray<string>): Buffer => {
    const text = Buffer.from([...lines, ...last].map((line) => `${line}\n`).join(""))
    whole.update(text)
    lines = []
    parts++
    return text
  }
  return {
    add: (entry: ArchiveEntry, sha256: string | undefined) => {
      lines.push(lineOf(entry, sha256))
      entries++
      bytes += entry.size
    },
    isDue: () => lines.length >= linesPerPart,
    /** The part that is due, or the last one, which says that nothing follows. */
    part: () => take([]),
    last: () => take([JSON.stringify({ entries, bytes })]),
    /** Where the next part lies. */
    name: () => `${id}.manifest/${String(parts + 1).padStart(6, "0")}.jsonl`,
    sums: (): Sums => ({ entries, bytes }),
    /** Of all parts, once the last one is taken. */
    digest: () => whole.digest("hex")
  }
}

/** @internal */
export type Manifest = ReturnType<typeof make>

/** @internal */
export const isPart = (id: RunId, { name, type }: Heading): boolean =>
  type === "file" && name.startsWith(`${id}.manifest/`)

/**
 * More than a part can have: a line has a path and a target, and six characters for each byte of them that needs to be
 * escaped.
 *
 * @internal
 */
export const maxPartBytes = linesPerPart * 64 * 1024
