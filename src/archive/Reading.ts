/**
 * Reading an archive: every entry is checked before anybody sees it, and everything is held against the manifest, so that
 * an end without a complaint means that what was read is what was written.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NodeCrypto from "node:crypto"
import { ArchiveError, ArchiveReason } from "../ArchiveError.ts"
import type { Errno } from "../internal/Errno.ts"
import type { RunId } from "../RunId.ts"
import { decode, isTerminal, maxBytes as maxRecordBytes, RecordError, type RunRecord } from "../RunRecord.ts"
import { type ArchiveEntry, fromHeader, shownName } from "./ArchiveEntry.ts"
import * as Manifest from "./Manifest.ts"
import * as Tar from "./Tar.ts"

/**
 * Something in an archive must not be unpacked.
 *
 * @internal
 */
export class Unsafe extends Data.TaggedError("Unsafe")<{ readonly name: string; readonly why: string }> {}

/**
 * An archive is not what was written, or not an archive.
 *
 * @internal
 */
export class Corrupt extends Data.TaggedError("Corrupt")<{ readonly detail: string }> {}

type Unreadable = Errno | Unsafe | Corrupt | Tar.TarError

/** @internal */
export type Failure = ArchiveError | Unreadable

/**
 * In the words of whoever asked for the archive.
 *
 * @internal
 */
export const errorOf = (id: RunId, path: string, error: Failure): ArchiveError => {
  const because = (reason: ArchiveReason) => new ArchiveError({ id, reason })
  switch (error._tag) {
    case "ArchiveError":
      return error
    case "Errno":
      return because(ArchiveReason.System({ errno: error }))
    case "Unsafe":
      return because(ArchiveReason.Unsafe({ name: error.name, why: error.why }))
    case "Corrupt":
    case "TarError":
      return because(ArchiveReason.Corrupt({ path, detail: error.detail }))
  }
}

/** @internal */
export const asError = (id: RunId, path: string) => Effect.mapError((error: Failure) => errorOf(id, path, error))

/** @internal */
export interface Source {
  readonly id: RunId
  readonly fd: number
  readonly path: string
  /** Lets symbolic links pass that lead out of the bundle. */
  readonly linksOut: boolean
}

/** @internal */
export type Content = Tar.Found["content"]

/** @internal */
export type Visit = (entry: ArchiveEntry, content: Content) => Effect.Effect<void, VisitError>

type VisitError = Errno | Unsafe | Tar.TarError

const readPart = Effect.fnUntraced(function*({ content, header }: Tar.Found) {
  if ((header.size ?? 0) > Manifest.maxPartBytes) return yield* new Corrupt({ detail: "its manifest is too large" })
  const pieces: Array<Buffer> = []
  yield* content((piece) => Effect.sync(() => void pieces.push(piece)))
  return Buffer.concat(pieces)
})

const firstDifference = (found: Buffer, expected: Buffer): string => {
  const lines = found.toString().split("\n")
  const line = expected.toString().split("\n").find((text, index) => text !== lines[index])
  return `what it holds is not what its manifest says: ${
    line === undefined || line === "" ? "its end" : line.slice(0, 300)
  }`
}

const hashed = (content: Content, hash: NodeCrypto.Hash): Content => (use) =>
  content((piece) => {
    hash.update(piece)
    return use(piece)
  })

const passOver = () => Effect.void

/**
 * Reads an archive from its beginning to its end. `visit` may take the content of a file; what it leaves is read all the
 * same.
 *
 * @internal
 */
export const read = (
  source: Source,
  visit: Visit
): Effect.Effect<Manifest.Sums & { readonly digest: string }, Unreadable> =>
  Effect.suspend(() => {
    const { fd, id, path } = source
    const manifest = Manifest.make(id)
    let isComplete = false

    const outOfOrder = () => new Corrupt({ detail: "its manifest is out of order" })

    const takePart = Effect.fnUntraced(function*(found: Tar.Found): Effect.fn.Return<void, Corrupt | Tar.TarError> {
      if (found.header.name !== manifest.name()) return yield* outOfOrder()
      isComplete = !manifest.isDue()
      const expected = isComplete ? manifest.last() : manifest.part()
      const part = yield* readPart(found)
      if (!part.equals(expected)) return yield* new Corrupt({ detail: firstDifference(part, expected) })
    })

    const takeEntry = Effect.fnUntraced(function*(found: Tar.Found): Effect.fn.Return<void, VisitError | Corrupt> {
      // A part comes at once when it is due. Nobody is to remember what comes of entries without one.
      if (manifest.isDue()) return yield* outOfOrder()
      const entry = yield* Effect.mapError(
        Effect.fromResult(fromHeader(id, found.header, source)),
        (refusal) => new Unsafe(refusal)
      )
      const isFirst = manifest.sums().entries === 0
      if (isFirst !== (entry.path.length === 0)) {
        return yield* new Corrupt({ detail: `it does not begin with the directory ${id}/` })
      }
      const hash = NodeCrypto.createHash("sha256")
      let isTaken = false
      const content: Content = (use) => {
        isTaken = true
        return hashed(found.content, hash)(use)
      }
      yield* visit(entry, content)
      if (!isTaken && entry.kind === "file") yield* content(passOver)
      manifest.add(entry, entry.kind === "file" ? hash.digest("hex") : undefined)
    })

    const take = Effect.fnUntraced(function*(found: Tar.Found): Effect.fn.Return<boolean, VisitError | Corrupt> {
      if (isComplete) return yield* new Corrupt({ detail: `${shownName(found.header.name)} comes after its end` })
      yield* (Manifest.isPart(id, found.header) ? takePart(found) : takeEntry(found))
      return true
    })

    return Effect.andThen(
      Tar.read(fd, path, take),
      Effect.suspend(() =>
        isComplete
          ? Effect.succeed({ ...manifest.sums(), digest: manifest.digest() })
          : Effect.fail(new Corrupt({ detail: "it ends before its manifest does" }))
      )
    )
  })

const isRecord = ({ kind, path, size }: ArchiveEntry) =>
  kind === "file" && path.toString() === "run.json" && size <= maxRecordBytes

/**
 * The same, with the record that is in it. It is read with the rest, since to decompress it all takes longest.
 *
 * @internal
 */
export const readWhole = (
  source: Source
): Effect.Effect<
  Manifest.Sums & { readonly digest: string; readonly record: Result.Result<RunRecord, RecordError> },
  Unreadable
> =>
  Effect.suspend(() => {
    const pieces: Array<Buffer> = []
    const visit: Visit = (entry, content) =>
      isRecord(entry) ? content((piece) => Effect.sync(() => void pieces.push(piece))) : Effect.void
    return Effect.map(read(source, visit), (found) => ({ ...found, record: decode(Buffer.concat(pieces).toString()) }))
  })

const missing = Result.fail(new RecordError({ reason: { _tag: "Missing" } }))

/**
 * The record of an archive, when it is the one that must be there.
 *
 * @internal
 */
export const checkRecord = (
  { id, path }: Pick<Source, "id" | "path">,
  record: Result.Result<RunRecord, RecordError>
): Result.Result<RunRecord, ArchiveError> => {
  const refuse = (reason: ArchiveReason) => Result.fail(new ArchiveError({ id, reason }))
  const corrupt = (detail: string) => refuse(ArchiveReason.Corrupt({ path, detail }))
  if (Result.isFailure(record)) {
    const { message, reason } = record.failure
    return reason._tag === "NewerVersion"
      ? refuse(ArchiveReason.NewerVersion({ version: reason.version }))
      : corrupt(message)
  }
  if (record.success.id !== id) return corrupt(`its record is that of ${record.success.id}`)
  return isTerminal(record.success) ? Result.succeed(record.success) : corrupt("its record says that it is running")
}

/**
 * The record of an archive, for which only its beginning is read.
 *
 * @internal
 */
export const readRecord = Effect.fnUntraced(function*(source: Source): Effect.fn.Return<RunRecord, ArchiveError> {
  const { fd, id, path } = source
  let text: string | undefined
  const take = Effect.fnUntraced(function*(found: Tar.Found) {
    const entry = yield* Effect.mapError(
      Effect.fromResult(fromHeader(id, found.header, source)),
      (refusal) => new Unsafe(refusal)
    )
    if (entry.path.length === 0) return true
    if (!isRecord(entry)) return yield* new Corrupt({ detail: "its first file is no run.json" })
    text = (yield* readPart(found)).toString()
    return false
  })
  yield* Tar.read(fd, path, take).pipe(asError(id, path))
  return yield* Effect.fromResult(checkRecord(source, text === undefined ? missing : decode(text)))
})
