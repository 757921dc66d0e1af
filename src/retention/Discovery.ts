/** Which bundles there are: day directories that have changed since they were last listed, oldest first. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type ByteEntry, type Entry, Files } from "../internal/Files.ts"
import { eachEntry } from "../internal/io.ts"
import { isDay, isOfDay, type RunId } from "../RunId.ts"
import { type Pass, tellFailure } from "./Pass.ts"

/**
 * A change may leave the mtime as it was when it falls within the clock's grain of the one before: two seconds on the
 * coarsest file systems there are. A day that moved more recently is listed again next time.
 */
const grainMillis = 2000

/** Names that one pass takes into the index; a store whose index was lost is taken in a part at a time. */
const maxListed = 50_000

/**
 * Whether something that moved at `mtimeNanos` and was read at `readAt` would show by another mtime if it moved again.
 *
 * @internal
 */
export const isSettled = (mtimeNanos: bigint, readAt: number): boolean =>
  BigInt(readAt - grainMillis) * 1_000_000n > mtimeNanos

/**
 * What of its own lies in a directory of the store; nothing, where there is none. What lies behind a link belongs to somebody else,
 * whatever it is, and what cannot be read is not known: of both the report tells.
 *
 * @internal
 */
export const listPlace = Effect.fnUntraced(function*(
  pass: Pass,
  place: "runs" | "staging",
  isOwn: (name: string) => boolean,
  most = Number.POSITIVE_INFINITY
) {
  const files = yield* Files
  const found: Array<Entry> = []
  const take = ({ kind, name: bytes }: ByteEntry) => {
    const name = bytes.toString()
    if (isOwn(name)) found.push({ name, kind })
    return found.length < most
  }
  const path = `${pass.store.root}/${place}`
  const astray = (kind: string) =>
    `${path} is a ${kind}, not a directory of the store; look what it is for, and remove it`
  const listing = Effect.flatMap(
    files.lstat(path),
    ({ kind }) => kind === "directory" ? eachEntry(path, take) : Effect.fail({ code: "ENOTDIR", message: astray(kind) })
  )
  yield* Effect.catch(
    listing,
    ({ code, message }) => code === "ENOENT" ? Effect.void : tellFailure(pass, place, message)
  )
  return found
})

/**
 * A day that a pass emptied and could not remove before it was killed. Whoever is about to publish in it makes it anew.
 */
const removeEmpty = (pass: Pass, path: string) =>
  Effect.flatMap(Files, (files) => pass.dryRun ? Effect.void : Effect.ignore(files.rmdir(path)))

/**
 * Brings the index up to what lies in `runs/`, and tells how many days it had to leave for another pass. A day that
 * cannot be read is left as it is known.
 *
 * @internal
 */
export const discover = Effect.fnUntraced(function*(pass: Pass) {
  const { session, store, until } = pass
  const files = yield* Files
  const runs = `${store.root}/runs`
  const days = (yield* listPlace(pass, "runs", isDay)).map(({ name }) => name).sort()
  const known = new Map((yield* session.days).map((day) => [day.day, day]))
  const there = new Set(days)
  for (const day of known.keys()) if (!there.has(day)) yield* session.dropDay(day)
  let listed = 0
  let unlisted = 0
  for (const day of days) {
    const path = `${runs}/${day}`
    // Looked at before it is listed, so that what comes in between moves it once more.
    const info = yield* Effect.result(files.lstat(path))
    if (Result.isFailure(info)) continue
    if (info.success.kind !== "directory") {
      // Behind a link lies nothing of this store, whatever lay in its place before.
      yield* session.dropDay(day)
      continue
    }
    const { mtimeNanos } = info.success
    const before = known.get(day)
    if (before?.settled === true && before.mtimeNanos === mtimeNanos) continue
    const now = yield* Clock.currentTimeMillis
    if (listed > 0 && (listed >= maxListed || now >= until)) {
      unlisted++
      continue
    }
    const ids = new Set<RunId>()
    let isEmpty = true
    const seen = yield* Effect.result(eachEntry(path, (entry) => {
      const name = entry.name.toString()
      isEmpty = false
      if (isOfDay(name, day)) ids.add(name)
    }))
    if (Result.isFailure(seen)) continue
    if (isEmpty) yield* removeEmpty(pass, path)
    listed += ids.size
    yield* session.putDay({ day, mtimeNanos, settled: isSettled(mtimeNanos, now) }, ids)
  }
  return unlisted
})
