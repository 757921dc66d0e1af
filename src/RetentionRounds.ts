/**
 * Passes of retention, one after another, until no debt is left that another could pay.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { Lease } from "./Lease.ts"
import * as Retention from "./Retention.ts"
import * as RetentionBudget from "./RetentionBudget.ts"
import type { PolicyError } from "./RetentionPolicy.ts"
import type { Report } from "./RetentionReport.ts"
import type { RunIndex } from "./RunIndex.ts"
import type { RunStore } from "./RunStore.ts"

/** Everything that a pass has done to a bundle or an archive. */
const doneBy = ({ archived, expired, recovered, removed, trimmed }: Report) =>
  [removed, recovered, trimmed, archived, expired].flat()

/** What failed once and was done later did not fail. */
const failuresOf = (before: Report, after: Report): Report["failed"] => {
  const later = new Set([...after.failed, ...doneBy(after)].map(({ id }) => id))
  return [...before.failed.filter(({ id }) => !later.has(id)), ...after.failed]
}

const join = (before: Report, after: Report): Report => ({
  ...after,
  looked: before.looked + after.looked,
  removed: [...before.removed, ...after.removed],
  recovered: [...before.recovered, ...after.recovered],
  trimmed: [...before.trimmed, ...after.trimmed],
  archived: [...before.archived, ...after.archived],
  expired: [...before.expired, ...after.expired],
  failed: failuresOf(before, after),
  freedBytes: before.freedBytes + after.freedBytes,
  elapsedMs: before.elapsedMs + after.elapsedMs
})

const mayGoOn = ({ debt, dryRun, otherPass, stopped }: Report) =>
  debt !== null && debt.passes > 0 && !stopped && !otherPass && !dryRun

/** A pass that changed nothing, and left what the one before it left, will not be helped by another like it. */
const isStuck = (before: Report, after: Report) =>
  doneBy(after).length === 0 && after.freedBytes === 0 &&
  JSON.stringify(before.debt) === JSON.stringify(after.debt)

const mayNeedMore = ({ debt }: Report) =>
  ["unmeasured", "budget", "toArchive", "toTrim"].some((reason) => debt?.reasons[reason] !== undefined)

/** So many times as large as it was to be may the budget become of passes that get nowhere with it. */
const maxPatience = 1024

/**
 * Runs passes of the same options until the debt is paid, until only such is left as no pass can pay (bundles that nobody
 * can read, deletions that the system refuses), or until it is stopped. The report is of all of them together. Where
 * a bundle cannot be measured within the time of a pass, or what is to go lies behind more that stays than a pass may
 * look at, the next ones may do more. With `dryRun` it is one pass: the next would say the
 * same.
 *
 * @category running
 * @since 0.1.0
 */
export const untilPaid = Effect.fn("Retention.untilPaid")(
  function*(options: Retention.Options): Effect.fn.Return<
    Report,
    PolicyError | RetentionBudget.BudgetError,
    RunStore | Lease | RunIndex
  > {
    const budget = yield* Effect.fromResult(RetentionBudget.decode(options.budget))
    const maxTime = Duration.toMillis(budget.maxTime)
    let last = yield* Retention.run(options)
    let all = last
    let patience = 1
    while (mayGoOn(last)) {
      const larger = {
        ...budget,
        maxTime: maxTime * patience,
        maxLooked: budget.maxLooked * patience,
        maxPacked: budget.maxPacked * patience
      }
      const next = yield* Retention.run({ ...options, budget: larger })
      // What is left is left to whoever is at work now.
      if (next.otherPass) break
      all = join(all, next)
      if (isStuck(last, next)) {
        patience *= 4
        if (!mayNeedMore(next) || patience > maxPatience) break
      }
      last = next
    }
    return all
  }
)
