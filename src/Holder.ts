/**
 * A holder: one process that holds a lease, described by a small file in `holders/`.
 *
 * The file is for people ("who has it?") and for other hosts, which cannot see this kernel's locks. It never stands
 * for the lease: a lease without a holder file is held all the same, and a holder file without a lease is a trace of
 * a process that died.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Errno } from "./internal/Errno.ts"
import { Files } from "./internal/Files.ts"
import { entriesOf, nonce, readText, replace, requireDirectory } from "./internal/io.ts"
import { Kernel } from "./internal/Kernel.ts"
import { Timestamp, timestamp } from "./RunRecord.ts"

/**
 * What a holder is to the run: its `owner`, one that joined, a child that inherited a lease, or a verb at work on a
 * bundle that it has claimed.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Role = Schema.Literals(["owner", "joined", "child", "claim"])

/**
 * @category models
 * @since 0.1.0
 */
export type Role = typeof Role.Type

/**
 * A holder file. `boot` and `machine` name the kernel, `inode` the lease file that was locked.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Holder = Schema.Struct({
  version: Schema.Literal(1),
  id: Schema.NonEmptyString,
  role: Role,
  pid: Schema.Int,
  host: Schema.String,
  boot: Schema.String,
  machine: Schema.String,
  inode: Schema.String,
  since: Timestamp
})

/**
 * @category models
 * @since 0.1.0
 */
export type Holder = typeof Holder.Type

/**
 * What a file in `holders/` turned out to be.
 *
 * @category models
 * @since 0.1.0
 */
export type HolderTrace =
  | { readonly _tag: "Named"; readonly holder: Holder }
  | { readonly _tag: "Illegible"; readonly file: string; readonly why: string }

const maxHolderBytes = 16 * 1024

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Holder))

/**
 * A holder in words: `pid 4711 on build-7 (owner)`.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = (holder: Holder): string => `pid ${holder.pid} on ${holder.host} (${holder.role})`

/**
 * A holder that stands for a process of this kernel, this one unless a pid is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(
  function*(options: { readonly role: Role; readonly inode: bigint; readonly pid?: number | undefined }) {
    const kernel = yield* Kernel
    const pid = options.pid ?? kernel.pid
    const holder: Holder = {
      version: 1,
      id: `${pid}-${yield* nonce}`,
      role: options.role,
      pid,
      host: kernel.host,
      boot: kernel.boot,
      machine: kernel.machine,
      inode: String(options.inode),
      since: timestamp(yield* DateTime.now)
    }
    return holder
  }
)

/**
 * All of them in words. There may be one more of each: a holder need not leave a name.
 *
 * @internal
 */
export const describeAll = (holders: ReadonlyArray<Holder>): string =>
  holders.length === 0 ? "a process that left no name" : holders.map(describe).join(", ")

const directoryOf = (bundle: string) => `${bundle}/holders`

const fileOf = (bundle: string, holder: Holder) => `${directoryOf(bundle)}/${holder.id}.json`

/**
 * Half a bundle, and one of an older layout, has no directory for it yet.
 *
 * @internal
 */
export const write = Effect.fnUntraced(function*(bundle: string, holder: Holder): Effect.fn.Return<void, Errno> {
  const files = yield* Files
  const directory = directoryOf(bundle)
  const make = files.mkdir(directory).pipe(
    // Somebody else has made it just now.
    Effect.catchIf((errno) => errno.code === "EEXIST", () => requireDirectory(directory))
  )
  yield* Effect.catchIf(requireDirectory(directory), (errno) => errno.code === "ENOENT", () => make)
  yield* replace(fileOf(bundle, holder), `${JSON.stringify(holder, undefined, 2)}\n`)
})

/** @internal */
export const remove = Effect.fnUntraced(function*(bundle: string, holder: Holder) {
  const files = yield* Files
  yield* files.unlink(fileOf(bundle, holder))
})

/** More than any run has: somebody may have put a million there. */
const most = 4096

/**
 * Names a holder for as long as the scope lasts. The file goes from where the bundle lies by then.
 *
 * @internal
 */
export const announce = Effect.fnUntraced(function*(dirNow: () => string, options: Parameters<typeof make>[0]) {
  const holder = yield* make(options)
  yield* Effect.acquireRelease(write(dirNow(), holder), () => Effect.ignore(remove(dirNow(), holder)))
})

/**
 * Names this process as the one that has claimed a bundle, so that whoever has to wait or is refused learns for whom.
 *
 * @internal
 */
export const announceClaim = Effect.fnUntraced(function*(dir: string) {
  const files = yield* Files
  const { ino } = yield* files.lstat(`${dir}/lease`)
  yield* announce(() => dir, { role: "claim", inode: ino })
})

/**
 * Everything that `holders/` of a bundle says, legible or not. A missing directory says nothing; one that cannot be
 * read, or holds too many to read, may hold any name, and counts as an illegible one.
 *
 * @internal
 */
export const list = Effect.fnUntraced(function*(bundle: string): Effect.fn.Return<ReadonlyArray<HolderTrace>> {
  const directory = directoryOf(bundle)
  const illegible = (why: string): HolderTrace => ({ _tag: "Illegible", file: directory, why })
  const found = yield* Effect.result(entriesOf(directory, (name) => name.endsWith(".json"), most + 1))
  if (Result.isFailure(found)) return [illegible(found.failure.message)]
  const traces = yield* Effect.forEach(found.success.slice(0, most), ({ name }) => read(`${directory}/${name}`))
  const beyond = found.success.length > most ? [illegible(`${directory}: holds more than ${most} of them`)] : []
  return [...traces.filter((trace) => trace !== undefined), ...beyond]
})

/** A file that went while we looked belonged to a holder that let go in the usual order, and says nothing any more. */
const read = (file: string): Effect.Effect<HolderTrace | undefined> =>
  readText(file, maxHolderBytes).pipe(
    Effect.flatMap(decode),
    Effect.match({
      onSuccess: (holder) => ({ _tag: "Named" as const, holder }),
      onFailure: (cause) =>
        cause._tag === "Errno" && cause.code === "ENOENT"
          ? undefined
          : { _tag: "Illegible" as const, file, why: cause.message }
    })
  )
