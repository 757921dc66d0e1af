/**
 * How much one pass of retention may do.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Formatter from "effect/Formatter"
import * as Option from "effect/Option"
import * as Result from "effect/Result"

/**
 * How much one pass may do. It stops at the first bound it meets, and the next pass goes on from there.
 *
 * @category models
 * @since 0.1.0
 */
export interface Budget {
  /**
   * Bundles that are read or claimed, and as many again that are measured for a limit in bytes. Sixteen times as many
   * that were read before may be passed over.
   */
  readonly maxLooked: number
  /** Bundles that are removed from the store. */
  readonly maxRemoved: number
  /** Names that are deleted in the trash. */
  readonly maxUnlinked: number
  /** Bytes on the disk of bundles that are archived. A larger bundle waits for a pass that may pack more. */
  readonly maxPacked: number
  readonly maxTime: Duration.Input
}

/**
 * What differs from the default. A field that is `undefined` does not.
 *
 * @category models
 * @since 0.1.0
 */
export type BudgetInput = { readonly [Key in keyof Budget]?: Budget[Key] | undefined }

/**
 * What a pass beside a program may do, so that the program hardly notices.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaultBudget: Budget = {
  maxLooked: 512,
  maxRemoved: 256,
  maxUnlinked: 20_000,
  maxPacked: 64 * 1024 * 1024,
  maxTime: "2 seconds"
}

/**
 * A bound that would bound nothing, or allow nothing.
 *
 * @category errors
 * @since 0.1.0
 */
export class BudgetError extends Data.TaggedError("BudgetError")<{
  readonly field: keyof Budget
  readonly value: unknown
  readonly expected: string
}> {
  override get message() {
    return `retention: the budget's ${this.field} cannot be ${Formatter.format(this.value)}: ${this.expected}`
  }
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) > 0

const isTime = (value: Duration.Input) => {
  const millis = Option.map(Duration.fromInput(value), Duration.toMillis)
  return Option.isSome(millis) && millis.value > 0 && Number.isFinite(millis.value)
}

/**
 * Fills in the default and checks every bound.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (input: BudgetInput = {}): Result.Result<Budget, BudgetError> => {
  const budget: Budget = {
    maxLooked: input.maxLooked ?? defaultBudget.maxLooked,
    maxRemoved: input.maxRemoved ?? defaultBudget.maxRemoved,
    maxUnlinked: input.maxUnlinked ?? defaultBudget.maxUnlinked,
    maxPacked: input.maxPacked ?? defaultBudget.maxPacked,
    maxTime: input.maxTime ?? defaultBudget.maxTime
  }
  for (const field of ["maxLooked", "maxRemoved", "maxUnlinked", "maxPacked"] as const) {
    if (isCount(budget[field])) continue
    return Result.fail(new BudgetError({ field, value: budget[field], expected: "write a whole number from 1 on" }))
  }
  if (isTime(budget.maxTime)) return Result.succeed(budget)
  return Result.fail(
    new BudgetError({ field: "maxTime", value: budget.maxTime, expected: "write a time such as \"2 seconds\"" })
  )
}
