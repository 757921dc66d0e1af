/**
 * Passes of retention, one after another, until no debt is left that another could pay.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Lease } from "./Lease.ts"
import * as Retention from "./Retention.ts"
import type { PolicyError } from "./RetentionPolicy.ts"
import type { Report } from "./RetentionReport.ts"
import type { RunIndex } from "./RunIndex.ts"
import type { RunStore } from "./RunStore.ts"

const join = (before: Report, after: Report): Report => ({
  ...after,
  looked: before.looked + after.looked,
  removed: [...before.removed, ...after.removed],
  recovered: [...before.recovered, ...after.recovered],
  freedBytes: before.freedBytes + after.freedBytes,
  elapsedMs: before.elapsedMs + after.elapsedMs
})

/** A pass that changed nothing, and left what the one before it left, will not be helped by another. */
const isStuck = (before: Report | undefined, after: Report) =>
  after.removed.length === 0 && after.recovered.length === 0 && after.freedBytes === 0 &&
  JSON.stringify(before?.debt) === JSON.stringify(after.debt)

/**
 * Runs passes of the same options until the debt is paid, until only such is left as no pass can pay (bundles that nobody
 * can read, deletions that the system refuses), or until it is stopped. The report is of all of them together. With
 * `dryRun` it is one pass: the next would say the same.
 *
 * @category running
 * @since 0.1.0
 */
export const untilPaid = Effect.fn("Retention.untilPaid")(
  function*(options: Retention.Options): Effect.fn.Return<Report, PolicyError, RunStore | Lease | RunIndex> {
    let last = yield* Retention.run(options)
    let all = last
    while (last.debt !== null && last.debt.passes > 0 && !last.stopped && !last.otherPass && !last.dryRun) {
      const next = yield* Retention.run(options)
      all = join(all, next)
      if (isStuck(last, next)) break
      last = next
    }
    return all
  }
)
