/**
 * `index.db` on the disk: when it is believed, how a new one is begun, and how what a pass has done is made to last.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { IndexBroken, Session } from "../RunIndex.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info } from "./Files.ts"
import * as IndexDatabase from "./IndexDatabase.ts"
import * as IndexSeal from "./IndexSeal.ts"
import { isThere, sameFile } from "./io.ts"
import { Kernel } from "./Kernel.ts"
import * as Sqlite from "./Sqlite.ts"
import { tentatively } from "./Tentative.ts"

const pathOf = (root: string) => `${root}/index.db`
const asideOf = (root: string) => `${root}/index.db.aside`

/** What SQLite puts beside a database. We let it put nothing there, so whatever is there is somebody else's. */
const besides = ["-journal", "-wal", "-shm"]

interface Opened {
  readonly root: string
  readonly fd: number
  readonly connection: Sqlite.Connection
  /** What the file looks like when nobody but us has written to it. */
  looks: Info
}

// == putting out of the way

const remove = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  yield* files.unlink(path).pipe(Effect.catch(() => files.rmdir(path)), Effect.ignore)
})

/** A rename does not follow what it moves, and opens nothing. What cannot be moved is done away with, if it can be. */
const moveOver = Effect.fnUntraced(function*(from: string, to: string) {
  const files = yield* Files
  const moved = yield* Effect.result(files.rename(from, to))
  if (Result.isSuccess(moved)) return
  yield* remove(to)
  yield* files.rename(from, to).pipe(Effect.catch(() => files.unlink(from)))
})

const moveAside = Effect.fnUntraced(function*(root: string) {
  const [path, aside] = [pathOf(root), asideOf(root)]
  const isIndex = yield* isThere(path)
  if (isIndex) yield* moveOver(path, aside)
  for (const end of besides) {
    // None may be left: SQLite would take it for the journal of the new index, or of the one that was set aside.
    if (yield* isThere(`${path}${end}`)) yield* moveOver(`${path}${end}`, `${aside}${end}`)
    else if (isIndex) yield* remove(`${aside}${end}`)
  }
})

/**
 * Puts the index out of the way, under a name where people can still look at it.
 *
 * @internal
 */
export const setAside = (root: string): Effect.Effect<void> =>
  moveAside(root).pipe(Effect.catch(() => IndexSeal.wipe(root)), Effect.ignore)

// == making it last

const seal = ({ looks, root }: Opened, options: IndexSeal.Options) =>
  IndexSeal.put(root, looks, IndexDatabase.format, options)

/** Fails where somebody has moved the file away, which has then taken our work along. */
const lookAgain = Effect.fnUntraced(function*({ fd, root }: Opened) {
  const files = yield* Files
  const path = pathOf(root)
  const info = yield* files.fstat(fd, path)
  return sameFile(yield* files.lstat(path), info) ? info : yield* stale(path)
})

const stale = (path: string) =>
  new Errno({ code: "ESTALE", call: "lstat", path, cause: new Error("somebody else has changed it") })

/** A process that is killed anywhere in here leaves a file without a seal, or one that is whole. */
const makeLast = Effect.fnUntraced(function*(opened: Opened) {
  const { connection, root } = opened
  if (!IndexSeal.looksAlike(yield* lookAgain(opened), opened.looks)) return yield* stale(pathOf(root))
  yield* IndexSeal.wipe(root)
  yield* IndexDatabase.commit(connection)
  opened.looks = yield* lookAgain(opened)
  yield* seal(opened, { until: "reboot", fsync: false })
  yield* IndexDatabase.begin(connection)
})

/** Waits for the disk without holding up the event loop. */
const flush = Effect.fnUntraced(function*(opened: Opened) {
  const files = yield* Files
  yield* files.fsync(opened.fd, pathOf(opened.root))
  yield* seal(opened, { until: "changed", fsync: false })
})

/**
 * Before the file is touched the disk has a seal that ends with a reboot, and gets another one only when it has all of
 * the work: no power cut leaves a torn file that is believed. A pass that is interrupted while it waits for the disk
 * leaves a good index, which then has to be begun anew after the next reboot.
 */
const save = (opened: Opened): Effect.Effect<void, IndexBroken> =>
  Effect.uninterruptibleMask((restore) =>
    restore(Effect.ignore(seal(opened, { until: "reboot", fsync: true }))).pipe(
      Effect.andThen(makeLast(opened)),
      Effect.andThen(restore(Effect.ignore(flush(opened)))),
      Effect.catchTag("Errno", (errno) => opened.connection.fail(errno))
    )
  )

/** Nothing is touched when there is nothing new to say, which is the ordinary end of a pass. */
const committing = (opened: Opened, atFirst: number): Session["commit"] => {
  let lasting = atFirst
  return Effect.gen(function*() {
    const changes = yield* IndexDatabase.changes(opened.connection)
    if (changes === lasting) return
    yield* save(opened)
    lasting = changes
  })
}

// == opening

/** Why the file is not used. One that is only out of reach for now may be a good one, and is left where it is. */
interface Refusal {
  readonly _tag: "Refusal"
  readonly outOfReach: boolean
  readonly reason: string
}

const refuse = (reason: string) => Effect.fail<Refusal>({ _tag: "Refusal", outOfReach: false, reason })

const refusalOf = (cause: Errno | IndexBroken | Refusal): Refusal => {
  if (cause._tag === "Refusal") return cause
  const outOfReach = cause._tag === "Errno" ? !IndexSeal.isOfTheName(cause) : !Sqlite.speaksAgainstContent(cause)
  return { _tag: "Refusal", outOfReach, reason: cause.message }
}

const openHeld = Effect.fnUntraced(function*(path: string, flags: number) {
  const files = yield* Files
  return yield* Effect.acquireRelease(files.open(path, flags), (fd) => files.close(fd))
})

const sealedFile = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const { uid } = yield* Kernel
  for (const end of besides) {
    if (yield* isThere(`${pathOf(root)}${end}`)) return yield* refuse(`there is an index.db${end} beside index.db`)
  }
  const info = yield* files.lstat(pathOf(root)).pipe(
    Effect.catchIf((errno) => errno.code === "ENOENT", () => refuse("there is no index.db yet"))
  )
  if (info.kind !== "file") return yield* refuse(`index.db is a ${info.kind}`)
  if (info.uid !== uid) return yield* refuse(`index.db belongs to user ${info.uid}`)
  if (yield* IndexSeal.isSealed(root, info, IndexDatabase.format)) return info
  return yield* refuse("index.db is not as the last pass left it")
})

const openSealed = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const seen = yield* sealedFile(root)
  // Held for as long as the database is: SQLite's locks on a file go when any descriptor of it is closed.
  const fd = yield* openHeld(pathOf(root), Flags.lock)
  const held = yield* files.fstat(fd, pathOf(root))
  if (!sameFile(held, seen)) return yield* refuse("index.db is being replaced")
  if (held.nlink > 1) return yield* refuse("index.db has a second name")
  const connection = yield* Sqlite.open(pathOf(root))
  yield* IndexDatabase.begin(connection)
  if (!(yield* IndexDatabase.isOfThisFormat(connection))) return yield* refuse("index.db is of another format")
  return { root, fd, connection, looks: seen } satisfies Opened
}, Effect.mapError(refusalOf))

const openNew = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const fd = yield* openHeld(pathOf(root), Flags.create)
  return yield* Effect.gen(function*() {
    const connection = yield* Sqlite.open(pathOf(root))
    const opened: Opened = { root, fd, connection, looks: yield* files.fstat(fd, pathOf(root)) }
    yield* IndexDatabase.create(connection)
    yield* makeLast(opened)
    return opened
  }).pipe(Effect.tapError(() => remove(pathOf(root))))
})

const openOrBegin = Effect.fnUntraced(function*(root: string) {
  const sealed = yield* Effect.result(tentatively(openSealed(root)))
  if (Result.isSuccess(sealed)) return sealed.success
  const { outOfReach, reason } = sealed.failure
  if (outOfReach) return yield* Effect.fail(sealed.failure)
  const stuck = (cause: Errno | IndexBroken) => refuse(`${reason}, and none can be begun: ${cause.message}`)
  yield* Effect.catch(moveAside(root), stuck)
  return yield* Effect.catch(tentatively(openNew(root)), stuck)
})

/** An index that turns out to be broken while it is used would be believed, and break, in every pass to come. */
const setAsideIfBroken = Effect.fnUntraced(function*(root: string, connection: () => Sqlite.Connection | undefined) {
  yield* Effect.addFinalizer(() => {
    const failure = connection()?.failure()
    return failure !== undefined && Sqlite.speaksAgainstContent(failure) ? setAside(root) : Effect.void
  })
})

const inFile = Effect.fnUntraced(function*(root: string, options: { readonly dryRun: boolean }) {
  let connection: Sqlite.Connection | undefined
  if (!options.dryRun) yield* setAsideIfBroken(root, () => connection)
  const opened = yield* options.dryRun ? tentatively(openSealed(root)) : openOrBegin(root)
  connection = opened.connection
  const changes = yield* Effect.mapError(IndexDatabase.changes(connection), refusalOf)
  const commit = options.dryRun ? Effect.void : committing(opened, changes)
  return IndexDatabase.session(connection, { kind: { _tag: "file" }, commit })
})

const inMemory = Effect.fnUntraced(function*(reason: string) {
  const connection = yield* Sqlite.open(":memory:").pipe(
    Effect.tap(IndexDatabase.create),
    Effect.catch((failure) => Effect.succeed(Sqlite.none(failure)))
  )
  return IndexDatabase.session(connection, { kind: { _tag: "memory", reason }, commit: Effect.void })
})

/** @internal */
export const open = (
  root: string,
  options: { readonly dryRun: boolean }
): Effect.Effect<Session, never, Scope.Scope> =>
  inFile(root, options).pipe(Effect.catch(({ reason }) => inMemory(reason)))
