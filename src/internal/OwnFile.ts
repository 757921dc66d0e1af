/**
 * Files in the directories of a bundle, where programs and whoever else may put what they like. What is written on must be
 * the run's own: a regular file of this user without a second name, in a directory that no link leads to. Whatever else
 * bears the name is set aside and a new file begun, so that a run keeps what it has to say and nothing that lies elsewhere
 * is written to.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Anchor from "./Anchor.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info, type Place } from "./Files.ts"
import { nonce, NotRegular, type Opened } from "./io.ts"
import { Kernel } from "./Kernel.ts"

/** What fails was done to a name alone, and is told with the path. */
const withPath = (path: string) => <E>(error: E | Errno) =>
  error instanceof Errno ? new Errno({ code: error.code, call: error.call, path, cause: error.cause }) : error

/** In the directory of a path, which may not be a link. */
const inDirectory = <E>(
  path: string,
  open: (place: Place, name: Buffer) => Effect.Effect<Opened, E | Errno>
): Effect.Effect<Opened, E | Errno> => {
  const end = path.lastIndexOf("/")
  return Effect.uninterruptible(Effect.acquireUseRelease(
    Anchor.hold(path.slice(0, end)),
    ({ place }) => Effect.mapError(open(place, Buffer.from(path.slice(end + 1))), withPath(path)),
    Anchor.letGo
  ))
}

const openAs = Effect.fnUntraced(function*(place: Place, name: Buffer, flags: number) {
  const files = yield* Files
  const fd = yield* files.openAt(place, name, flags)
  const info = yield* files.fstat(fd, String(name)).pipe(Effect.tapError(() => files.close(fd)))
  return { fd, info } satisfies Opened
})

/** A file that has lost its only name is nobody else's either. */
const isOwn = ({ kind, nlink, uid }: Info, user: number) => kind === "file" && nlink <= 1 && uid === user

/** What is no file is not even opened, as a device may take that for an order. */
const openOwn = Effect.fnUntraced(function*(place: Place, name: Buffer) {
  const files = yield* Files
  const { uid } = yield* Kernel
  if (!isOwn(yield* files.lstatAt(place, name), uid)) return undefined
  const opened = yield* openAs(place, name, Flags.append)
  if (isOwn(opened.info, uid)) return opened
  yield* files.close(opened.fd)
  return undefined
})

const setAside = Effect.fnUntraced(function*(place: Place, name: Buffer, path: string) {
  const files = yield* Files
  const aside = `${name}.${yield* nonce}.aside`
  yield* files.renameAt(place, name, place, Buffer.from(aside))
  yield* Effect.logWarning(`${path} was no file of this run's own, and is called ${aside} from now on`)
})

const isMissing = ({ code }: Errno) => code === "ENOENT"

/** Others may come and go between two calls; not for ever. */
const most = 10

const isElseByNow = ({ code }: Errno) => ["EEXIST", "ELOOP", "ENOENT", "ENXIO"].includes(code)

/**
 * Opens a file to be read, and to be written on at its end. Never waits. The caller closes it.
 *
 * @internal
 */
export const openToAppend = (path: string): Effect.Effect<Opened, Errno> =>
  inDirectory(path, (place, name) =>
    Effect.gen(function*() {
      const there = yield* Effect.result(openOwn(place, name))
      if (Result.isSuccess(there) && there.success !== undefined) return there.success
      if (Result.isFailure(there) && !isMissing(there.failure)) return yield* there.failure
      if (Result.isSuccess(there)) yield* setAside(place, name, path)
      return yield* openAs(place, name, Flags.appendNew)
    }).pipe(Effect.retry({ times: most, while: isElseByNow })))

/**
 * Opens a file to be read, whosever it is. Never waits. The caller closes it.
 *
 * @internal
 */
export const openToRead = (path: string): Effect.Effect<Opened, Errno | NotRegular> =>
  inDirectory<NotRegular>(path, (place, name) =>
    Effect.gen(function*() {
      const files = yield* Files
      const { kind } = yield* files.lstatAt(place, name)
      if (kind !== "file") return yield* new NotRegular({ path, kind })
      const opened = yield* openAs(place, name, Flags.read)
      if (opened.info.kind === "file") return opened
      yield* files.close(opened.fd)
      return yield* new NotRegular({ path, kind: opened.info.kind })
    }))
