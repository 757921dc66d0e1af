/**
 * One run from the inside: the service that its program is given, and what happens at its end.
 */
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as ArtifactName from "../ArtifactName.ts"
import { type Bundle, usable } from "../Bundle.ts"
import type { Paths, Run } from "../CurrentRun.ts"
import type { Held, LeaseError } from "../Lease.ts"
import * as OnRemove from "../OnRemove.ts"
import * as Outcome from "../Outcome.ts"
import * as Redaction from "../Redaction.ts"
import type { RunId } from "../RunId.ts"
import { isTerminal, type RunRecord, timestamp } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { orSystem, type StoreError } from "../StoreError.ts"
import * as Telemetry from "../Telemetry.ts"
import { Files } from "./Files.ts"
import { nonce, requireDirectory } from "./io.ts"
import * as Signals from "./Signals.ts"
import { workingDirectory } from "./WorkingDirectory.ts"

/** Why what was done may not be on the disk or may not have been protected. */
type Trouble = StoreError | LeaseError

/**
 * A run that has begun. `finish` is for whoever knows the program's exit before the scope does.
 *
 * @internal
 */
export interface Session {
  readonly run: Run["Service"]
  readonly sinks: Context.Context<never>
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

/** One below the other, since a link on the way would lead out of the bundle. */
const makeArtifact = Effect.fnUntraced(function*(dir: string, name: string) {
  const files = yield* Files
  const path = `${dir}/artifacts/${yield* Effect.fromResult(ArtifactName.parse(name))}`
  for (let end = `${dir}/artifacts`.length; end !== -1; end = path.indexOf("/", end + 1)) {
    const above = path.slice(0, end)
    yield* orSystem(
      Effect.catchIf(files.mkdir(above), ({ code }) => code === "EEXIST", () => requireDirectory(above))
    )
  }
  return path
})

interface Inside {
  readonly id: RunId
  readonly dir: string
  readonly root: string
  readonly record: RunRecord
  readonly lease: Held
  readonly write: (change: (record: RunRecord) => RunRecord, fsync?: boolean) => Effect.Effect<void, StoreError>
  readonly read: Effect.Effect<RunRecord, StoreError>
  readonly redactor: Redaction.Redactor
  readonly conclude: (outcome: Outcome.Outcome) => Effect.Effect<void, StoreError>
}

const register = Effect.fnUntraced(
  function*({ redactor, write }: Inside, undo: OnRemove.Undo, options: OnRemove.Options) {
    const cwd = yield* orSystem(workingDirectory)
    const settled = yield* Effect.fromResult(OnRemove.settle(undo, options, redactor, cwd))
    const id = yield* nonce
    const at = timestamp(yield* DateTime.now)
    let refused: OnRemove.OnRemoveError | undefined
    yield* write((before) => {
      const registered = OnRemove.register(before, settled, id, at)
      refused = Result.isFailure(registered) ? registered.failure : undefined
      return Result.getOrElse(registered, () => before)
    }, true)
    return refused === undefined ? id : yield* refused
  }
)

/** Whoever lost the lease learns it before anything more is written in its name. */
const serviceOf = (inside: Inside): Run["Service"] => {
  const { conclude, dir, id, lease, read, record, root, write } = inside
  const protectedly = <A, E>(effect: Effect.Effect<A, E>) => Effect.andThen(lease.check, effect)
  return {
    id,
    name: record.name,
    dir,
    paths: pathsOf(dir),
    parent: record.parent,
    artifact: (name) => protectedly(makeArtifact(dir, name)),
    annotate: (tags) => protectedly(write((before) => ({ ...before, tags: { ...before.tags, ...tags } }))),
    pin: (reason) =>
      protectedly(
        Effect.flatMap(DateTime.now, (now) => write((before) => ({ ...before, pin: { reason, at: timestamp(now) } })))
      ),
    onRemove: (undo, options = {}) => protectedly(register(inside, undo, options)),
    withdraw: (registered) => protectedly(write((before) => OnRemove.withdraw(before, registered), true)),
    registered: Effect.map(read, ({ onRemove = [] }) => onRemove),
    conclude,
    environment: { LEASEHOLD_ROOT: root, LEASEHOLD_RUN_ID: id, LEASEHOLD_RUN_DIR: dir },
    check: lease.check,
    share: lease.share
  }
}

const recordIn = (store: RunStore["Service"], id: RunId) =>
  Effect.flatMap(store.get(id), (entry) => Effect.fromResult(usable(entry)))

/**
 * The session of a run that this process owns. To be acquired when its lease is held, in a scope that the lease
 * outlives: at the end comes the outcome, if nobody wrote it yet, and the final record.
 *
 * @internal
 */
export const own = Effect.fnUntraced(function*(
  bundle: Bundle,
  options: { readonly telemetry?: Telemetry.Options | undefined; readonly redactor: Redaction.Redactor }
): Effect.fn.Return<Session, never, RunStore | Scope.Scope> {
  const store = yield* RunStore
  const { dir, id, lease } = bundle
  let known = bundle.record
  let stated: Outcome.Outcome | undefined
  let trouble: Trouble | undefined

  const write = Effect.fnUntraced(function*(change: (record: RunRecord) => RunRecord, fsync = false) {
    known = yield* store.update(id, change, { fsync, known })
  })

  /** The first word stands, also when it could not be written at once. */
  const conclude = Effect.fnUntraced(function*(outcome: Outcome.Outcome) {
    const { exit } = outcome
    const message = exit.message === undefined ? {} : { message: options.redactor.text(exit.message) }
    stated ??= { ...outcome, exit: { ...exit, ...message } }
    const first = stated
    const endedAt = timestamp(yield* DateTime.now)
    yield* write((record) => Outcome.record(record, first, endedAt))
  })

  /** For the places that cannot fail any more: what went wrong is said, kept for whoever still can, and passed by. */
  const orRemember = <A>(effect: Effect.Effect<A, Trouble>) =>
    Effect.catch(effect, (error) => {
      const isKnown = trouble?.message === error.message
      trouble ??= error
      return isKnown ? Effect.void : Effect.logError(error.message)
    })

  const finish = (exit: Exit.Exit<unknown, unknown>) =>
    isTerminal(known)
      ? Effect.void
      : orRemember(Effect.suspend(() => conclude(Outcome.fromExit(exit, Signals.received()))))

  // Registered after the lease was taken and before telemetry starts, so that it runs between the two.
  yield* Effect.addFinalizer((exit) =>
    Effect.gen(function*() {
      yield* finish(exit)
      const releasedAt = timestamp(yield* DateTime.now)
      yield* orRemember(write((record) => ({ ...record, releasedAt }), true))
      yield* orRemember(lease.check)
    })
  )

  const { redactor } = options
  const read = recordIn(store, id)
  const run = serviceOf({ id, dir, root: store.root, record: known, lease, write, read, redactor, conclude })
  const sinks = yield* Layer.build(Telemetry.layer(run, { redact: redactor.text, ...options.telemetry }))
  return { run, sinks, finish, trouble: () => trouble }
})

/**
 * The session of a process that works in a run it does not own: it holds a lease, and the run's outcome is not its own.
 *
 * @internal
 */
export const join = Effect.fnUntraced(function*(
  joined: { readonly id: RunId; readonly dir: string; readonly record: RunRecord; readonly lease: Held },
  options: { readonly telemetry?: Telemetry.Options | undefined }
): Effect.fn.Return<Session, never, RunStore | Scope.Scope> {
  const store = yield* RunStore
  const run = serviceOf({
    ...joined,
    root: store.root,
    write: (change, fsync) => Effect.asVoid(store.update(joined.id, change, { fsync })),
    read: recordIn(store, joined.id),
    redactor: Redaction.standard,
    conclude: () => Effect.void
  })
  const sinks = yield* Layer.build(Telemetry.layer(run, options.telemetry))
  return { run, sinks, finish: () => Effect.void, trouble: () => undefined }
})
