/**
 * The limits of what is archived. Like bundles, archives lie by days, and a day whose mtime has not moved needs no
 * listing: its sum is in the index.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { standsForRun } from "../Bundle.ts"
import * as Place from "../internal/ArchivePlace.ts"
import { Files } from "../internal/Files.ts"
import { isAbsence, isThere } from "../internal/io.ts"
import { lengthText, sizeText } from "../RetentionReason.ts"
import { hasArchiveLimits } from "../RetentionTiers.ts"
import type { RunId } from "../RunId.ts"
import { isSettled } from "./Discovery.ts"
import { isOver, type Pass, tellExpired, tellFailure } from "./Pass.ts"

interface Archived {
  readonly id: RunId
  readonly bytes: number
  readonly endedAt: number
}

/** As many are looked at before time is. */
const looksPerBreath = 256

/**
 * The archives of a day, oldest first; where looking at all of them would take more than half of the time there is, those
 * whose runs began first. The other half is for taking them away.
 */
const listDay = Effect.fnUntraced(function*(pass: Pass, day: string) {
  const files = yield* Files
  const { root } = pass.store
  const enough = ((yield* Clock.currentTimeMillis) + pass.until) / 2
  const archives: Array<Archived> = []
  let isWhole = true
  for (const [nth, id] of (yield* Place.idsOfDay(root, day)).toReversed().entries()) {
    if (nth > 0 && nth % looksPerBreath === 0 && (yield* Clock.currentTimeMillis) >= enough) {
      isWhole = false
      break
    }
    const info = yield* Effect.result(files.lstat(Place.pathOf(root, id)))
    if (Result.isFailure(info)) {
      isWhole &&= isAbsence(info.failure)
      continue
    }
    if (info.success.kind !== "file") continue
    archives.push({ id, bytes: info.success.size, endedAt: Place.endOf(id, info.success) })
  }
  return { archives: archives.sort((left, right) => left.endedAt - right.endedAt), isWhole }
})

interface Day {
  readonly day: string
  readonly archives: number
  readonly bytes: number
  /** What was seen of one that was not looked through whole, or not at all. */
  readonly seen?: ReadonlyArray<Archived>
}

/** Every day that has archives, oldest first, with what they sum up to; listed only where something has moved. */
const sumUp = Effect.fnUntraced(function*(pass: Pass) {
  const files = yield* Files
  const { now, session, store } = pass
  const found = yield* Effect.result(Place.days(store.root))
  if (Result.isFailure(found)) return { sums: [], unlisted: 1 }
  const days = found.success.toReversed()
  const known = new Map((yield* session.archiveDays).map((day) => [day.day, day]))
  const there = new Set(days)
  for (const day of known.keys()) if (!there.has(day)) yield* session.dropArchiveDay(day)
  const sums: Array<Day> = []
  let unlisted = 0
  for (const day of days) {
    const before = known.get(day)
    // What is known of it counts, and nothing of it can go.
    const putOff = () => {
      unlisted++
      if (before !== undefined) sums.push({ ...before, seen: [] })
    }
    const info = yield* Effect.result(files.lstat(`${store.root}/archive/${day}`))
    if (Result.isFailure(info)) {
      if (!isAbsence(info.failure)) putOff()
      continue
    }
    const { mtimeNanos } = info.success
    if (before?.settled === true && before.mtimeNanos === mtimeNanos) {
      sums.push(before)
      continue
    }
    if (sums.length > 0 && (yield* isOver(pass))) {
      putOff()
      continue
    }
    const listed = yield* Effect.result(listDay(pass, day))
    if (Result.isFailure(listed)) {
      putOff()
      continue
    }
    const { archives, isWhole } = listed.success
    const sum = {
      day,
      mtimeNanos,
      settled: isSettled(mtimeNanos, now),
      archives: archives.length,
      bytes: archives.reduce((all, { bytes }) => all + bytes, 0)
    }
    if (isWhole) yield* session.putArchiveDay(sum)
    else unlisted++
    sums.push(isWhole ? sum : { ...sum, seen: archives })
  }
  return { sums, unlisted }
})

/** The archives of a day that was known. What is not seen of it now is left to another pass. */
const listAgain = Effect.fnUntraced(function*(pass: Pass, day: string) {
  const listed = yield* Effect.result(listDay(pass, day))
  if (Result.isFailure(listed) || !listed.success.isWhole) pass.ledger.left.unlisted++
  return Result.isSuccess(listed) ? listed.success.archives : []
})

/** What lies beside an archive: nothing, the bundle of the run, or something that cannot stand for it. */
const look = Effect.fnUntraced(function*({ store }: Pass, id: RunId) {
  if (!(yield* isThere(store.dir(id)))) return "nothing"
  const entry = yield* Effect.result(store.get(id))
  return Result.isSuccess(entry) && standsForRun(entry.success) ? "the run" : "something"
})

/**
 * Beside its bundle an archive is none, and what goes is not the run. Beside a bundle that no pass removes, since it cannot
 * tell what it is, the archive may be all that is left, and stays as well.
 */
const expire = Effect.fnUntraced(function*(pass: Pass, { bytes, id }: Archived, reason: string) {
  const { dryRun, ledger, store } = pass
  // Who archives the run or brings it back has this lock, until the bundle has gone or is there.
  const locked = dryRun ? undefined : yield* Place.lock(Place.pathOf(store.root, id))
  if (typeof locked === "string") return "gone"
  const beside = yield* look(pass, id)
  if (beside === "something") return "kept"
  if (!dryRun) {
    yield* Place.remove(store.root, id)
    ledger.freedBytes += bytes
  }
  if (beside === "nothing") yield* tellExpired(pass, { id, reason, bytes })
  return "gone"
}, Effect.scoped)

const expireOrTell = (pass: Pass, archived: Archived, reason: string) =>
  Effect.catch(expire(pass, archived, reason), ({ message }) => {
    pass.ledger.left.failed++
    return Effect.as(tellFailure(pass, archived.id, message), "failed")
  })

/**
 * Removes the oldest archives until the limits hold.
 *
 * @internal
 */
export const expireDue = Effect.fnUntraced(function*(pass: Pass) {
  const { budget, ledger, now, policy } = pass
  if (!hasArchiveLimits(policy)) return
  const { archiveMaxAge, archiveMaxBytes } = policy
  const { sums, unlisted } = yield* sumUp(pass)
  ledger.left.unlisted += unlisted
  let over = archiveMaxBytes === undefined ? 0 : sums.reduce((all, { bytes }) => all + bytes, 0) - archiveMaxBytes
  const oldest = archiveMaxAge === undefined ? Number.NEGATIVE_INFINITY : now - Duration.toMillis(archiveMaxAge)
  const reasonFor = ({ endedAt }: Archived): string | undefined => {
    if (archiveMaxAge !== undefined && endedAt < oldest) {
      return `older than ${lengthText(Duration.toMillis(archiveMaxAge))}`
    }
    return archiveMaxBytes !== undefined && over > 0 ? `beyond ${sizeText(archiveMaxBytes)}` : undefined
  }
  for (const { archives, day, seen } of sums) {
    // A run ends after it has begun, so from here on everything is younger.
    if (archives === 0 || (over <= 0 && Date.parse(`${day}T00:00:00Z`) >= oldest)) continue
    for (const archived of seen ?? (yield* listAgain(pass, day))) {
      const reason = reasonFor(archived)
      if (reason === undefined) continue
      if (ledger.expired.length >= budget.maxRemoved || (yield* isOver(pass))) ledger.left.toExpire++
      else if ((yield* expireOrTell(pass, archived, reason)) !== "gone") continue
      over -= archived.bytes
    }
  }
})
