/**
 * Where other file systems are mounted, as the kernel tells it. A bind mount of the same file system has the same
 * device number as the directory around it, so only the kernel's own tables show it.
 *
 * Linux alone has these tables. Elsewhere both answers are empty, and the device number is all there is.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Errno } from "./Errno.ts"
import { Files, Flags } from "./Files.ts"

const newline = 0x0a
const space = 0x20
const backslash = 0x5c

/** The table says nothing of its size, and a host full of containers has a long one. */
const maxTableBytes = 64 * 1024 * 1024

const readTable = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const fd = yield* Effect.result(files.open(path, Flags.read))
  if (Result.isFailure(fd)) return Buffer.alloc(0)
  const pieces: Array<Buffer> = []
  let length = 0
  yield* Effect.gen(function*() {
    while (length < maxTableBytes) {
      const buffer = Buffer.alloc(64 * 1024)
      const count = yield* files.read(fd.success, buffer, path)
      if (count === 0) break
      pieces.push(buffer.subarray(0, count))
      length += count
    }
  }).pipe(Effect.ignore, Effect.ensuring(files.close(fd.success)))
  return Buffer.concat(pieces)
})

const fields = (line: Buffer): ReadonlyArray<Buffer> => {
  const found: Array<Buffer> = []
  for (let from = 0; from < line.length && found.length < 5;) {
    const end = line.indexOf(space, from)
    found.push(line.subarray(from, end === -1 ? line.length : end))
    from = end === -1 ? line.length : end + 1
  }
  return found
}

/** Blanks, tabs, line ends and backslashes in names are written as a backslash and three octal digits. */
const decoded = (field: Buffer): Buffer => {
  if (!field.includes(backslash)) return field
  const bytes: Array<number> = []
  for (let index = 0; index < field.length; index++) {
    const octal = field[index] === backslash ? field.toString("latin1", index + 1, index + 4) : ""
    if (/^[0-7]{3}$/.test(octal)) {
      bytes.push(Number.parseInt(octal, 8))
      index += 3
    } else bytes.push(field[index]!)
  }
  return Buffer.from(bytes)
}

/**
 * The mount points in a text of the form of `/proc/self/mountinfo`.
 *
 * @internal
 */
export const mountPoints = (table: Buffer): ReadonlyArray<Buffer> => {
  const found: Array<Buffer> = []
  for (let from = 0; from < table.length;) {
    const end = table.indexOf(newline, from)
    const line = table.subarray(from, end === -1 ? table.length : end)
    const point = fields(line)[4]
    if (point !== undefined) found.push(decoded(point))
    from = end === -1 ? table.length : end + 1
  }
  return found
}

/**
 * A path as a key: one character for each byte.
 *
 * @internal
 */
export const key = (path: Buffer): string => path.toString("latin1")

/**
 * The mount points that lie below a directory, as keys. The path must be free of links, as the kernel's are.
 *
 * @internal
 */
export const below = Effect.fnUntraced(function*(path: string): Effect.fn.Return<ReadonlySet<string>> {
  if (process.platform !== "linux") return new Set()
  const parent = key(Buffer.from(path === "/" ? path : `${path}/`))
  const table = yield* readTable("/proc/self/mountinfo")
  return new Set(mountPoints(table).map(key).filter((point) => point.startsWith(parent)))
})

const mountId = /^mnt_id:\s*(\d+)$/m

/**
 * Which mount an open descriptor lies in: what nobody can change any more by mounting something on its path.
 *
 * @internal
 */
export const idOf = Effect.fnUntraced(
  function*(fd: number): Effect.fn.Return<string | undefined, Errno> {
    if (process.platform !== "linux") return undefined
    const files = yield* Files
    const path = `/proc/self/fdinfo/${fd}`
    const told = yield* files.open(path, Flags.read)
    // It is one of the first lines, and all of them come at once.
    const buffer = Buffer.allocUnsafe(512)
    const count = yield* Effect.ensuring(files.read(told, buffer, path), files.close(told))
    return mountId.exec(buffer.toString("latin1", 0, count))?.[1]
  },
  Effect.orElseSucceed(() => undefined)
)
