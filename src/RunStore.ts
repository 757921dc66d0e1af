/**
 * A store: the root directory that holds the bundles of runs, shared by any number of programs and processes.
 *
 * Guarantees. A bundle is visible only when it is complete and its lease is held: it is built in `staging/` and
 * published by one rename. Finding a run by its id costs the same however many there are. Listing never fails as a
 * whole because of one bundle; a damaged one is listed with what is wrong with it. Names from outside are checked
 * before they come near a path.
 *
 * Limits. What other programs do in the root is not prevented, only noticed.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as NodePath from "node:path"
import { type Bundle, type Draft, type Entry, obstacle, type UpdateOptions } from "./Bundle.ts"
import * as ArchivePlace from "./internal/ArchivePlace.ts"
import { make as makeBuilder } from "./internal/BundleBuilder.ts"
import { variable } from "./internal/Environment.ts"
import type { Errno } from "./internal/Errno.ts"
import { Files } from "./internal/Files.ts"
import { entriesOf } from "./internal/io.ts"
import * as RecordFile from "./internal/RecordFile.ts"
import { checkWhole, reopen } from "./internal/Reopening.ts"
import * as StoreRoot from "./internal/StoreRoot.ts"
import { tentatively } from "./internal/Tentative.ts"
import { following } from "./internal/Whereabouts.ts"
import { workingDirectory } from "./internal/WorkingDirectory.ts"
import * as KernelLease from "./KernelLease.ts"
import { Lease, type LeaseError } from "./Lease.ts"
import { Doubt, Liveness } from "./Liveness.ts"
import * as RunId from "./RunId.ts"
import { RecordError, type RunRecord, timestamp } from "./RunRecord.ts"
import { isShownStatus, mayBe, shown, type ShownStatus } from "./RunStatus.ts"
import { orSystem, StoreError, StoreReason, unusable } from "./StoreError.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The root directory. Else `LEASEHOLD_ROOT`, else the platform's state directory. */
  readonly root?: string | undefined
  /** Make the store where there is none; yes. Else that is an error. */
  readonly create?: boolean | undefined
  /** Use a root below the system's temp directory, where sweepers delete by age. For tests. Else `LEASEHOLD_ALLOW_TEMP`. */
  readonly allowTemp?: boolean | undefined
}

/**
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions {
  /** The program makes again what was trimmed. Without this a run that was trimmed is refused. */
  readonly rebuilds?: boolean | undefined
}

/**
 * @category services
 * @since 0.1.0
 */
export class RunStore extends Context.Service<RunStore, {
  readonly root: string
  /** The id that the store was given when it was made. */
  readonly id: string
  /** Where the bundle of a run lies, or would lie. */
  readonly dir: (id: RunId.RunId) => string
  /** Builds and publishes a bundle. Its lease ends with the scope; a bundle that could not be finished is taken away. */
  readonly create: (draft: Draft) => Effect.Effect<Bundle, StoreError | LeaseError, Scope.Scope>
  /**
   * Goes on with a run that nobody works in, as its owner. Never waits: whoever works there, or on it, is named. The
   * record has a new attempt and says `running` again.
   */
  readonly resume: (
    id: RunId.RunId,
    options?: ResumeOptions
  ) => Effect.Effect<Bundle, StoreError | LeaseError, Scope.Scope>
  /** Every bundle, newest first, read as far as it is asked for. */
  readonly list: Stream.Stream<Entry, StoreError>
  readonly get: (id: RunId.RunId) => Effect.Effect<Entry, StoreError>
  /** Whether anybody works in the bundle. */
  readonly liveness: (entry: Entry) => Effect.Effect<Liveness>
  /** The newest run, or the newest that is shown with a status. */
  readonly latest: (status?: ShownStatus) => Effect.Effect<Entry, StoreError>
  /** The run that a person means: an id, the beginning of one, `latest` or `latest:STATUS`, as listings show it. */
  readonly find: (name: string) => Effect.Effect<Entry, StoreError>
  /** Changes a record, between whatever others may write at the same time, and gives what it has become. */
  readonly update: (
    id: RunId.RunId,
    change: (record: RunRecord) => RunRecord,
    options?: UpdateOptions
  ) => Effect.Effect<RunRecord, StoreError>
  /** Orders a bundle to be kept, whatever the policy says. Without a reason, one that was given before stays. */
  readonly pin: (id: RunId.RunId, reason?: string) => Effect.Effect<RunRecord, StoreError>
  readonly unpin: (id: RunId.RunId) => Effect.Effect<RunRecord, StoreError>
}>()("leasehold/RunStore") {}

const fail = (reason: StoreReason) => Effect.fail(new StoreError({ reason }))

const notABundle = (kind: string | undefined) =>
  new RecordError({ reason: { _tag: "NotABundle", kind: kind ?? "thing of an unknown kind" } })

const make = Effect.fnUntraced(function*(options: Options) {
  const lease = yield* Lease
  const given = options.root ?? (yield* variable("LEASEHOLD_ROOT")) ?? (yield* StoreRoot.defaultRoot)
  // What resolves to wherever somebody happens to be was not meant.
  if (given === "") {
    const problem = { root: "\"\"", problem: "its path is empty", mend: "give the path of a directory" }
    return yield* fail(StoreReason.UnsafeRoot(problem))
  }
  const root = NodePath.isAbsolute(given)
    ? NodePath.resolve(given)
    : NodePath.resolve(yield* orSystem(workingDirectory), given)
  const storeId = yield* StoreRoot.open(root, {
    allowTemp: options.allowTemp ?? (yield* variable("LEASEHOLD_ALLOW_TEMP")) === "1",
    create: options.create ?? true
  })
  const runs = `${root}/runs`
  const dir = (id: RunId.RunId) => `${runs}/${RunId.day(id)}/${id}`

  // == listing

  /** Nothing for a bundle that was taken away while it was read: it has no record for the reason that it has gone. */
  const read = Effect.fnUntraced(function*(id: RunId.RunId, kind: string | undefined) {
    const files = yield* Files
    const entry = (record: Entry["record"]): Entry => ({ id, dir: dir(id), record })
    if (kind !== "directory") return entry(Result.fail(notABundle(kind)))
    const record = yield* RecordFile.read(dir(id))
    if (Result.isSuccess(record) || record.failure.reason._tag !== "Missing") return entry(record)
    // It may have come back from the archive since.
    return (yield* Effect.isSuccess(files.lstat(dir(id)))) ? entry(yield* RecordFile.read(dir(id))) : undefined
  })

  /** Days and ids sort alike by their names, so those that begin alike lie together. */
  const listFrom = (prefix: string): Stream.Stream<Entry, StoreError> =>
    Stream.fromIterableEffect(orSystem(entriesOf(runs, RunId.isDay))).pipe(
      Stream.filter((day) => day.kind === "directory" && sharesBeginning(day.name.replaceAll("-", ""), prefix)),
      Stream.flatMap((day) =>
        // A day that cannot be read must not hide the others.
        Stream.fromIterableEffect(
          entriesOf(`${runs}/${day.name}`, (name) => name.startsWith(prefix) && RunId.isOfDay(name, day.name)).pipe(
            Effect.orElseSucceed(() => [])
          )
        ).pipe(
          Stream.mapEffect((entry) => read(entry.name as RunId.RunId, entry.kind)),
          Stream.filter((entry) => entry !== undefined)
        )
      )
    )

  /** What lies where the bundle of an id should be; a link on the way there is as bad as one in its place. */
  const lookAt = Effect.fnUntraced(function*(id: RunId.RunId) {
    const files = yield* Files
    for (const path of [dir(id), runs, `${runs}/${RunId.day(id)}`]) {
      const there = yield* Effect.result(files.lstat(path))
      if (Result.isFailure(there)) return undefined
      if (there.success.kind !== "directory") return there.success.kind
    }
    return "directory"
  })

  /** The same; nobody who names a run of the archive is to be told that there is none. */
  const kindAt = Effect.fnUntraced(function*(id: RunId.RunId) {
    const kind = yield* lookAt(id)
    if (kind !== undefined) return kind
    if ((yield* orSystem(ArchivePlace.look(root, id))) !== undefined) return yield* fail(StoreReason.Archived({ id }))
    // Whoever restores one takes its archive away when the bundle is there, which may have been since the first look.
    return (yield* lookAt(id)) ?? (yield* fail(StoreReason.NoSuchRun({ name: id })))
  })

  const requireBundle = Effect.fnUntraced(function*(id: RunId.RunId) {
    const kind = yield* kindAt(id)
    if (kind !== "directory") return yield* unusable(id, notABundle(kind))
  })

  const get = Effect.fnUntraced(function*(id: RunId.RunId): Effect.fn.Return<Entry, StoreError> {
    const entry = yield* read(id, yield* kindAt(id))
    // It went while it was read: the next look says where.
    return entry ?? (yield* get(id))
  })

  const liveness = (entry: Entry): Effect.Effect<Liveness> => {
    const error = obstacle(entry)
    return error === undefined
      ? lease.probe(entry)
      : Effect.succeed(Liveness.Unknown({ doubt: Doubt.RecordUnusable({ error }) }))
  }

  const firstOf = (entries: Stream.Stream<Entry, StoreError>, name: string) =>
    Effect.flatMap(Stream.runHead(entries), Effect.fromOption).pipe(
      Effect.catchTag("NoSuchElementError", () => fail(StoreReason.NoSuchRun({ name })))
    )

  const latest = (status?: ShownStatus) =>
    status === undefined
      ? firstOf(listFrom(""), "latest")
      : firstOf(
        listFrom("").pipe(
          Stream.filter(({ record }) => mayBe(record, status)),
          Stream.filterEffect((entry) =>
            Effect.map(liveness(entry), (answer) => shown(entry.record, answer) === status)
          )
        ),
        `latest:${status}`
      )

  const findByPrefix = Effect.fnUntraced(function*(prefix: string) {
    const found = yield* Stream.runCollect(Stream.take(listFrom(prefix), 5))
    const ids = found.map((entry) => entry.id)
    const archived = ids.length > 1
      ? []
      : (yield* ArchivePlace.beginningWith(root, prefix)).filter((id) => !ids.includes(id))
    const candidates = [...ids, ...archived].slice(0, 5)
    if (candidates.length > 1) return yield* fail(StoreReason.Ambiguous({ prefix, candidates }))
    if (archived[0] !== undefined) return yield* fail(StoreReason.Archived({ id: archived[0] }))
    // It may have come back since the first look.
    return found[0] ?? (yield* firstOf(listFrom(prefix), prefix))
  })

  const find = (name: string): Effect.Effect<Entry, StoreError> => {
    if (name === "latest") return latest()
    const status = name.startsWith("latest:") ? name.slice("latest:".length) : ""
    if (isShownStatus(status)) return latest(status)
    if (RunId.isRunId(name)) return get(name)
    return prefixGrammar.test(name) ? findByPrefix(name) : fail(StoreReason.MalformedName({ name }))
  }

  // == beginning and going on

  const build = makeBuilder({ root, dir, lease })

  /** The run that it begins from may be archived before it is held. */
  const create = (draft: Draft) =>
    draft.forkedFrom === undefined ? build(draft) : following(get(draft.forkedFrom))(build(draft))

  const goOn = Effect.fnUntraced(function*(id: RunId.RunId, resumeOptions: ResumeOptions | undefined) {
    const target = { id, dir: dir(id) }
    yield* requireBundle(id)
    const resumed = yield* lease.resume(target)
    // As it was under the claim, and nobody trims without one.
    yield* checkWhole(resumed.record, resumeOptions)
    return yield* reopen(target, resumed, update)
  })

  const resume = Effect.fn("RunStore.resume")((id: RunId.RunId, resumeOptions?: ResumeOptions) =>
    following(get(id))(Effect.uninterruptible(tentatively(goOn(id, resumeOptions))))
  )

  // == writing

  /** A bundle that has gone has no record either, and nothing is wrong with it. */
  const whyNotWritten = Effect.fnUntraced(function*(id: RunId.RunId, cause: Errno | RecordError) {
    if (cause._tag === "Errno") return new StoreError({ reason: StoreReason.System({ errno: cause }) })
    return cause.reason._tag === "Missing" && (yield* lookAt(id)) === undefined
      ? new StoreError({ reason: StoreReason.NoSuchRun({ name: id }) })
      : unusable(id, cause)
  })

  const update: RunStore["Service"]["update"] = (id, change, updateOptions) =>
    requireBundle(id).pipe(
      Effect.andThen(RecordFile.update(dir(id), change, updateOptions)),
      Effect.catchTags({
        Errno: (cause) => Effect.flatMap(whyNotWritten(id, cause), Effect.fail),
        RecordError: (cause) => Effect.flatMap(whyNotWritten(id, cause), Effect.fail)
      }),
      following(get(id))
    )

  const pin = Effect.fn("RunStore.pin")(function*(id: RunId.RunId, reason?: string) {
    const made = { reason: reason ?? "pinned by hand", at: timestamp(yield* DateTime.now) }
    const isKept = ({ pin }: RunRecord) => pin !== undefined && reason === undefined
    return yield* update(id, (record) => isKept(record) ? record : { ...record, pin: made }, { fsync: true })
  })

  const unpin = Effect.fn("RunStore.unpin")((id: RunId.RunId) =>
    update(id, ({ pin: _, ...record }) => record as RunRecord, { fsync: true })
  )

  return RunStore.of({
    root,
    id: storeId,
    dir,
    create,
    resume,
    list: listFrom(""),
    get,
    liveness,
    latest,
    find,
    update,
    pin,
    unpin
  })
})

/** Only what a run id may begin with; anything else cannot be the beginning of one. */
const prefixGrammar = /^\d{1,8}$|^\d{8}T\d{0,9}$|^\d{8}T\d{9}Z(-[0-9a-z]{0,8})?$/

const sharesBeginning = (left: string, right: string) => left.startsWith(right) || right.startsWith(left)

/**
 * Opens a store, or makes it, with leases by kernel locks.
 *
 * **Example** (The newest run that failed)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as RunStore from "leasehold/RunStore"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* RunStore.RunStore
 *   const entry = yield* store.latest("error")
 *   console.log(entry.dir)
 * }).pipe(Effect.provide(RunStore.layer({ root: "/srv/builds" })))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options = {}): Layer.Layer<RunStore | Lease, StoreError> =>
  layerWithoutLease(options).pipe(Layer.provideMerge(KernelLease.layer))

/**
 * The same with options from configuration.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConfig = (
  options: Config.Wrap<Options>
): Layer.Layer<RunStore | Lease, StoreError | Config.ConfigError> =>
  Layer.unwrap(Effect.map(Config.unwrap(options), layer))

/**
 * The same, with leases of another kind.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerWithoutLease = (options: Options = {}): Layer.Layer<RunStore, StoreError, Lease> =>
  Layer.effect(RunStore, make(options))

export type { Bundle, Draft, Entry } from "./Bundle.ts"
