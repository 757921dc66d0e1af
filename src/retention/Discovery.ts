/** Which bundles there are: day directories that have changed since they were last listed, oldest first. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Files } from "../internal/Files.ts"
import { day as dayOf, isRunId, type RunId } from "../RunId.ts"
import type { Session } from "../RunIndex.ts"

/**
 * A change may leave the mtime as it was when it falls within the clock's grain of the one before: two seconds on the
 * coarsest file systems there are. A day that moved more recently is listed again next time.
 */
const grainMillis = 2000

const dayGrammar = /^\d{4}-\d{2}-\d{2}$/

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
 * Brings the index up to what lies in `runs/`, and tells how many days it had to leave for another pass. A day that
 * cannot be read is left as it is known.
 *
 * @internal
 */
export const discover = Effect.fnUntraced(function*(root: string, session: Session, until: number) {
  const files = yield* Files
  const runs = `${root}/runs`
  const found = yield* Effect.orElseSucceed(files.readdir(runs), () => [])
  const days = found.map((entry) => entry.name).filter((name) => dayGrammar.test(name)).sort()
  const known = new Map((yield* session.days).map((day) => [day.day, day]))
  for (const day of known.keys()) if (!days.includes(day)) yield* session.dropDay(day)
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
    const entries = yield* Effect.result(files.readdir(path))
    if (Result.isFailure(entries)) continue
    const ids = new Set<RunId>()
    for (const { name } of entries.success) if (isRunId(name) && dayOf(name) === day) ids.add(name)
    listed += ids.size
    yield* session.putDay({ day, mtimeNanos, settled: isSettled(mtimeNanos, now) }, ids)
  }
  return unlisted
})
