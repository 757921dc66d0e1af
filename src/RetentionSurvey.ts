/**
 * Why one bundle of a store stays or would go, from everything that a pass would find there.
 *
 * Guarantees. Nothing is written. The facts come from the steps that a pass takes as well, with the index where it can
 * be believed, so that what is explained is what a pass would do; the bundle itself is read and its lease looked at
 * anew, whatever the index says.
 *
 * Limits. Unlike a pass this has no budget: every bundle that the index does not know is read, one after another, and
 * what a limit in bytes or on free space needs to know is measured, however long it takes. A bundle that a pass has
 * failed to remove is explained as any other, though a pass takes its time with it.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as DiskUsage from "./DiskUsage.ts"
import { Lease } from "./Lease.ts"
import { describeDoubt, type Liveness } from "./Liveness.ts"
import * as Discovery from "./retention/Discovery.ts"
import * as Looking from "./retention/Looking.ts"
import { factsOf, makeLedger, type Pass } from "./retention/Pass.ts"
import * as PassLock from "./retention/PassLock.ts"
import * as Planning from "./retention/Planning.ts"
import * as Sweeping from "./retention/Sweeping.ts"
import { defaultBudget } from "./RetentionBudget.ts"
import { decide } from "./RetentionDecision.ts"
import { explain as explainFacts, type Explanation, only } from "./RetentionExplanation.ts"
import { type BundleFacts, isClockAhead } from "./RetentionFacts.ts"
import * as RetentionPolicy from "./RetentionPolicy.ts"
import type { RunId } from "./RunId.ts"
import { type IndexBroken, type Row, RunIndex } from "./RunIndex.ts"
import { toMillis } from "./RunRecord.ts"
import { type Entry, RunStore } from "./RunStore.ts"
import { StoreError, StoreReason } from "./StoreError.ts"
import { covers } from "./TrimHistory.ts"

/**
 * How it is known when a bundle ended: by its record, by the last event of one that crashed, by having been found dead
 * just now, or, of one that claims to end in the future, by when a pass first saw it ended.
 *
 * @category models
 * @since 0.1.0
 */
export type EndKnownBy = "record" | "restored" | "last event" | "found dead" | "first seen"

/**
 * @category models
 * @since 0.1.0
 */
export interface Explained extends Explanation {
  readonly entry: Entry
  readonly liveness: Liveness
  readonly policy: RetentionPolicy.RetentionPolicy
  readonly now: number
  readonly endKnownBy: EndKnownBy | undefined
}

/** More bundles than there are. */
const all = 2 ** 31

/** What has been found out about the store, as a pass keeps it. */
const passOf = Effect.fnUntraced(function*(policy: RetentionPolicy.RetentionPolicy) {
  const store = yield* RunStore
  const lease = yield* Lease
  const index = yield* RunIndex
  yield* PassLock.take(store.root, { dryRun: true })
  const pass: Pass = {
    store,
    lease,
    policy,
    budget: { ...defaultBudget, maxLooked: all },
    dryRun: true,
    now: yield* Clock.currentTimeMillis,
    until: Number.POSITIVE_INFINITY,
    own: undefined,
    ledger: makeLedger(() => Effect.void),
    session: yield* index.open({ dryRun: true })
  }
  return pass
})

/** A finished bundle is claimed before anything is done to it, so a look at its lease says more than the index does. */
const probed = (facts: BundleFacts, liveness: Liveness): BundleFacts => {
  if (liveness._tag === "Live") return { ...facts, liveness: "live" }
  if (facts.liveness === "unknown") return facts
  return liveness._tag === "Dead"
    ? { ...facts, liveness: "dead" }
    : { ...facts, liveness: "unknown", unknownReason: describeDoubt(liveness.doubt) }
}

const readAnew = Effect.fnUntraced(function*(pass: Pass, id: RunId) {
  const row = yield* pass.session.get(id)
  const fresh = row === undefined ? undefined : yield* Looking.look(pass, row)
  if (fresh === undefined) return yield* new StoreError({ reason: StoreReason.NoSuchRun({ name: id }) })
  const entry = yield* pass.store.get(id)
  const liveness = yield* pass.store.liveness(entry)
  const record = Result.getOrUndefined(entry.record)
  const { trim } = pass.policy
  const trimmed = trim !== undefined && record !== undefined && covers(record, trim.paths)
  return { entry, liveness, facts: { ...probed(factsOf(fresh), liveness), trimmed } }
})

/** Only this keeps a pass away that would begin meanwhile; what is measured afterwards needs no index. */
const gather = Effect.fnUntraced(function*(policy: RetentionPolicy.RetentionPolicy, id: RunId) {
  const pass = yield* passOf(policy)
  // A pass takes in so many at a time.
  while ((yield* Discovery.discover(pass)) > 0);
  yield* Looking.settle(pass)
  const { entry, facts: own, liveness } = yield* readAnew(pass, id)
  const rows = new Map((yield* pass.session.all).map((row) => [row.id, row]))
  const facts = new Map([...rows.values()].map((row) => [row.id, row.id === id ? own : factsOf(row)]))
  return { entry, facts, liveness, pass, rows }
}, Effect.scoped)

const concurrency = 4

/** Measures what the limits need, the most telling first, until knowing more would change nothing. */
const measureNeeded = Effect.fnUntraced(
  function*(pass: Pass, rows: ReadonlyMap<RunId, Row>, facts: Map<RunId, BundleFacts>, disk: Disk) {
    const tried = new Set<RunId>()
    // Each rule is asked by itself, too.
    const fields = (["maxBytes", "minFree"] as const).filter((field) => pass.policy[field] !== undefined)
    const policies = fields.length === 0 ? [] : [pass.policy, ...fields.map((field) => only(pass.policy, field))]
    const isOpen = (id: RunId) => !tried.has(id) && rows.get(id)?.state === "finished"
    for (;;) {
      const next = new Set(policies.flatMap((policy) => {
        const open = decide([...facts.values()], policy, pass.now, disk).needsSize.filter(isOpen)
        // More at a time the more are wanting, so that they are not decided on again and again.
        return open.slice(0, 16 + Math.ceil(open.length / 8))
      }))
      if (next.size === 0) return
      yield* Effect.forEach(next, (id) =>
        Effect.map(DiskUsage.measure(pass.store.dir(id)), ({ bytes, complete }) => {
          tried.add(id)
          const before = facts.get(id)
          if (complete && before !== undefined) facts.set(id, { ...before, bytes })
        }), { concurrency, discard: true })
    }
  }
)

type Disk = { readonly freeBytes: number } | undefined

const endKnownBy = ({ ended, facts }: Explanation, { record }: Entry, now: number): EndKnownBy | undefined => {
  if (ended === undefined || Result.isFailure(record)) return undefined
  if (isClockAhead(facts, now)) return "first seen"
  const { endedAt } = record.success
  if (endedAt !== undefined) return ended > toMillis(endedAt) ? "restored" : "record"
  return ended === now ? "found dead" : "last event"
}

/**
 * Explains what a policy, else {@link RetentionPolicy.standard}, makes of a run, which is named as a person would.
 *
 * **Example** (Why the newest run that failed is still there)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as RetentionExplanation from "leasehold/RetentionExplanation"
 * import * as RetentionSurvey from "leasehold/RetentionSurvey"
 * import * as RunStore from "leasehold/RunStore"
 * import * as SqliteIndex from "leasehold/SqliteIndex"
 *
 * const StoreLayer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer()))
 *
 * RetentionSurvey.explain("latest:error", { maxAge: "7 days" }).pipe(
 *   Effect.tap((explained) => Effect.log(RetentionExplanation.decisionText(explained))),
 *   Effect.provide(StoreLayer),
 *   Effect.runPromise
 * )
 * ```
 *
 * @category explaining
 * @since 0.1.0
 */
export const explain = Effect.fn("RetentionSurvey.explain")(
  function*(
    name: string,
    input: RetentionPolicy.RetentionPolicy | RetentionPolicy.PolicyInput = RetentionPolicy.standard
  ): Effect.fn.Return<
    Explained,
    RetentionPolicy.PolicyError | StoreError | IndexBroken,
    RunStore | Lease | RunIndex
  > {
    const policy = yield* Effect.fromResult(RetentionPolicy.decode(input))
    const store = yield* RunStore
    const { id } = yield* store.find(name)
    const { entry, facts, liveness, pass, rows } = yield* gather(policy, id)
    yield* Sweeping.sweep(pass)
    const disk = yield* Planning.freeBytes(pass)
    yield* measureNeeded(pass, rows, facts, disk)
    const explanation = explainFacts([...facts.values()], policy, pass.now, disk, id)
    if (explanation === undefined) return yield* new StoreError({ reason: StoreReason.NoSuchRun({ name }) })
    const known = endKnownBy(explanation, entry, pass.now)
    return { ...explanation, entry, liveness, policy, now: pass.now, endKnownBy: known }
  }
)
