/**
 * A run: a program that works in a bundle of its own, under a lease, until its clean-up and its telemetry are done.
 *
 * Guarantees. Acquired in this order: store, lease, bundle, telemetry, the program and its scoped finalizers. Released
 * in reverse, so that the lease goes last: finalizers, telemetry flush, log close, final record, holder file, lease.
 * With {@link scoped} the outcome is on the disk before the first finalizer starts, and a finalizer that fails or dies
 * is logged and does not change it. A finalizer that hangs keeps the lease, as it must.
 *
 * Limits. An exception outside a fiber, `process.exit()` and SIGKILL skip finalizers; the record then stays `running`
 * with a free lease, which anybody can tell from a run that goes on.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import * as ArtifactName from "./ArtifactName.ts"
import { Files } from "./internal/Files.ts"
import * as Signals from "./internal/Signals.ts"
import { variable } from "./internal/StoreRoot.ts"
import type { Lease, LeaseError, Shared } from "./Lease.ts"
import * as Outcome from "./Outcome.ts"
import * as Redaction from "./Redaction.ts"
import type { PolicyError } from "./RetentionPolicy.ts"
import { isRunId, type RunId } from "./RunId.ts"
import { type RunCommand, type RunRecord, type Tags, timestamp } from "./RunRecord.ts"
import * as RunRetention from "./RunRetention.ts"
import * as RunStore from "./RunStore.ts"
import { StoreError, StoreReason } from "./StoreError.ts"
import * as Telemetry from "./Telemetry.ts"

/**
 * What a run is started with.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** What people call it; it need not be unique. */
  readonly name: string
  readonly tags?: Tags | undefined
  /** The command that it runs; secrets in it are redacted before it is written. */
  readonly command?: RunCommand | undefined
  /** More secrets than the usual ones, to be redacted from the command and from messages. */
  readonly redact?: ReadonlyArray<RegExp> | undefined
  readonly telemetry?: Telemetry.Options | undefined
  /** One bounded pass of retention beside the program; on, with the standard policy. */
  readonly retention?: RunRetention.Options | undefined
  /** Go on, unprotected, where the file system has no locks. The record says so, and nothing will ever remove it. */
  readonly unprotected?: boolean | undefined
}

/**
 * The paths in a bundle.
 *
 * @category models
 * @since 0.1.0
 */
export interface Paths {
  readonly record: string
  readonly logs: string
  readonly telemetry: string
  readonly temp: string
  readonly artifacts: string
}

/**
 * The current run.
 *
 * @category services
 * @since 0.1.0
 */
export class Run extends Context.Service<Run, {
  readonly id: RunId
  readonly name: string
  readonly dir: string
  readonly paths: Paths
  readonly parent: RunId | undefined
  /** The path of an artifact, `report.html` or `coverage/index.html`, with the directories above it made. */
  readonly artifact: (name: string) => Effect.Effect<string, ArtifactName.BadArtifactName | StoreError | LeaseError>
  /** Adds tags to the record. */
  readonly annotate: (tags: Tags) => Effect.Effect<void, StoreError | LeaseError>
  /** Orders the bundle to be kept, whatever the policy says. */
  readonly pin: (reason: string) => Effect.Effect<void, StoreError | LeaseError>
  /**
   * Says how the run ended, for programs that know it better than their exit does. Written at once; the first word
   * stands.
   */
  readonly conclude: (outcome: Outcome.Outcome) => Effect.Effect<void, StoreError>
  /** What a child must find in its environment to know that it works in this run. */
  readonly environment: Readonly<Record<string, string>>
  /** Fails with `LeaseLost` when something other than Leasehold has taken the lease file away. */
  readonly check: Effect.Effect<void, LeaseError>
  /** A lease for a child, to be handed on as a file descriptor. */
  readonly share: Effect.Effect<Shared, LeaseError, Scope.Scope>
}>()("leasehold/Run") {}

/** Why what was done may not be on the disk or may not have been protected. */
type Trouble = StoreError | LeaseError

/** A run that has begun. `finish` is for whoever knows the program's exit before the scope does. */
interface Session {
  readonly services: Context.Context<Run>
  readonly finish: (exit: Exit.Exit<unknown, unknown>) => Effect.Effect<void>
  readonly trouble: () => Trouble | undefined
}

const pathsOf = (dir: string): Paths => ({
  record: `${dir}/run.json`,
  logs: `${dir}/logs`,
  telemetry: `${dir}/telemetry`,
  temp: `${dir}/temp`,
  artifacts: `${dir}/artifacts`
})

/** A run inside a run has the outer one for parent, be it in this process or in the one that started it. */
const findParent = Effect.fnUntraced(function*(root: string) {
  const outer = yield* Effect.serviceOption(Run)
  if (Option.isSome(outer)) return outer.value.id
  const id = yield* variable("LEASEHOLD_RUN_ID")
  return id !== undefined && isRunId(id) && (yield* variable("LEASEHOLD_ROOT")) === root ? id : undefined
})

const redactCommand = (command: RunCommand, redactor: Redaction.Redactor): RunCommand => ({
  ...command,
  argv: redactor.argv(command.argv)
})

const begin = Effect.fnUntraced(function*(options: Options) {
  const store = yield* RunStore.RunStore
  const redactor = options.redact === undefined ? Redaction.standard : Redaction.make({ patterns: options.redact })
  const retention = yield* RunRetention.prepare(options.retention)
  const parent = yield* findParent(store.root)
  const bundle = yield* store.create({
    name: options.name,
    tags: options.tags ?? {},
    parent,
    command: options.command === undefined ? undefined : redactCommand(options.command, redactor),
    unprotected: options.unprotected
  })
  const { dir, id } = bundle
  let known = bundle.record
  let trouble: Trouble | undefined

  const write = Effect.fnUntraced(function*(change: (record: RunRecord) => RunRecord, fsync = false) {
    known = yield* store.update(id, change, { fsync, lost: known })
  })

  const conclude = Effect.fnUntraced(function*(outcome: Outcome.Outcome) {
    const endedAt = timestamp(yield* DateTime.now)
    yield* write((record) => Outcome.record(record, outcome, endedAt))
  })

  /** For the places that cannot fail any more: what went wrong is said, kept for whoever still can, and passed by. */
  const orRemember = <A>(effect: Effect.Effect<A, Trouble>) =>
    Effect.catch(effect, (error) => {
      trouble ??= error
      return Effect.logError(error.message)
    })

  const finish = (exit: Exit.Exit<unknown, unknown>) =>
    known.status !== "running"
      ? Effect.void
      : orRemember(conclude(Outcome.fromExit(exit, { signal: Signals.received(), redact: redactor.text })))

  // Registered after the lease was taken and before telemetry starts, so that it runs between the two.
  yield* Effect.addFinalizer((exit) =>
    Effect.gen(function*() {
      yield* finish(exit)
      const releasedAt = timestamp(yield* DateTime.now)
      yield* orRemember(write((record) => ({ ...record, releasedAt }), true))
      yield* orRemember(bundle.lease.check)
    })
  )

  const protectedly = <A, E>(effect: Effect.Effect<A, E>) => Effect.andThen(bundle.lease.check, effect)
  const run = Run.of({
    id,
    name: options.name,
    dir,
    paths: pathsOf(dir),
    parent,
    artifact: (name) =>
      protectedly(Effect.gen(function*() {
        const files = yield* Files
        const path = `${dir}/artifacts/${yield* Effect.fromResult(ArtifactName.parse(name))}`
        yield* files.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true }).pipe(
          Effect.mapError((errno) => new StoreError({ reason: StoreReason.System({ errno }) }))
        )
        return path
      })),
    annotate: (tags) => protectedly(write((record) => ({ ...record, tags: { ...record.tags, ...tags } }))),
    pin: (reason) =>
      protectedly(
        Effect.flatMap(DateTime.now, (now) => write((record) => ({ ...record, pin: { reason, at: timestamp(now) } })))
      ),
    conclude,
    environment: { LEASEHOLD_ROOT: store.root, LEASEHOLD_RUN_ID: id, LEASEHOLD_RUN_DIR: dir },
    check: bundle.lease.check,
    share: bundle.lease.share
  })
  yield* retention.begin(id)
  const sinks = yield* Layer.build(Telemetry.layer(run, options.telemetry))
  const session: Session = {
    services: Context.add(sinks, Run, run),
    finish,
    trouble: () => trouble
  }
  return session
})

/**
 * Runs a program in a run of its own.
 *
 * The program's finalizers belong to the run: they start when its outcome has been written. When the program succeeds
 * but its record could not be written, or its lease was lost on the way, that is what the result says.
 *
 * **Example** (A job that cleans up after itself)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Run from "leasehold/Run"
 * import * as RunStore from "leasehold/RunStore"
 *
 * const job = Effect.gen(function*() {
 *   const run = yield* Run.Run
 *   yield* Effect.addFinalizer(() => Effect.log("cleaning up, still under the lease"))
 *   yield* Effect.log(`report goes to ${yield* run.artifact("report.txt")}`)
 * })
 *
 * job.pipe(Run.scoped({ name: "report" }), Effect.provide(RunStore.layer()), Effect.runPromise)
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const scoped = (options: Options) =>
<A, E, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<
  A,
  E | StoreError | LeaseError | PolicyError,
  Exclude<Exclude<Exclude<R, Tracer.ParentSpan>, Scope.Scope>, Run> | RunStore.RunStore | Lease
> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const lifetime = yield* Scope.make("sequential")
      const session = yield* begin(options).pipe(
        Scope.provide(lifetime),
        Effect.onError((cause) => Scope.close(lifetime, Exit.failCause(cause)))
      )
      const hooks = yield* Scope.fork(lifetime, "sequential")
      const exit = yield* restore(Effect.withSpan(program, options.name, { kind: "internal" })).pipe(
        Scope.provide(hooks),
        Effect.provideContext(session.services),
        Effect.exit
      )
      yield* session.finish(exit)
      yield* Scope.close(hooks, exit).pipe(
        Effect.catchCause((cause) => Effect.logError("a clean-up hook failed", cause)),
        Effect.provideContext(session.services)
      )
      yield* Scope.close(lifetime, exit)
      const trouble = session.trouble()
      return yield* trouble !== undefined && Exit.isSuccess(exit) ? Effect.fail(trouble) : exit
    })
  )

/**
 * Provides the current run, in a store that is provided already.
 *
 * @see {@link layer} for what a layer can and cannot promise.
 * @category layers
 * @since 0.1.0
 */
export const layerInStore = (
  options: Options
): Layer.Layer<Run, StoreError | LeaseError | PolicyError, RunStore.RunStore | Lease> =>
  Layer.fresh(Layer.effectContext(Effect.map(begin(options), (session) => session.services)))

/**
 * Provides the current run, and the store it is in.
 *
 * Every time it is provided it makes a run of its own: nested in another run, also one from this very layer, it gets its
 * own bundle with `parent` set.
 *
 * **Gotchas** A layer learns of the program's exit only when it is released, after the finalizers of scopes inside it.
 * With {@link scoped} the outcome is written before clean-up starts, and a failing finalizer cannot change it.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options & { readonly store?: RunStore.Options | undefined }
): Layer.Layer<Run | RunStore.RunStore | Lease, StoreError | LeaseError | PolicyError> =>
  Layer.fresh(layerInStore(options).pipe(Layer.provideMerge(RunStore.layer(options.store))))

export { main } from "./RunMain.ts"
