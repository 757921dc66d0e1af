/**
 * The door to tar and zstd: streams of both, made and read with no more in memory than a few pieces.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { Transform, type TransformCallback } from "node:stream"
import * as NodeZlib from "node:zlib"
import * as TarStream from "tar-stream"
import type { Errno } from "../internal/Errno.ts"
import { Files } from "../internal/Files.ts"
import { writeAll } from "../internal/io.ts"
import type { Heading } from "./ArchiveEntry.ts"

/**
 * What was read is no archive of this kind, or not a whole one.
 *
 * @internal
 */
export class TarError extends Data.TaggedError("TarError")<{ readonly detail: string }> {}

const detailOf = (cause: unknown) => cause instanceof Error ? cause.message : String(cause)

const attempt = <A>(evaluate: () => Promise<A>): Effect.Effect<A, TarError> =>
  Effect.tryPromise({ try: evaluate, catch: (cause) => new TarError({ detail: detailOf(cause) }) })

/**
 * So much is read from a disk at once. Larger pieces are no faster, and several are on their way at a time.
 *
 * @internal
 */
export const pieceBytes = 256 * 1024

const { ZSTD_c_checksumFlag, ZSTD_c_compressionLevel } = NodeZlib.constants

/** The level that zstd itself takes for the best of both; the checksum tells of damage that decompresses all the same. */
const compression = { params: { [ZSTD_c_compressionLevel]: 3, [ZSTD_c_checksumFlag]: 1 } }

/**
 * Joins what comes in small pieces, as headers do: the compressor works in another thread, and the way there and back
 * takes longer than the compression of one.
 */
class Gather extends Transform {
  #pieces: Array<Buffer> = []
  #bytes = 0

  override _transform(piece: Buffer, _encoding: string, done: TransformCallback): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
    if (this.#bytes >= pieceBytes) this.#pass()
    done()
  }

  override _flush(done: TransformCallback): void {
    this.#pass()
    done()
  }

  #pass(): void {
    this.push(Buffer.concat(this.#pieces))
    this.#pieces = []
    this.#bytes = 0
  }
}

interface Drained {
  once(event: "drain" | "close", listener: () => void): unknown
  off(event: "drain" | "close", listener: () => void): unknown
}

/** Waits until a stream takes more, or never will. */
const drained = (stream: Drained): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const forget = () => {
      stream.off("drain", done)
      stream.off("close", done)
    }
    const done = () => {
      forget()
      resume(Effect.void)
    }
    stream.once("drain", done)
    stream.once("close", done)
    return Effect.sync(forget)
  })

// == writing

/** @internal */
export interface Packer {
  /** Something without content, or with a content that is there. */
  readonly add: (header: Heading, content?: Buffer) => Effect.Effect<void, TarError>
  /** A file whose content comes piece by piece, as long as its header says. */
  readonly stream: <E, R>(
    header: Heading,
    fill: (write: (piece: Buffer) => Effect.Effect<void>) => Effect.Effect<void, E, R>
  ) => Effect.Effect<void, E | TarError, R>
}

const ended = (resume: (exit: Effect.Effect<void, TarError>) => void) => (cause?: Error | null) =>
  resume(cause ? Effect.fail(new TarError({ detail: detailOf(cause) })) : Effect.void)

const packerOf = (pack: TarStream.Pack): Packer => ({
  // Its end is told when those who read have taken it, so that nobody runs ahead of the disk.
  add: (header, content = Buffer.alloc(0)) =>
    Effect.callback((resume) => void pack.entry(header, content, ended(resume))),
  stream: Effect.fnUntraced(function*(header, fill) {
    let done: Effect.Effect<void, TarError> | undefined
    let tell: ((exit: Effect.Effect<void, TarError>) => void) | undefined
    const sink = pack.entry(
      header,
      ended((exit) => {
        done = exit
        tell?.(exit)
      })
    )
    sink.on("error", () => {})
    yield* fill((piece) => Effect.suspend(() => sink.write(piece) || done !== undefined ? Effect.void : drained(sink)))
    sink.end(null)
    yield* Effect.callback<void, TarError>((resume) => {
      if (done === undefined) tell = resume
      else resume(done)
    })
  })
})

/**
 * Writes a compressed tar to a descriptor.
 *
 * @internal
 */
export const write = <E, R>(
  fd: number,
  path: string,
  fill: (packer: Packer) => Effect.Effect<void, E, R>
): Effect.Effect<void, E | Errno | TarError, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const pack = TarStream.pack()
      const zstd = NodeZlib.createZstdCompress(compression)
      const gather = new Gather()
      pack.on("error", (cause) => zstd.destroy(cause))
      zstd.on("error", () => {})
      gather.pipe(zstd)
      pack.pipe(gather)
      return { pack, zstd }
    }),
    ({ pack, zstd }) => {
      const filling = Effect.andThen(fill(packerOf(pack)), Effect.sync(() => pack.finalize()))
      const draining = Effect.gen(function*() {
        const pieces = zstd[Symbol.asyncIterator]()
        for (;;) {
          const next = yield* attempt(() => pieces.next())
          if (next.done === true) return
          yield* writeAll(fd, next.value as Buffer, path)
        }
      })
      return Effect.all([filling, draining], { concurrency: 2, discard: true })
    },
    ({ pack, zstd }) =>
      Effect.sync(() => {
        pack.destroy(null)
        zstd.destroy()
      })
  )

// == reading

/** @internal */
export interface Found {
  readonly header: Heading
  /** Its content, once, piece by piece. What is not asked for is passed over. */
  readonly content: <E, R>(
    use: (piece: Buffer) => Effect.Effect<void, E, R>
  ) => Effect.Effect<void, E | TarError, R>
}

const contentOf = (entry: AsyncIterable<unknown>): Found["content"] =>
  Effect.fnUntraced(function*(use) {
    const pieces = entry[Symbol.asyncIterator]()
    for (;;) {
      const next = yield* attempt(() => pieces.next())
      if (next.done === true) return
      yield* use(next.value as Buffer)
    }
  })

/**
 * Reads a compressed tar from a descriptor, from its beginning, until `visit` has seen enough: it says so by `false`.
 *
 * @internal
 */
export const read = <E, R>(
  fd: number,
  path: string,
  visit: (found: Found) => Effect.Effect<boolean, E, R>
): Effect.Effect<void, E | Errno | TarError, R> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const zstd = NodeZlib.createZstdDecompress()
      const extract = TarStream.extract()
      zstd.on("error", (cause) => extract.destroy(cause))
      extract.on("error", (cause) => zstd.destroy(cause))
      zstd.pipe(extract)
      return { zstd, extract }
    }),
    ({ extract, zstd }) => {
      let fed = 0
      const feeding = Effect.gen(function*() {
        const files = yield* Files
        for (;;) {
          const piece = Buffer.allocUnsafe(pieceBytes)
          const count = yield* files.read(fd, piece, path, fed)
          if (count === 0) break
          fed += count
          if (zstd.write(piece.subarray(0, count)) || zstd.destroyed) continue
          yield* drained(zstd)
          // The other side has the reason.
          if (zstd.destroyed) return
        }
        zstd.end()
      })
      const visiting = Effect.gen(function*() {
        const entries = extract[Symbol.asyncIterator]()
        for (;;) {
          const next = yield* attempt(() => entries.next())
          if (next.done === true) {
            // The rest of a piece behind the end is passed over by it without a word.
            return zstd.bytesWritten === fed ? true : yield* new TarError({ detail: "there is more after its end" })
          }
          const entry = next.value
          if (!(yield* visit({ header: entry.header, content: contentOf(entry) }))) return false
          entry.resume()
        }
      })
      // Whoever has seen enough does not wait for the rest to be read.
      return Effect.asVoid(
        Effect.raceFirst(visiting, Effect.andThen(feeding, Effect.never))
      )
    },
    ({ extract, zstd }) =>
      Effect.sync(() => {
        extract.on("error", () => {})
        zstd.destroy()
        extract.destroy(null)
      })
  )
