/**
 * Where archives lie, `archive/<day>/<run id>.tar.zst`, and who may touch one. An archive beside a bundle of the same run
 * is what a crash left of an archiving or of a restoring: the bundle counts, and the archive is as good as not there.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as RunId from "../RunId.ts"
import type { Timestamp } from "../RunRecord.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info } from "./Files.ts"
import { entriesOf, findAstray, isAbsence, readText, replace, sameFile } from "./io.ts"
import { Locks } from "./Locks.ts"
import { pause } from "./Pause.ts"

const ending = ".tar.zst"
const markEnding = ".restored"

/** @internal */
export const dayOf = (root: string, id: RunId.RunId): string => `${root}/archive/${RunId.day(id)}`

/** @internal */
export const pathOf = (root: string, id: RunId.RunId): string => `${dayOf(root, id)}/${id}${ending}`

/**
 * An archive that is being written, locked by who writes it.
 *
 * @internal
 */
export const draftOf = (root: string, id: RunId.RunId): string => `${root}/staging/${id}${ending}`

/**
 * Beside where its archive was: when a run was restored. Who has brought it back wants it for as long as if it had ended
 * then, and its bundle is to be as it was, so this is not written there.
 *
 * @internal
 */
export const markOf = (root: string, id: RunId.RunId): string => `${dayOf(root, id)}/${id}${markEnding}`

/** @internal */
export const writeMark = (root: string, id: RunId.RunId, at: Timestamp): Effect.Effect<void, Errno> =>
  replace(markOf(root, id), `${at}\n`, { fsync: true })

/**
 * When a run was restored, in milliseconds since 1970, if it was. A mark that cannot be read is as old as its file.
 *
 * @internal
 */
export const restoredAt = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  const files = yield* Files
  const path = markOf(root, id)
  const there = yield* Effect.result(files.lstat(path))
  if (Result.isFailure(there)) return undefined
  const said = Date.parse(yield* Effect.orElseSucceed(readText(path, 64), () => ""))
  return Number.isNaN(said) ? Number(there.success.mtimeNanos / 1_000_000n) : said
})

const idBefore = (ending: string) => (name: string): RunId.RunId | undefined => {
  const id = name.slice(0, -ending.length)
  return name.endsWith(ending) && RunId.isRunId(id) ? id : undefined
}

/**
 * The run that a file of this name is an archive of, and the one whose restoring it marks.
 *
 * @internal
 */
export const idOf = idBefore(ending)

/** @internal */
export const markedBy = idBefore(markEnding)

/**
 * Whether a name in `staging/` is one that the store gives: that of a bundle, or of the draft of an archive.
 *
 * @internal
 */
export const isStaged = (name: string): boolean => RunId.isRunId(name) || idOf(name) !== undefined

const infoOf = Effect.fnUntraced(function*(path: string): Effect.fn.Return<Info | undefined, Errno> {
  const files = yield* Files
  return yield* Effect.catchIf(files.lstat(path), isAbsence, () => Effect.undefined)
})

/** Behind a link lies nothing of this store. */
const hasDay = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  for (const path of [`${root}/archive`, dayOf(root, id)]) {
    if ((yield* infoOf(path))?.kind !== "directory") return false
  }
  return true
})

/**
 * Which of the directories that archives lie in, or are made in, is none of the store's, if any.
 *
 * @internal
 */
export const astray = (root: string, id: RunId.RunId) =>
  findAstray([`${root}/archive`, dayOf(root, id), `${root}/staging`])

/**
 * What the file system says of the archive of a run, if there is one.
 *
 * @internal
 */
export const look = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  if (!(yield* hasDay(root, id))) return undefined
  const there = yield* infoOf(pathOf(root, id))
  return there?.kind === "file" ? there : undefined
})

/**
 * When the run of an archive ended, in milliseconds since 1970. The time of the file says so, to what node can set. A copy
 * that was put back need not have the time of the one that was lost.
 *
 * @internal
 */
export const endOf = (id: RunId.RunId, { mtimeNanos }: Info): number =>
  Math.max(Math.round(Number(mtimeNanos) / 1e6), RunId.startedAt(id).epochMilliseconds)

/** Names in a directory, newest first; behind a link lies nothing of this store. */
const names = (path: string, isWanted: (name: string) => boolean): Effect.Effect<ReadonlyArray<string>, Errno> =>
  entriesOf(path, isWanted).pipe(
    Effect.catchIf(isAbsence, () => Effect.succeed([])),
    Effect.map((entries) => entries.map(({ name }) => name))
  )

/**
 * The days that have archives, newest first.
 *
 * @internal
 */
export const days = (root: string): Effect.Effect<ReadonlyArray<string>, Errno> => names(`${root}/archive`, RunId.isDay)

/**
 * The runs of a day that have archives, newest first.
 *
 * @internal
 */
export const idsOfDay = (root: string, day: string): Effect.Effect<ReadonlyArray<RunId.RunId>, Errno> =>
  Effect.map(
    names(`${root}/archive/${day}`, (name) => RunId.isOfDay(idOf(name) ?? "", day)),
    (found) => found.flatMap((name) => idOf(name) ?? [])
  )

/** For whoever shows what can be read: what cannot hides nothing else. */
const orNone = Effect.orElseSucceed((): ReadonlyArray<never> => [])

/**
 * Every archive that can be found, newest first.
 *
 * @internal
 */
export const all = (root: string): Stream.Stream<RunId.RunId> =>
  Stream.fromIterableEffect(orNone(days(root))).pipe(
    Stream.flatMap((day) => Stream.fromIterableEffect(orNone(idsOfDay(root, day))))
  )

/**
 * Some of the runs that have archives and whose ids begin so, newest first: enough to tell one from several.
 *
 * @internal
 */
export const beginningWith = Effect.fnUntraced(function*(root: string, prefix: string) {
  const found: Array<RunId.RunId> = []
  for (const day of yield* orNone(days(root))) {
    const plain = day.replaceAll("-", "")
    if (!plain.startsWith(prefix) && !prefix.startsWith(plain)) continue
    found.push(...(yield* orNone(idsOfDay(root, day))).filter((id) => id.startsWith(prefix)))
    if (found.length > 4) break
  }
  return found
})

/** @internal */
export interface Locked {
  readonly fd: number
  readonly path: string
  readonly info: Info
}

/** The descriptor with the lock; else whether somebody has it or there is nothing to lock, and nothing stays open. */
const tryLock = Effect.fnUntraced(function*(path: string): Effect.fn.Return<Locked | "busy" | "absent", Errno> {
  const files = yield* Files
  const locks = yield* Locks
  const opened = yield* Effect.result(files.open(path, Flags.lock))
  if (Result.isFailure(opened)) return opened.failure.code === "ENOENT" ? "absent" : yield* opened.failure
  const fd = opened.success
  const attempt = Effect.gen(function*() {
    const info = yield* files.fstat(fd, path)
    if (info.kind !== "file") return yield* new Errno({ code: "ENOTSUP", call: "open", path, cause: undefined })
    if (!(yield* locks.tryExclusive(fd, path))) return "busy"
    // Whoever had it may have taken it away, or put another in its place.
    const there = yield* infoOf(path)
    return there !== undefined && sameFile(there, info) ? { fd, path, info } : "absent"
  })
  const locked = yield* Effect.onError(attempt, () => files.close(fd))
  if (typeof locked === "string") yield* files.close(fd)
  return locked
})

/**
 * Locks a file that only one may have to do with at a time, until the scope ends. Never waits.
 *
 * @internal
 */
export const lock = (path: string): Effect.Effect<Locked | "busy" | "absent", Errno, Scope.Scope> =>
  Effect.acquireRelease(
    tryLock(path),
    (locked) => typeof locked === "string" ? Effect.void : Effect.flatMap(Files, (files) => files.close(locked.fd))
  )

/**
 * Takes the archive of a run away, and its day when that has become empty. Whoever is about to put one there makes the
 * day anew.
 *
 * @internal
 */
export const remove = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  const files = yield* Files
  yield* Effect.catchIf(files.unlink(pathOf(root, id)), (errno) => errno.code === "ENOENT", () => Effect.void)
  yield* Effect.ignore(files.rmdir(dayOf(root, id)))
})

/** Takes an archive away that nobody has to do with at this moment, and says whether it has gone by this. */
const removeAlone = Effect.fnUntraced(
  function*(root: string, id: RunId.RunId) {
    const locked = yield* lock(pathOf(root, id))
    if (typeof locked === "string") return false
    yield* remove(root, id)
    return true
  },
  Effect.scoped
)

/** So often, with as many milliseconds between, an archive is asked for that somebody looks at for a moment. */
const tries = 10

/**
 * Takes away what a crash has left of an archive beside a bundle that is about to go for good: it must not come back. It
 * goes only under its lock: whoever has that, and has seen the file there, is about to restore or to remove it by its name,
 * which must not come to mean another by then. Fails with EBUSY where somebody keeps it.
 *
 * @internal
 */
export const discard = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  const path = pathOf(root, id)
  for (let nth = 0; nth < tries; nth++) {
    if ((yield* look(root, id)) === undefined || (yield* removeAlone(root, id))) return
    yield* pause(tries)
  }
  const cause = new Error("another process is restoring or removing it")
  return yield* new Errno({ code: "EBUSY", call: "lock", path, cause })
})

/**
 * Forgets that a run was restored, when its bundle is not there. A mark that would not go says nothing then, and whoever
 * restores the run again writes another.
 *
 * @internal
 */
export const unmark = Effect.fnUntraced(function*(root: string, id: RunId.RunId) {
  const files = yield* Files
  if (!(yield* Effect.orElseSucceed(hasDay(root, id), () => false))) return
  yield* Effect.ignore(files.unlink(markOf(root, id)))
  yield* Effect.ignore(files.rmdir(dayOf(root, id)))
})

/**
 * Takes a draft away that nobody is writing any more. Says whether it has gone.
 *
 * @internal
 */
export const clearDraft = Effect.fnUntraced(
  function*(root: string, id: RunId.RunId) {
    const files = yield* Files
    const path = draftOf(root, id)
    const locked = yield* lock(path)
    if (locked === "busy") return false
    if (locked !== "absent") yield* files.unlink(path)
    return true
  },
  Effect.scoped
)
