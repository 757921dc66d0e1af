/**
 * Retention: one bounded pass over a store, which removes what the policy no longer wants and nobody holds.
 *
 * Guarantees. A bundle is removed only under its claim, after everything the decision rests on has been read again
 * under it, and after everything that it has registered has been undone; it leaves the store by one rename, and is
 * deleted afterwards. A live bundle, a pinned one and one of which nothing certain is known are kept, whatever the policy
 * and its flags say. A pass looks at, removes and deletes no more than its budget and ends in time, at twenty bundles as
 * at a million; what it leaves is its debt. A bundle that fails does not hold up those behind it, in this pass or the
 * next.
 *
 * Limits. Two passes do not run at once; the second says so and does nothing. A limit in bytes counts the finished
 * bundles: what a live one takes is not measured. Groups are compared with one another, so with `groupBy` the time to
 * plan grows with the number of bundles.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as Trash from "./internal/Trash.ts"
import { Lease } from "./Lease.ts"
import * as Acting from "./retention/Acting.ts"
import * as Archives from "./retention/Archives.ts"
import * as Discovery from "./retention/Discovery.ts"
import * as Looking from "./retention/Looking.ts"
import { type Frame, isOver, makeLedger, noLeftovers, type Pass } from "./retention/Pass.ts"
import * as PassLock from "./retention/PassLock.ts"
import * as Planning from "./retention/Planning.ts"
import * as Sweeping from "./retention/Sweeping.ts"
import * as RetentionBudget from "./RetentionBudget.ts"
import * as RetentionPolicy from "./RetentionPolicy.ts"
import { KeepReason, reasonKind } from "./RetentionReason.ts"
import { countKinds, debtOf, type PassEvent, type Report } from "./RetentionReport.ts"
import { hasTiers } from "./RetentionTiers.ts"
import * as RetentionWords from "./RetentionWords.ts"
import { day as dayOf, type RunId } from "./RunId.ts"
import { type IndexBroken, RunIndex } from "./RunIndex.ts"
import { RunStore } from "./RunStore.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** What to keep and what to remove; else {@link RetentionPolicy.standard}. */
  readonly policy?: RetentionPolicy.RetentionPolicy | RetentionPolicy.PolicyInput | undefined
  /** What differs from {@link RetentionBudget.defaultBudget}. */
  readonly budget?: RetentionBudget.BudgetInput | undefined
  /** Say what would go, and write nothing at all. */
  readonly dryRun?: boolean | undefined
  /** The run that this pass is a part of. It is never considered. */
  readonly own?: RunId | undefined
  /** Ends the pass at the next safe point, with a report of what it did so far. */
  readonly stop?: Effect.Effect<void> | undefined
  /** Hears what happens as it happens. The pass waits for it. */
  readonly onEvent?: ((event: PassEvent) => Effect.Effect<void>) | undefined
}

/** An index that breaks under a pass is not believed the next time it is opened; the bundles are there all the same. */
const maxIndexes = 2

const body = Effect.fnUntraced(function*(pass: Pass) {
  const { ledger, session } = pass
  ledger.left = noLeftovers()
  yield* Sweeping.clearStaging(pass)
  // Space that is on its way back must not make a limit on free space ask for more.
  if (pass.policy.minFree !== undefined) yield* Sweeping.sweep(pass)
  ledger.left.unlisted = yield* Discovery.discover(pass)
  yield* reopenOwn(pass)
  yield* Looking.settle(pass)
  yield* planAndAct(pass)
  yield* workTiers(pass)
  yield* Looking.readOn(pass)
  yield* Looking.remindOfUnwritten(pass)
  yield* forgetEmptyDays(pass)
  Object.assign(ledger.left, yield* Planning.foreseeBytes(pass))
  ledger.left.unknown = yield* session.unknowns
  // What was done is done: an index that cannot be written, on a full disk for one, is not believed by the next pass.
  yield* Effect.ignore(session.commit)
})

/** A run that is gone on with has not ended any more, whatever was found of it before. */
const reopenOwn = Effect.fnUntraced(function*({ now, own, session }: Pass) {
  const row = own === undefined ? undefined : yield* session.get(own)
  if (row?.state === "finished") yield* session.put({ ...row, state: "running", bytes: undefined, lookedAt: now })
})

/** Loaded only where a policy has tiers, so that the others do not pay for tar and globs. */
const workTiers = Effect.fnUntraced(function*(pass: Pass) {
  if (hasTiers(pass.policy)) {
    const { archiveDue, trimDue } = yield* Effect.promise(() => import("./retention/Tiers.ts"))
    yield* trimDue(pass)
    yield* archiveDue(pass)
  }
  yield* Archives.expireDue(pass)
})

/** What turns out to be held, pinned or immovable leaves it to others to go in its place. */
const planAndAct = Effect.fnUntraced(function*(pass: Pass) {
  const { refused } = pass.ledger
  for (let before = -1; refused.size > before;) {
    before = refused.size
    yield* Acting.act(pass, yield* Planning.plan(pass))
    if (pass.ledger.trashFull !== undefined || (yield* isOver(pass))) return
  }
})

/** Days that this pass has emptied. Whoever is about to publish a bundle in one makes it anew. */
const forgetEmptyDays = Effect.fnUntraced(function*(pass: Pass) {
  if (pass.dryRun) return
  for (const day of new Set(pass.ledger.removed.map(({ id }) => dayOf(id)))) {
    if (yield* Trash.leaveDay(pass.store.root, day)) yield* pass.session.dropDay(day)
  }
})

const withIndex = Effect.fnUntraced(function*(frame: Frame) {
  const index = yield* RunIndex
  const attempt = Effect.flatMap(index.open({ dryRun: frame.dryRun }), (session) => body({ ...frame, session })).pipe(
    Effect.scoped
  )
  const mayBegin = (nth: number) => nth < maxIndexes && !frame.dryRun
  const from = (nth: number): Effect.Effect<void, IndexBroken, RunStore> =>
    Effect.catchTag(
      attempt,
      "IndexBroken",
      (broken) => mayBegin(nth) ? Effect.andThen(index.setAside, from(nth + 1)) : Effect.fail(broken)
    )
  // What could not be planned without an index is left to the next pass; what was done is in the ledger.
  yield* Effect.catchTag(from(1), "IndexBroken", (broken) => Effect.logWarning(broken.message))
})

const reportOf = Effect.fnUntraced(function*(frame: Frame, otherPass: boolean, stopped: boolean) {
  const { budget, dryRun, ledger, policy } = frame
  const left = { ...ledger.left, stopped: stopped ? 1 : 0 }
  for (const debt of ledger.failedNow.values()) left[debt]++
  const kept = countKinds(ledger.kept.values())
  const kind = reasonKind(RetentionPolicy.isEmpty(policy) ? KeepReason.EmptyPolicy() : KeepReason.WithinLimits())
  if (ledger.keptElsewhere > 0) kept[kind] = (kept[kind] ?? 0) + ledger.keptElsewhere
  const report: Report = {
    dryRun,
    policy: RetentionWords.describe(policy),
    looked: ledger.looked,
    removed: ledger.removed,
    recovered: ledger.recovered,
    trimmed: ledger.trimmed,
    archived: ledger.archived,
    expired: ledger.expired,
    kept,
    failed: ledger.failed,
    freedBytes: ledger.freedBytes,
    debt: debtOf(left, policy, budget, Math.ceil(left.inTrash / Math.max(1, ledger.emptied))),
    otherPass,
    stopped,
    elapsedMs: (yield* Clock.currentTimeMillis) - frame.now
  }
  return report
})

/**
 * Runs one pass. It fails only with a policy or a budget that cannot be: what goes wrong with a bundle is in the report.
 *
 * **Example** (Keep a week, and never more than 200)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as Retention from "leasehold/Retention"
 * import * as RunStore from "leasehold/RunStore"
 * import * as SqliteIndex from "leasehold/SqliteIndex"
 *
 * const StoreLayer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer()))
 *
 * Retention.run({ policy: { maxAge: "7 days", maxBundles: 200 } }).pipe(
 *   Effect.tap((report) => Effect.log(`removed ${report.removed.length}`)),
 *   Effect.provide(StoreLayer),
 *   Effect.runPromise
 * )
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const run = Effect.fn("Retention.run")(
  function*(options: Options): Effect.fn.Return<
    Report,
    RetentionPolicy.PolicyError | RetentionBudget.BudgetError,
    RunStore | Lease | RunIndex
  > {
    const policy = options.policy === undefined
      ? RetentionPolicy.standard
      : yield* Effect.fromResult(RetentionPolicy.decode(options.policy))
    const budget = yield* Effect.fromResult(RetentionBudget.decode(options.budget))
    const now = yield* Clock.currentTimeMillis
    const frame: Frame = {
      store: yield* RunStore,
      lease: yield* Lease,
      policy,
      budget,
      dryRun: options.dryRun ?? false,
      now,
      until: now + Duration.toMillis(budget.maxTime),
      own: options.own,
      ledger: makeLedger(options.onEvent ?? (() => Effect.void))
    }
    return yield* Effect.scoped(Effect.gen(function*() {
      const isFirst = yield* PassLock.take(frame.store.root, frame)
      if (!isFirst && !frame.dryRun) return yield* reportOf(frame, true, false)
      const work = withIndex(frame).pipe(
        Effect.andThen(Sweeping.sweepAndTell(frame)),
        Effect.andThen(Looking.writeUnwritten(frame)),
        Effect.as(false)
      )
      const stop = options.stop === undefined ? Effect.never : Effect.as(options.stop, true)
      const stopped = yield* Effect.raceFirst(work, stop)
      return yield* reportOf(frame, false, stopped)
    }))
  }
)

/**
 * Runs one pass and gives what happens in it as it happens; the report comes last.
 *
 * @category running
 * @since 0.1.0
 */
export const stream = (
  options: Options
): Stream.Stream<
  PassEvent | Report,
  RetentionPolicy.PolicyError | RetentionBudget.BudgetError,
  RunStore | Lease | RunIndex
> =>
  Stream.callback((queue) =>
    run({ ...options, onEvent: (event) => Effect.asVoid(Queue.offer(queue, event)) }).pipe(
      Effect.tap((report) => Queue.offer(queue, report)),
      Effect.matchCauseEffect({
        onFailure: (cause) => Queue.failCause(queue, cause),
        onSuccess: () => Queue.end(queue)
      })
    )
  )
