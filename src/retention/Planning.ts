/**
 * From the index to a plan. Only the oldest bundles are decided on, as many as the limits come to: of the others it is
 * enough to know how many they are, how large, and which of them the keep rules count.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as DiskUsage from "../DiskUsage.ts"
import { Files } from "../internal/Files.ts"
import { decide, type Decision, type Elsewhere, type Plan } from "../RetentionDecision.ts"
import { endOf } from "../RetentionFacts.ts"
import { startOfSpan } from "../RetentionKeepRules.ts"
import { hasLimits, isEmpty, periodFields } from "../RetentionPolicy.ts"
import { withoutTiers } from "../RetentionTiers.ts"
import type { RunId } from "../RunId.ts"
import { type IndexBroken, type Position, position, type Row } from "../RunIndex.ts"
import type { RunStore } from "../RunStore.ts"
import { isSettled } from "./Discovery.ts"
import { isAsItWas, look } from "./Looking.ts"
import { chunk, factsOf, inTurns, isOver, maxRetried, maxScanned, type Pass } from "./Pass.ts"

/** @internal */
export interface Planned {
  readonly decisions: ReadonlyArray<Decision>
  readonly rows: ReadonlyMap<RunId, Row>
}

/** What the keep rules count: the newest, and the newest of each span. There are as many as the policy says. */
const counted = Effect.fnUntraced(function*(pass: Pass) {
  const { policy, session } = pass
  const rows: Array<Row> = []
  if (policy.keepLast !== undefined) {
    rows.push(...yield* session.newestFinished(Number.POSITIVE_INFINITY, policy.keepLast))
  }
  for (const [field, period] of periodFields) {
    let before = Number.POSITIVE_INFINITY
    // When the time is over nothing is removed any more, so that what was not counted is not missed.
    for (let nth = 0; nth < (policy[field] ?? 0) && !(yield* isOver(pass)); nth++) {
      const [row] = yield* session.newestFinished(before, 1)
      if (row === undefined) break
      rows.push(row)
      before = startOfSpan(period, endOf(factsOf(row), pass.now))
    }
  }
  return rows
})

/**
 * Measures a bundle. One that takes long may have half of the time that is left, so that something is left for the others.
 *
 * @internal
 */
export const measure = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  const now = yield* Clock.currentTimeMillis
  const usage = yield* DiskUsage.measure(pass.store.dir(row.id), { until: now + (pass.until - now) / 2 })
  if (!usage.complete) return row
  const measured = { ...row, bytes: usage.bytes }
  yield* pass.session.put(measured)
  return measured
})

/** What is known of sizes, and how many are not: those of bundles that nobody has read yet, too. */
const sizesOf = Effect.fnUntraced(function*({ now, own, session }: Pass) {
  const { bundles, bytes, unmeasured } = yield* session.totals(now)
  const { all, unread } = yield* session.unfinished
  const measured = bundles - unmeasured - all
  const isOwnUnread = own !== undefined && (yield* session.get(own))?.lookedAt === 0
  return {
    bytes,
    unknown: unmeasured + unread - (isOwnUnread ? 1 : 0),
    mean: measured > 0 ? bytes / measured : 0
  }
})

/**
 * What sizes are wanting for a limit in bytes, and what will come of them if they are like those that are known.
 *
 * @internal
 */
export const foreseeBytes = Effect.fnUntraced(function*(pass: Pass) {
  const { maxBytes } = pass.policy
  const none = { unmeasured: 0, toMeasure: 0, toGoThen: 0 }
  if (maxBytes === undefined) return none
  const { bytes, mean, unknown } = yield* sizesOf(pass)
  // What is older than the limit's worth goes as it is.
  if (bytes > maxBytes) return none
  const toMeasure = mean > 0 ? Math.min(unknown, Math.floor((maxBytes - bytes) / mean) + 1) : unknown
  return { unmeasured: unknown, toMeasure, toGoThen: unknown - toMeasure }
})

/**
 * What is free for a limit on free space to go by; nothing where there is none, or where it cannot be told.
 *
 * @internal
 */
export const freeBytes = Effect.fnUntraced(function*(pass: Pass) {
  const files = yield* Files
  // What lies in the trash is on its way back already: to remove more for it would remove too much.
  if (pass.policy.minFree === undefined || pass.ledger.leaving > 0) return undefined
  return yield* files.freeBytes(pass.store.root).pipe(
    Effect.map((bytes) => ({ freeBytes: bytes })),
    Effect.orElseSucceed(() => undefined)
  )
})

/**
 * A pin is taken back without a trace in the day directory, so pinned bundles are asked themselves: by the time of their
 * record, which is not opened for it.
 */
const mayBeUnpinned = Effect.fnUntraced(function*(pass: Pass, row: Row) {
  if (row.pin === undefined) return false
  const files = yield* Files
  const info = yield* Effect.result(files.lstat(`${pass.store.dir(row.id)}/run.json`))
  return Result.isFailure(info) || !isSettled(info.success.mtimeNanos, row.lookedAt)
})

/** The bundles that are decided on, growing from the oldest until the limits hold. */
const makeWindow = (pass: Pass) => {
  const { ledger } = pass
  const rows = new Map<RunId, Row>()
  const failing = new Map<RunId, Row>()
  const take = Effect.fnUntraced(function*(row: Row) {
    const isFresh = row.lookedAt >= pass.now ||
      (yield* row.state === "finished" ? Effect.map(mayBeUnpinned(pass, row), (may) => !may) : isAsItWas(pass, row))
    const mayLook = ledger.looked < pass.budget.maxLooked && !(yield* isOver(pass))
    const fresh = isFresh || !mayLook ? row : yield* look(pass, row)
    if (fresh !== undefined) rows.set(fresh.id, fresh)
  })
  const add = Effect.fnUntraced(function*(row: Row) {
    if (row.id === pass.own || rows.has(row.id) || ledger.failedNow.has(row.id)) return
    if (row.failures > 0) failing.set(row.id, row)
    else yield* take(row)
  })
  /** Those that failed before come last. How many are left for another pass is told. */
  const addFailing = Effect.gen(function*() {
    const { left, tried } = inTurns(failing.values(), maxRetried - ledger.retried)
    ledger.retried += tried.length
    for (const row of tried) yield* take(row)
    return left
  })
  /** Takes what has become known of a bundle that is in it already, or waits for its turn. */
  const update = (row: Row) => {
    for (const place of [rows, failing]) if (place.has(row.id)) place.set(row.id, row)
  }
  return { rows, add, addFailing, update, hasFailing: () => failing.size > 0 }
}

type Window = ReturnType<typeof makeWindow>

const elsewhereOf = Effect.fnUntraced(function*(pass: Pass, window: Window): Effect.fn.Return<Elsewhere, IndexBroken> {
  const totals = yield* pass.session.totals(pass.now)
  let bundles = totals.bundles - totals.ahead
  let bytes = totals.bytes
  for (const row of window.rows.values()) {
    if (row.endedAt <= pass.now) bundles--
    bytes -= row.bytes ?? 0
  }
  return { bundles: Math.max(0, bundles), bytes: Math.max(0, bytes) }
})

const planOf = Effect.fnUntraced(function*(
  pass: Pass,
  window: Window,
  disk: { readonly freeBytes: number } | undefined
) {
  const elsewhere = yield* elsewhereOf(pass, window)
  // What the tiers do is no part of the plan: they reach beyond the window.
  const policy = withoutTiers(pass.policy)
  const decideNow = () => decide([...window.rows.values()].map(factsOf), policy, pass.now, disk, elsewhere)
  let plan: Plan = decideNow()
  // For free space the sizes of the oldest are needed, and each may be enough.
  for (let isLate = disk === undefined; !isLate && plan.needsSize.length > 0; isLate = yield* isOver(pass)) {
    const id = plan.needsSize.find((needed) => window.rows.get(needed)?.bytes === undefined)
    const row = id === undefined ? undefined : window.rows.get(id)
    if (row === undefined || row.state !== "finished") break
    const measured = yield* measure(pass, row)
    if (measured.bytes === undefined) break
    window.update(measured)
    plan = decideNow()
  }
  return plan
})

/** From the first bundle that no limit comes to, none comes to those behind it either. */
const limitsHoldAt = (plan: Plan, window: Window, frontier: Row) =>
  plan.decisions.some(({ action, id, reason }) =>
    action === "keep" && reason._tag === "WithinLimits" && (window.rows.get(id)?.endedAt ?? 0) <= frontier.endedAt
  )

const removalsIn = (plan: Plan) => plan.decisions.filter(({ action }) => action === "remove").length

/**
 * Measures more for a limit in bytes, newest first, and no more than may fill this pass with removals: what is older than
 * the limit goes unmeasured. Tells whether there may be more known than before.
 */
const measureMore = Effect.fnUntraced(function*(pass: Pass, window: Window, plan: Plan) {
  const { budget, ledger: { sized }, policy, session } = pass
  const wanted = Math.min(budget.maxRemoved - removalsIn(plan), budget.maxLooked - sized.size)
  if (policy.maxBytes === undefined || wanted <= 0) return false
  const before = sized.size
  // What takes too long comes first again, and has had its time.
  const rows = (yield* session.unmeasured(wanted + before)).filter(({ id }) => !sized.has(id))
  for (const row of rows.slice(0, wanted)) {
    if (yield* isOver(pass)) break
    sized.add(row.id)
    window.update(yield* measure(pass, row))
  }
  return sized.size > before
})

const planWindow = Effect.fnUntraced(function*(pass: Pass) {
  const window = makeWindow(pass)
  for (const row of yield* counted(pass)) yield* window.add(row)
  const disk = yield* freeBytes(pass)
  let plan = yield* planOf(pass, window, disk)
  let reached: Position | undefined
  let reachedEnd = false
  for (let scanned = 0; scanned < maxScanned(pass) && !reachedEnd;) {
    const rows = yield* pass.session.oldest(reached, chunk)
    const frontier = rows.at(-1)
    if (frontier !== undefined) reached = position(frontier)
    scanned += rows.length
    for (const row of rows) yield* window.add(row)
    const isEnough = () => frontier === undefined || limitsHoldAt(plan, window, frontier)
    do plan = yield* planOf(pass, window, disk)
    while (isEnough() && (yield* measureMore(pass, window, plan)))
    reachedEnd = isEnough()
    if (removalsIn(plan) >= pass.budget.maxRemoved || (yield* isOver(pass))) break
  }
  const waiting = yield* window.addFailing
  if (window.hasFailing()) plan = yield* planOf(pass, window, disk)
  return { plan, window, reachedEnd, waiting }
})

/** Groups are compared with one another, so all of them have to be known; only the index is read for it. */
const planGroups = Effect.fnUntraced(function*(pass: Pass) {
  const window = makeWindow(pass)
  for (const row of yield* pass.session.all) yield* window.add(row)
  const disk = yield* freeBytes(pass)
  let plan = yield* planOf(pass, window, disk)
  while (yield* measureMore(pass, window, plan)) plan = yield* planOf(pass, window, disk)
  const waiting = yield* window.addFailing
  if (window.hasFailing()) plan = yield* planOf(pass, window, disk)
  return { plan, window, reachedEnd: true, waiting }
})

/** What the policy asks for beyond what was decided on. An estimate, since some of it may be pinned or spared. */
const beyondPlan = Effect.fnUntraced(function*(pass: Pass, window: Window) {
  const { policy, session } = pass
  const elsewhere = yield* elsewhereOf(pass, window)
  const aged = policy.maxAge === undefined
    ? 0
    : yield* session.count({ endedBefore: pass.now - Duration.toMillis(policy.maxAge) }, 1_000_000)
  const { maxBytes = Number.POSITIVE_INFINITY } = policy
  const isLarge = elsewhere.bytes > maxBytes
  const counts = [
    policy.maxBundles === undefined ? 0 : elsewhere.bundles - policy.maxBundles,
    aged - window.rows.size,
    isLarge ? Math.max(1, elsewhere.bundles - Math.floor(maxBytes / (yield* sizesOf(pass)).mean)) : 0,
    policy.all === true || !hasLimits(policy) ? elsewhere.bundles : 0
  ]
  return Math.max(0, ...counts)
})

/**
 * What is to go, oldest first, and what was kept on the way; what the budget does not reach is left over.
 *
 * @internal
 */
export const plan = Effect.fnUntraced(function*(pass: Pass): Effect.fn.Return<Planned, IndexBroken, RunStore> {
  const { ledger } = pass
  if (isEmpty(pass.policy)) {
    ledger.keptElsewhere = (yield* pass.session.totals(pass.now)).bundles
    return { decisions: [], rows: new Map() }
  }
  const { plan, reachedEnd, waiting, window } =
    yield* (pass.policy.groupBy === undefined ? planWindow(pass) : planGroups(pass))
  const beyond = reachedEnd ? 0 : yield* beyondPlan(pass, window)
  ledger.left.overBudget = waiting + beyond
  ledger.left.overBudgetBytes = 0
  // Neither what failed in this pass nor what waits for its turn is in the window, and both are told as owed.
  const owed = beyond + waiting + ledger.failedNow.size
  ledger.keptElsewhere = Math.max(0, (yield* elsewhereOf(pass, window)).bundles - owed)
  return { decisions: plan.decisions, rows: window.rows }
})
