/**
 * What an archive holds, one thing after another, as headers of tar: how it is written, and what of it may be unpacked.
 *
 * Everything lies below one directory that is named by the run. Names are bytes: where they are no UTF-8, the header has
 * a reading of them for other programs and the bytes themselves in a pax record of ours.
 */
import * as Result from "effect/Result"
import type { Header } from "tar-stream"
import type { RunId } from "../RunId.ts"

/** @internal */
export type EntryKind = "file" | "directory" | "symlink" | "link" | "fifo"

/** @internal */
export interface ArchiveEntry {
  readonly kind: EntryKind
  /** Below the bundle, with slashes between; empty for the bundle itself. */
  readonly path: Buffer
  /** Permissions, with the bits for set-id and sticky. */
  readonly mode: number
  readonly mtimeNanos: bigint
  /** The length of the content, 0 for everything but files. */
  readonly size: number
  /** What a symbolic link says, or the path in the bundle of the file that a hard link is another name of. */
  readonly target: Buffer | undefined
}

/**
 * Why something of an archive must not be unpacked.
 *
 * @internal
 */
export interface Refusal {
  readonly name: string
  readonly why: string
}

/**
 * A header as it is written: what is not said is nothing.
 *
 * @internal
 */
export type Heading = Partial<Header> & Pick<Header, "name">

const pathKey = "LEASEHOLD.path"
const targetKey = "LEASEHOLD.linkpath"

/** What every system can name in one step, and in a whole path. */
const maxName = 255
const maxPath = 4096

const slash = 0x2f

// == names

/** @internal */
export const isUtf8 = (bytes: Buffer): boolean => Buffer.from(bytes.toString()).equals(bytes)

const partsOf = (path: Buffer): ReadonlyArray<Buffer> => {
  const parts: Array<Buffer> = []
  for (let start = 0; start <= path.length;) {
    const found = path.indexOf(slash, start)
    const end = found === -1 ? path.length : found
    parts.push(path.subarray(start, end))
    start = end + 1
  }
  return parts
}

const isDots = (part: Buffer) => part.equals(Buffer.from("..")) || part.equals(Buffer.from("."))

/** A restored bundle gets a lease of its own, and nobody held it while it was archived. */
const ofTheStore: ReadonlySet<string> = new Set(["lease", "holders"])

/**
 * Why a path below a bundle is none that may be written to, if so.
 *
 * @internal
 */
export const faultOfPath = (path: Buffer): string | undefined => {
  if (path.length === 0) return undefined
  if (path.length > maxPath) return `its path has ${path.length} bytes`
  if (path.includes(0)) return "its name has a NUL in it"
  const parts = partsOf(path)
  if (parts.some((part) => part.length === 0)) return "it is an absolute path, or has an empty part"
  if (parts.some(isDots)) return "its path has . or .. in it"
  const long = parts.find((part) => part.length > maxName)
  if (long !== undefined) return `a name in it has ${long.length} bytes`
  return ofTheStore.has(String(parts[0])) ? "that name belongs to the store" : undefined
}

/**
 * Whether what a symbolic link says could lead out of the bundle. It may go up only as far as the bundle reaches, and only
 * at its beginning: behind another link `..` would go up from wherever that one leads.
 *
 * @internal
 */
export const leadsOut = (path: Buffer, target: Buffer): boolean => {
  if (target[0] === slash) return true
  const parts = partsOf(target).filter((part) => part.length > 0 && !part.equals(Buffer.from(".")))
  const down = parts.findIndex((part) => !part.equals(Buffer.from("..")))
  const ups = down === -1 ? parts.length : down
  return ups > partsOf(path).length - 1 || parts.slice(ups).some(isDots)
}

// == times

/**
 * Seconds since 1970 with all nine digits, as pax has them.
 *
 * @internal
 */
export const secondsText = (nanos: bigint): string => {
  const size = nanos < 0n ? -nanos : nanos
  const digits = String(size % 1_000_000_000n).padStart(9, "0")
  return `${nanos < 0n ? "-" : ""}${size / 1_000_000_000n}.${digits}`
}

const secondsGrammar = /^(-?)(\d{1,12})(?:\.(\d{1,9}))?$/

const nanosOf = (text: string | undefined, coarse: Date | undefined): bigint => {
  const found = secondsGrammar.exec(text ?? "")
  if (found === null) return BigInt(coarse?.getTime() ?? 0) * 1_000_000n
  const nanos = BigInt(found[2] ?? 0) * 1_000_000_000n + BigInt((found[3] ?? "").padEnd(9, "0"))
  return found[1] === "-" ? -nanos : nanos
}

/** The field of the header goes from 1970 to 2038 and has whole seconds; the record beside it counts. */
const coarse = (nanos: bigint): Date => {
  const seconds = Number(nanos / 1_000_000_000n)
  return new Date(Math.min(Math.max(seconds, 0), 0x7fff_ffff) * 1000)
}

// == headers

/** @internal */
export const toHeader = (id: RunId, entry: ArchiveEntry): Heading => {
  const { kind, mode, mtimeNanos, path, size, target } = entry
  const pax: Record<string, string> = { mtime: secondsText(mtimeNanos) }
  if (!isUtf8(path)) pax[pathKey] = path.toString("base64")
  if (target !== undefined && !isUtf8(target)) pax[targetKey] = target.toString("base64")
  const name = path.length === 0 ? id : `${id}/${path}`
  return {
    name: kind === "directory" ? `${name}/` : name,
    type: kind,
    // The bit beyond them is not written: a mode of nothing at all would be taken for one that is not said.
    mode: mode | 0o10000,
    size,
    mtime: coarse(mtimeNanos),
    ...(target === undefined ? {} : { linkname: kind === "link" ? `${id}/${target}` : String(target) }),
    pax
  }
}

/** The pax records of a header that are texts, as all are that were read. */
const recordsOf = ({ pax }: Heading): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.entries(pax ?? {}).filter((pair): pair is [string, string] => typeof pair[1] === "string"))

const kinds: ReadonlySet<unknown> = new Set<EntryKind>(["file", "directory", "symlink", "link", "fifo"])

const isKind = (value: unknown): value is EntryKind => kinds.has(value)

/** The part of a name below the directory of the run, or nothing where it lies elsewhere. */
const below = (id: RunId, name: string): Buffer | undefined => {
  const plain = name.endsWith("/") ? name.slice(0, -1) : name
  if (plain === id) return Buffer.alloc(0)
  return plain.startsWith(`${id}/`) ? Buffer.from(plain.slice(id.length + 1)) : undefined
}

const faultOfLink = (entry: ArchiveEntry, linksOut: boolean): string | undefined => {
  if (entry.target === undefined) return undefined
  if (entry.kind === "link") {
    return faultOfPath(entry.target) ?? (entry.target.length === 0 ? "it links a directory" : undefined)
  }
  if (entry.target.length === 0 || entry.target.includes(0) || entry.target.length > maxPath) {
    return "its target is none"
  }
  return !linksOut && leadsOut(entry.path, entry.target) ? `it is a link that leads out, to ${entry.target}` : undefined
}

/**
 * Reads a header of an archive of this run, and refuses what must not be unpacked.
 *
 * @internal
 */
export const fromHeader = (
  id: RunId,
  header: Heading,
  options: { readonly linksOut: boolean }
): Result.Result<ArchiveEntry, Refusal> => {
  const { linkname, mode = 0, mtime, name, size = 0, type } = header
  const pax = recordsOf(header)
  const refuse = (why: string) => Result.fail({ name, why })
  if (!isKind(type)) return refuse(`it is a ${type ?? "thing of an unknown kind"}`)
  const bytes = (text: string | undefined) => text === undefined ? undefined : Buffer.from(text, "base64")
  const place = below(id, name)
  if (place === undefined) {
    return refuse(name.startsWith("/") ? "it is an absolute path" : `it does not lie below ${id}/`)
  }
  const path = bytes(pax[pathKey]) ?? place
  const isLink = type === "symlink" || type === "link"
  const named = type === "link" ? below(id, linkname ?? "") : Buffer.from(linkname ?? "")
  if (isLink && named === undefined) return refuse(`it is a link that leads out, to ${linkname}`)
  const entry: ArchiveEntry = {
    kind: type,
    path,
    mode: mode & 0o7777,
    mtimeNanos: nanosOf(pax["mtime"], mtime),
    size: type === "file" ? size : 0,
    target: isLink ? bytes(pax[targetKey]) ?? named : undefined
  }
  const isMisplaced = path.length === 0 && type !== "directory"
  const fault = isMisplaced
    ? "it lies in the place of the bundle"
    : faultOfPath(path) ?? faultOfLink(entry, options.linksOut)
  return fault === undefined ? Result.succeed(entry) : refuse(fault)
}

/**
 * Names for people: a name of any length and of any bytes.
 *
 * @internal
 */
export const shownName = (name: string): string => JSON.stringify(name.length > 80 ? `${name.slice(0, 77)}...` : name)
