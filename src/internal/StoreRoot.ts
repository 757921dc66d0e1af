/**
 * The root of a store: where it is by default, whether it is safe to use, and its `store.json`.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { Timestamp, timestamp } from "../RunRecord.ts"
import { orSystem, StoreError, StoreReason } from "../StoreError.ts"
import { variable } from "./Environment.ts"
import { Files } from "./Files.ts"
import { home } from "./Home.ts"
import { nonce, readText, writeNew } from "./io.ts"
import { Kernel } from "./Kernel.ts"

const formatVersion = 1

const Format = Schema.Struct({ version: Schema.Int, id: Schema.NonEmptyString, createdAt: Timestamp })

/** What a root may hold. Any other name in a directory without a `store.json` says that it is somebody else's. */
const ownNames: ReadonlySet<string> = new Set([
  "runs",
  "staging",
  "trash",
  "archive",
  "retention.lock",
  ...["index.db", "index.db.aside"].flatMap((name) => [name, `${name}-journal`, `${name}-wal`, `${name}-shm`])
])

const maxFormatBytes = 64 * 1024

const below = Effect.fnUntraced(function*(...way: ReadonlyArray<string>) {
  const path = home()
  return path === undefined
    ? yield* new StoreError({ reason: StoreReason.NoHome() })
    : NodePath.join(path, ...way)
})

/**
 * The platform's directory for state that is kept between runs of programs: XDG on Linux.
 *
 * @internal
 */
export const defaultRoot: Effect.Effect<string, StoreError> = Effect.gen(function*() {
  if (process.platform === "darwin") return yield* below("Library", "Application Support", "leasehold")
  if (process.platform === "win32") {
    const local = yield* variable("LOCALAPPDATA")
    return local === undefined
      ? yield* below("AppData", "Local", "leasehold")
      : NodePath.join(local, "leasehold")
  }
  const state = yield* variable("XDG_STATE_HOME")
  // The XDG rules have a relative path ignored.
  return state?.startsWith("/") === true
    ? NodePath.join(state, "leasehold")
    : yield* below(".local", "state", "leasehold")
})

const unsafe = (root: string, problem: string, mend: string) =>
  Effect.fail(new StoreError({ reason: StoreReason.UnsafeRoot({ root, problem, mend }) }))

const isWithin = (path: string, parent: string) => path === parent || path.startsWith(`${parent}/`)

/** The nearest part of a path that is there, with every link in it resolved. */
const nearestReal = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  for (let part = path;; part = NodePath.dirname(part)) {
    const real = yield* Effect.result(files.realpath(part))
    if (Result.isSuccess(real)) return NodePath.join(real.success, path.slice(part.length))
    if (part === NodePath.dirname(part)) return path
  }
})

const refuseSweptPlace = Effect.fnUntraced(function*(root: string) {
  const place = yield* nearestReal(root)
  for (const temp of [NodeOs.tmpdir(), "/tmp", "/var/tmp"]) {
    if (!isWithin(place, yield* nearestReal(temp))) continue
    return yield* unsafe(
      root,
      `it lies below ${temp}, where the system deletes by age, also what is in use`,
      "choose a root elsewhere, or say that a store below the temp directory is meant (--allow-temp, LEASEHOLD_ALLOW_TEMP=1, allowTemp)"
    )
  }
})

const refuseUnsafeDirectory = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const kernel = yield* Kernel
  const info = yield* orSystem(files.lstat(root))
  if (info.kind === "link") return yield* unsafe(root, "it is a symbolic link", "give the path it points to")
  if (info.kind !== "directory") return yield* unsafe(root, `it is a ${info.kind}`, "give the path of a directory")
  if (info.uid !== kernel.uid) {
    return yield* unsafe(root, `it belongs to user ${info.uid}`, `use a root that belongs to user ${kernel.uid}`)
  }
  if (process.platform !== "win32" && (info.mode & 0o022) !== 0) {
    return yield* unsafe(root, "others may write to it", `run: chmod go-w '${root}'`)
  }
})

const decodeFormat = Schema.decodeUnknownEffect(Schema.fromJsonString(Format))
const decodeVersion = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({ version: Schema.Finite })))

const readFormat = Effect.fnUntraced(function*(root: string) {
  const path = `${root}/store.json`
  const illegible = ({ message }: { readonly message: string }) =>
    new StoreError({ reason: StoreReason.IllegibleFormat({ path, detail: message.replace(`${path}: `, "") }) })
  const text = yield* readText(path, maxFormatBytes).pipe(
    Effect.catchIf(
      (cause) => cause._tag === "Errno" && cause.code === "ENOENT",
      () => Effect.undefined
    ),
    // A file that the system does not give us may have nothing wrong with it.
    Effect.mapError((cause) =>
      cause._tag === "Errno" ? new StoreError({ reason: StoreReason.System({ errno: cause }) }) : illegible(cause)
    )
  )
  if (text === undefined) return undefined
  const newer = Option.filter(decodeVersion(text), ({ version }) => version > formatVersion)
  if (Option.isSome(newer)) {
    const { version } = newer.value
    return yield* new StoreError({ reason: StoreReason.NewerFormat({ root, version, known: formatVersion }) })
  }
  return yield* decodeFormat(text).pipe(Effect.mapError(illegible))
})

/** Several processes may make the same store at once: whose `link` comes first has made it. */
const writeFormat = Effect.fnUntraced(function*(root: string) {
  const files = yield* Files
  const others = (yield* orSystem(files.readdir(root))).filter((entry) =>
    !ownNames.has(entry.name) && !entry.name.startsWith("store.json")
  )
  if (others.length > 0) {
    return yield* unsafe(
      root,
      `it is no store and holds other things (${others[0]?.name})`,
      "give the path of a new or empty directory"
    )
  }
  yield* orSystem(Effect.catchIf(files.mkdir(`${root}/trash`), (errno) => errno.code === "EEXIST", () => Effect.void))
  const id = `${yield* nonce}${yield* nonce}`
  const createdAt = timestamp(yield* DateTime.now)
  const draft = `${root}/store.json.${yield* nonce}.tmp`
  yield* orSystem(writeNew(draft, `${JSON.stringify({ version: formatVersion, id, createdAt }, undefined, 2)}\n`))
  yield* files.link(draft, `${root}/store.json`).pipe(
    Effect.catchIf((errno) => errno.code === "EEXIST", () => Effect.void),
    orSystem,
    Effect.ensuring(Effect.ignore(files.unlink(draft)))
  )
})

/**
 * Opens a root, making it where there is none, and gives the id of the store. Nothing is touched in a root that is
 * refused.
 *
 * @internal
 */
export const open = Effect.fnUntraced(
  function*(
    root: string,
    options: { readonly allowTemp: boolean; readonly create: boolean }
  ): Effect.fn.Return<string, StoreError> {
    const files = yield* Files
    if (!options.allowTemp) yield* refuseSweptPlace(root)
    const there = yield* Effect.result(files.lstat(root))
    if (Result.isFailure(there) && there.failure.code === "ENOENT") {
      if (!options.create) return yield* new StoreError({ reason: StoreReason.NoStore({ root }) })
      yield* orSystem(files.mkdir(root, { recursive: true }))
    }
    yield* refuseUnsafeDirectory(root)
    const format = yield* readFormat(root)
    if (format !== undefined) return format.id
    // A store that has lost its store.json is one all the same; an empty directory is not.
    if (!options.create && !(yield* Effect.isSuccess(files.lstat(`${root}/runs`)))) {
      return yield* new StoreError({ reason: StoreReason.NoStore({ root }) })
    }
    yield* writeFormat(root)
    const made = yield* readFormat(root)
    return made === undefined ? yield* unsafe(root, "its store.json vanished", "look who else writes there") : made.id
  }
)
