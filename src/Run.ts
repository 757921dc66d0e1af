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
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import type { ArchiveError } from "./ArchiveError.ts"
import { obstacle, usable } from "./Bundle.ts"
import { Run } from "./CurrentRun.ts"
import { variable } from "./internal/Environment.ts"
import { resume as resumeFrom } from "./internal/Resuming.ts"
import * as RunSession from "./internal/RunSession.ts"
import { following } from "./internal/Whereabouts.ts"
import { Lease, type LeaseError } from "./Lease.ts"
import * as Redaction from "./Redaction.ts"
import type { BudgetError } from "./RetentionBudget.ts"
import type { PolicyError } from "./RetentionPolicy.ts"
import { isRunId } from "./RunId.ts"
import type { RunCommand, Tags } from "./RunRecord.ts"
import * as RunRetention from "./RunRetention.ts"
import * as RunStore from "./RunStore.ts"
import { StoreError, StoreReason, unusable } from "./StoreError.ts"
import type * as Telemetry from "./Telemetry.ts"

/**
 * What a start and a resume have in common.
 *
 * @category options
 * @since 0.1.0
 */
export interface Shared {
  /** More secrets than the usual ones, to be redacted from the command and from messages. */
  readonly redact?: ReadonlyArray<RegExp> | undefined
  readonly telemetry?: Telemetry.Options | undefined
  /** One bounded pass of retention beside the program; on, with the standard policy. */
  readonly retention?: RunRetention.Options | undefined
}

/**
 * How a run is gone on with.
 *
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions extends Shared, RunStore.ResumeOptions {}

/**
 * How a run is joined.
 *
 * @category options
 * @since 0.1.0
 */
export interface AttachOptions {
  /** The run, as a person names it; else the one that the environment names. */
  readonly run?: string | undefined
  /** How long to wait for a claim that is being worked; 5 seconds. */
  readonly patience?: Duration.Input | undefined
  readonly telemetry?: Telemetry.Options | undefined
}

/**
 * What a run is started with.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options extends Shared {
  /** What people call it; it need not be unique. */
  readonly name: string
  /**
   * A run, as a person names it, to begin from: its artifacts are copied, as they are at that moment, before anybody
   * sees the new bundle, and its tags and command are those of the new run where none are given. It is not changed, and
   * may be at work.
   */
  readonly from?: string | undefined
  readonly tags?: Tags | undefined
  /** The command that it runs; secrets in it are redacted before it is written. */
  readonly command?: RunCommand | undefined
  /** Go on, unprotected, where the file system has no locks. The record says so, and nothing will ever remove it. */
  readonly unprotected?: boolean | undefined
}

/** A run inside a run has the outer one for parent, be it in this process or in the one that started it. */
const findParent = Effect.fnUntraced(function*(root: string) {
  const outer = yield* Effect.serviceOption(Run)
  if (Option.isSome(outer)) return outer.value.environment["LEASEHOLD_ROOT"] === root ? outer.value.id : undefined
  const id = yield* variable("LEASEHOLD_RUN_ID")
  return id !== undefined && isRunId(id) && (yield* variable("LEASEHOLD_ROOT")) === root ? id : undefined
})

const redactorOf = ({ redact }: Shared) =>
  redact === undefined ? Redaction.standard : Redaction.make({ patterns: redact })

/** Everything from the lease to the sinks, in the order in which it is let go of from behind. */
const begin = Effect.fnUntraced(function*<E, R>(
  options: Shared,
  redactor: Redaction.Redactor,
  acquire: Effect.Effect<RunStore.Bundle, E, R>
) {
  const retention = yield* RunRetention.prepare(options.retention)
  const bundle = yield* acquire
  yield* retention.begin(bundle.id)
  return yield* RunSession.own(bundle, { telemetry: options.telemetry, redactor })
})

const start = Effect.fnUntraced(function*(options: Options) {
  const store = yield* RunStore.RunStore
  const redactor = redactorOf(options)
  const source = options.from === undefined
    ? undefined
    : yield* Effect.fromResult(usable(yield* store.find(options.from)))
  const command = options.command ?? source?.command
  const parent = yield* findParent(store.root)
  const draft: RunStore.Draft = {
    name: options.name,
    tags: options.tags ?? source?.tags ?? {},
    parent,
    forkedFrom: source?.id,
    command: command === undefined ? undefined : { ...command, argv: redactor.argv(command.argv) },
    unprotected: options.unprotected
  }
  return yield* begin(options, redactor, store.create(draft))
})

const goOn = Effect.fnUntraced(function*(name: string, options: ResumeOptions) {
  const store = yield* RunStore.RunStore
  return yield* begin(options, redactorOf(options), resumeFrom(store, name, options))
})

/** The run that the environment names, if it is one of this store. */
const findOwn = Effect.fnUntraced(function*(store: RunStore.RunStore["Service"]) {
  const root = yield* variable("LEASEHOLD_ROOT")
  const id = yield* variable("LEASEHOLD_RUN_ID")
  const refuse = (problem: string) => Effect.fail(new StoreError({ reason: StoreReason.NotInRun({ problem }) }))
  if (id === undefined || root === undefined) return yield* refuse("LEASEHOLD_RUN_ID or LEASEHOLD_ROOT is not set")
  if (root !== store.root) return yield* refuse(`LEASEHOLD_ROOT is ${root}, and the store is ${store.root}`)
  if (!isRunId(id)) return yield* refuse("LEASEHOLD_RUN_ID is not a run id")
  return yield* store.get(id)
})

const enter = Effect.fnUntraced(function*(options: AttachOptions) {
  const store = yield* RunStore.RunStore
  const lease = yield* Lease
  const found = yield* (options.run === undefined ? findOwn(store) : store.find(options.run))
  const { dir, id } = found
  const error = obstacle(found)
  if (error !== undefined) return yield* unusable(id, error)
  // The lease before anything else: only under it is what is read still true.
  const hold = lease.hold({ id, dir }, { role: "joined", patience: options.patience })
  const held = yield* following(store.get(id))(hold)
  const record = yield* Effect.fromResult(usable(yield* store.get(id)))
  return yield* RunSession.join({ id, dir, record, lease: held }, options)
})

const servicesOf = ({ run, sinks }: RunSession.Session) => Context.add(sinks, Run, Run.of(run))

/** Drives a program in a session: its outcome first, then its finalizers, then everything else. */
const drive = <E2, R2>(session: Effect.Effect<RunSession.Session, E2, R2 | Scope.Scope>) =>
<A, E, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<
  A,
  E | E2 | StoreError | LeaseError,
  Exclude<Exclude<R, Scope.Scope>, Run> | Exclude<R2 | Scope.Scope, Scope.Scope>
> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const lifetime = yield* Scope.make("sequential")
      const current = yield* session.pipe(
        Scope.provide(lifetime),
        Effect.onError((cause) => Scope.close(lifetime, Exit.failCause(cause)))
      )
      const services = servicesOf(current)
      const hooks = yield* Scope.fork(lifetime, "sequential")
      const exit = yield* restore(program).pipe(
        Scope.provide(hooks),
        Effect.provideContext(services),
        Effect.exit
      )
      // Whatever comes in between, the hooks run and the lease is let go.
      yield* current.finish(exit).pipe(
        Effect.ensuring(
          Scope.close(hooks, exit).pipe(
            Effect.catchCause((cause) => Effect.logError("a clean-up hook failed", cause)),
            Effect.provideContext(services)
          )
        ),
        Effect.ensuring(Scope.close(lifetime, exit))
      )
      const trouble = current.trouble()
      return yield* trouble !== undefined && Exit.isSuccess(exit) ? Effect.fail(trouble) : exit
    })
  )

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
): Effect.Effect<A, E | StoreError | LeaseError | PolicyError | BudgetError, Needed<R>> =>
  drive(start(options))(inSpan(options.name, program))

/**
 * Goes on with a run that nobody works in, as its new owner: the same bundle, a new attempt in its record, `running`
 * again. Never waits: `Held` names who works in it, or on it. The run is named as a person would, by its id, the beginning
 * of one, `latest` or `latest:STATUS`. One that was trimmed since it ended is refused, unless `rebuilds` says that the
 * program can make again what was taken out.
 *
 * **Gotchas** A removal that began and did not come to its end may have undone some of what the run had registered. The
 * program finds that in `registered` of {@link Run}: what has a `doneAt` it has to register and make again.
 *
 * @category running
 * @since 0.1.0
 */
export const resume = (name: string, options: ResumeOptions = {}) =>
<A, E, R>(
  program: Effect.Effect<A, E, R>
): Effect.Effect<A, E | StoreError | LeaseError | ArchiveError | PolicyError | BudgetError, Needed<R>> =>
  drive(goOn(name, options))(inSpan(name, program))

/**
 * Works in a run that another process owns, as a holder: the bundle is safe until the program and its finalizers are
 * done, and the run's outcome is not touched. Without `run` it is the run that this process finds itself in, by its
 * environment. `RunGone` when it came too late.
 *
 * @category running
 * @since 0.1.0
 */
export const attach =
  (options: AttachOptions = {}) =>
  <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E | StoreError | LeaseError, Needed<R>> =>
    drive(enter(options))(inSpan("attached", program))

type Needed<R> = Exclude<Exclude<Exclude<R, Tracer.ParentSpan>, Scope.Scope>, Run> | RunStore.RunStore | Lease

const inSpan = <A, E, R>(name: string, program: Effect.Effect<A, E, R>) =>
  Effect.withSpan(program, name, { kind: "internal" })

/**
 * Provides the current run, in a store that is provided already.
 *
 * @see {@link layer} for what a layer can and cannot promise.
 * @category layers
 * @since 0.1.0
 */
export const layerInStore = (
  options: Options
): Layer.Layer<Run, StoreError | LeaseError | PolicyError | BudgetError, RunStore.RunStore | Lease> =>
  Layer.fresh(Layer.effectContext(Effect.map(start(options), servicesOf)))

/**
 * Provides the current run, and the store it is in.
 *
 * Every time it is provided it makes a run of its own: nested in another run, also one from this very layer, it gets its
 * own bundle with `parent` set.
 *
 * **Gotchas** A layer learns of the program's exit only when it is released, after the finalizers of scopes inside it.
 * With {@link scoped} the outcome is written before clean-up starts, a failing finalizer cannot change it, and a record
 * that could not be written or a lease that was lost is what a successful program answers; here it is logged. Who
 * releases the layer without an exit, as `ManagedRuntime` does, says how the run ended by `conclude`; else it is `ok`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options & { readonly store?: RunStore.Options | undefined }
): Layer.Layer<Run | RunStore.RunStore | Lease, StoreError | LeaseError | PolicyError | BudgetError> =>
  Layer.fresh(layerInStore(options).pipe(Layer.provideMerge(RunStore.layer(options.store))))

export { onRemove, type Paths, Run } from "./CurrentRun.ts"
export { main } from "./RunMain.ts"
