/**
 * Layers for tests of programs that use Leasehold.
 *
 * {@link layerStore} is a real store in a directory that goes with the test. {@link layerRun} is a run that touches no
 * disk. {@link layerLease} is a lease within the process that can be told what to say; `RunStore.layerWithoutLease` takes
 * it. Trimming, archiving, restoring and going on work with either store as they do anywhere.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as NodeOs from "node:os"
import * as ArtifactName from "../ArtifactName.ts"
import { Files } from "../internal/Files.ts"
import { nonce } from "../internal/io.ts"
import * as RecordFile from "../internal/RecordFile.ts"
import { type Held, Lease, LeaseError, LeaseReason, makeClaim, type Target } from "../Lease.ts"
import { Doubt, Liveness } from "../Liveness.ts"
import * as OnRemove from "../OnRemove.ts"
import * as Outcome from "../Outcome.ts"
import * as Redaction from "../Redaction.ts"
import { Run } from "../Run.ts"
import * as RunId from "../RunId.ts"
import { type RunRecord, timestamp, version } from "../RunRecord.ts"
import * as RunStore from "../RunStore.ts"

const temporaryRoot = Effect.acquireRelease(
  Effect.gen(function*() {
    const files = yield* Files
    const root = `${NodeOs.tmpdir()}/leasehold-test-${yield* nonce}${yield* nonce}`
    yield* Effect.orDie(files.mkdir(root))
    return root
  }),
  (root) => Effect.flatMap(Files, (files) => Effect.orDie(files.removeOwnTree(root)))
)

/**
 * A store in a new directory below the system's temp directory, removed when the test ends.
 *
 * **Example** (A program under test)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Run from "leasehold/Run"
 * import * as TestLayers from "leasehold/testing"
 *
 * const tested = Effect.flatMap(Run.Run, (run) => run.artifact("report.txt")).pipe(
 *   Run.scoped({ name: "under test" }),
 *   Effect.provide(TestLayers.layerStore)
 * )
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerStore: Layer.Layer<RunStore.RunStore | Lease> = Layer.fresh(
  Layer.unwrap(Effect.map(temporaryRoot, (root) => Layer.orDie(RunStore.layer({ root, allowTemp: true }))))
)

/**
 * What a run without a disk was told.
 *
 * @category services
 * @since 0.1.0
 */
export class TestRun extends Context.Service<TestRun, {
  readonly record: Effect.Effect<RunRecord>
  readonly artifacts: Effect.Effect<ReadonlyArray<string>>
}>()("leasehold/testing/TestRun") {}

/**
 * A run that writes nothing: `artifact` gives paths below `/leasehold-test` that nobody has made, and {@link TestRun}
 * tells what was recorded.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerRun = (options: { readonly name?: string | undefined } = {}): Layer.Layer<Run | TestRun> =>
  Layer.fresh(Layer.effectContext(Effect.gen(function*() {
    const id = yield* RunId.generate
    const dir = `/leasehold-test/${id}`
    const name = options.name ?? "test"
    const startedAt = timestamp(RunId.startedAt(id))
    const initial: RunRecord = { version, id, name, status: "running", startedAt, attempts: [], tags: {} }
    const record = yield* Ref.make(initial)
    const artifacts = yield* Ref.make<ReadonlyArray<string>>([])
    const change = (f: (record: RunRecord, now: DateTime.Utc) => RunRecord) =>
      Effect.flatMap(DateTime.now, (now) => Ref.update(record, (before) => f(before, now)))
    const run = Run.of({
      id,
      name,
      dir,
      paths: {
        record: `${dir}/run.json`,
        logs: `${dir}/logs`,
        telemetry: `${dir}/telemetry`,
        temp: `${dir}/temp`,
        artifacts: `${dir}/artifacts`
      },
      parent: undefined,
      artifact: (artifact) =>
        Effect.fromResult(ArtifactName.parse(artifact)).pipe(
          Effect.tap((checked) => Ref.update(artifacts, (before) => [...before, checked])),
          Effect.map((checked) => `${dir}/artifacts/${checked}`)
        ),
      annotate: (tags) => change((before) => ({ ...before, tags: { ...before.tags, ...tags } })),
      pin: (reason) => change((before, now) => ({ ...before, pin: { reason, at: timestamp(now) } })),
      onRemove: Effect.fnUntraced(function*(undo, settings = {}) {
        const settled = yield* Effect.fromResult(OnRemove.settle(undo, settings, Redaction.standard, process.cwd()))
        const at = timestamp(yield* DateTime.now)
        const undoId = yield* nonce
        const next = OnRemove.register(yield* Ref.get(record), settled, undoId, at)
        yield* Ref.set(record, yield* Effect.fromResult(next))
        return undoId
      }),
      withdraw: (undoId) => Ref.update(record, (before) => OnRemove.withdraw(before, undoId)),
      registered: Effect.map(Ref.get(record), ({ onRemove = [] }) => onRemove),
      conclude: (outcome) => change((before, now) => Outcome.record(before, outcome, timestamp(now))),
      environment: { LEASEHOLD_RUN_ID: id, LEASEHOLD_RUN_DIR: dir },
      check: Effect.void,
      share: Effect.fail(new LeaseError({ id, reason: LeaseReason.NoLocks({ code: "ENOSYS" }) }))
    })
    return Context.make(Run, run).pipe(
      Context.add(TestRun, TestRun.of({ record: Ref.get(record), artifacts: Ref.get(artifacts) }))
    )
  })))

/**
 * What {@link layerLease} may be told to say of every bundle; `undefined` lets it say how things are.
 *
 * @category models
 * @since 0.1.0
 */
export type ToldState = "free" | "held" | "unknown" | undefined

/**
 * Tells the lease what to say from now on.
 *
 * @category services
 * @since 0.1.0
 */
export class TestLease extends Context.Service<TestLease, {
  readonly tell: (state: ToldState) => Effect.Effect<void>
}>()("leasehold/testing/TestLease") {}

interface Standing {
  readonly holders: number
  readonly claimed: boolean
}

const nobody: Standing = { holders: 0, claimed: false }

/**
 * A lease within this process, without locks: it keeps the contract among the fibers of a test, and says of every bundle
 * what it is told to. Records are read from the disk, as ever.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerLease: Layer.Layer<Lease | TestLease> = Layer.fresh(Layer.effectContext(Effect.sync(() => {
  const standings = new Map<string, Standing>()
  let told: ToldState
  const standing = (id: string) => standings.get(id) ?? nobody
  const change = (id: string, f: (before: Standing) => Standing) => void standings.set(id, f(standing(id)))
  const refuse = (target: Target, reason: LeaseReason) => Effect.fail(new LeaseError({ id: target.id, reason }))

  const acquire = (target: Target) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        if (standing(target.id).claimed) return refuse(target, LeaseReason.Claimed({ holders: [] }))
        return Effect.sync(() => change(target.id, (before) => ({ ...before, holders: before.holders + 1 })))
      }),
      () => Effect.sync(() => change(target.id, (before) => ({ ...before, holders: before.holders - 1 })))
    )
  const exclude = (target: Target) =>
    Effect.acquireRelease(
      Effect.sync(() => change(target.id, (before) => ({ ...before, claimed: true }))),
      () => Effect.sync(() => change(target.id, (before) => ({ ...before, claimed: false })))
    )
  const held = (target: Target): Held => ({
    protected: true,
    check: Effect.void,
    share: refuse(target, LeaseReason.NoLocks({ code: "ENOSYS" })),
    moved: () => Effect.void
  })
  const hold: Lease["Service"]["hold"] = Effect.fnUntraced(function*(target, options) {
    const patience = Duration.toMillis(options.patience ?? "5 seconds")
    yield* acquire(target).pipe(
      Effect.retry({
        while: (error) => error.reason._tag === "Claimed",
        schedule: Schedule.spaced("5 millis").pipe(Schedule.upTo({ duration: patience }))
      })
    )
    return held(target)
  })
  const create: Lease["Service"]["create"] = Effect.fnUntraced(function*(target) {
    const files = yield* Files
    yield* Effect.orDie(files.mkdir(`${target.dir}/holders`))
    yield* acquire(target)
    return held(target)
  })
  const probe: Lease["Service"]["probe"] = Effect.fnUntraced(function*(target) {
    const { claimed, holders } = standing(target.id)
    if (told === "held" || (told === undefined && (claimed || holders > 0))) return Liveness.Live({ holders: [] })
    if (told === "unknown") return Liveness.Unknown({ doubt: Doubt.LeaseUnusable({ code: "EIO" }) })
    const record = yield* RecordFile.read(target.dir)
    return Result.isSuccess(record)
      ? Liveness.Dead({ proof: "lease free", record: record.success })
      : Liveness.Unknown({ doubt: Doubt.RecordUnusable({ error: record.failure }) })
  })
  const claim: Lease["Service"]["claim"] = Effect.fnUntraced(function*(target) {
    const answer = yield* probe(target)
    if (answer._tag === "Live") return yield* refuse(target, LeaseReason.Held({ holders: answer.holders }))
    if (answer._tag === "Unknown") return yield* refuse(target, LeaseReason.Undecided({ doubt: answer.doubt }))
    yield* exclude(target)
    return makeClaim(target, answer.record)
  })
  const claimBare: Lease["Service"]["claimBare"] = Effect.fnUntraced(function*(target) {
    const answer = yield* probe(target)
    if (answer._tag === "Live") return yield* refuse(target, LeaseReason.Held({ holders: answer.holders }))
    if (answer._tag === "Unknown" && answer.doubt._tag !== "RecordUnusable") {
      return yield* refuse(target, LeaseReason.Undecided({ doubt: answer.doubt }))
    }
    yield* exclude(target)
    return { target, record: yield* RecordFile.read(target.dir) }
  })
  const resume: Lease["Service"]["resume"] = Effect.fnUntraced(function*(target) {
    const scope = yield* Effect.scope
    // Counted as a holder before the claim is let go, so that nobody comes in between.
    const record = yield* Effect.scoped(Effect.gen(function*() {
      const { record } = yield* claim(target)
      change(target.id, (before) => ({ ...before, holders: before.holders + 1 }))
      const leave = () => change(target.id, (before) => ({ ...before, holders: before.holders - 1 }))
      yield* Scope.addFinalizer(scope, Effect.sync(leave))
      return record
    }))
    return { held: held(target), record }
  })

  return Context.make(Lease, Lease.of({ create, hold, claim, claimBare, resume, probe })).pipe(
    Context.add(TestLease, TestLease.of({ tell: (state) => Effect.sync(() => void (told = state)) }))
  )
})))
