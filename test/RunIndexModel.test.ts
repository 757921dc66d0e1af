/** The index against a model of it in a few lines. */
import { assert, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as RunId from "../src/RunId.ts"
import { position, type Row, type Session } from "../src/RunIndex.ts"
import { id, inPlace, listed, row } from "./support/IndexPlace.ts"

const pool = [1, 2, 3, 20, 21, 40, 41].flatMap((hoursAgo) => [id(hoursAgo, 1), id(hoursAgo, 2)])
const daysOfPool = [...new Set(pool.map((each) => RunId.day(each)))]

const Some = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: pool.length - 1 }))
const Few = Schema.Literals([0, 1, 2, 3])
const Step = Schema.Union([
  Schema.TaggedStruct("put", {
    which: Some,
    state: Schema.Literals(["listed", "running", "finished", "finished", "unknown"]),
    endedAt: Few,
    firstSeenEnded: Schema.optionalKey(Few),
    bytes: Schema.optionalKey(Few),
    lookedAt: Few
  }),
  Schema.TaggedStruct("remove", { which: Some }),
  Schema.TaggedStruct("putDay", { day: Few, settled: Schema.Boolean, found: Schema.Array(Some) }),
  Schema.TaggedStruct("dropDay", { day: Few }),
  Schema.TaggedStruct("commit", {}),
  Schema.TaggedStruct("reopen", { dryRun: Schema.Boolean })
])

interface Model {
  readonly rows: Map<RunId.RunId, Row>
  readonly days: Map<string, boolean>
}

const copy = ({ days, rows }: Model): Model => ({ rows: new Map(rows), days: new Map(days) })

const dayOf = (nth: number) => daysOfPool[nth % daysOfPool.length]!

const take = (model: Model, step: typeof Step.Type) => {
  switch (step._tag) {
    case "put": {
      const { _tag, which, ...more } = step
      const made = row(pool[which]!, more)
      return void model.rows.set(made.id, made)
    }
    case "remove":
      return void model.rows.delete(pool[step.which]!)
    case "putDay": {
      const found = new Set(
        step.found.map((which) => pool[which]!).filter((each) => RunId.day(each) === dayOf(step.day))
      )
      for (const each of pool) {
        if (RunId.day(each) === dayOf(step.day) && !found.has(each)) model.rows.delete(each)
        if (found.has(each) && !model.rows.has(each)) model.rows.set(each, listed(each))
      }
      return void model.days.set(dayOf(step.day), step.settled)
    }
    case "dropDay":
      for (const each of pool) if (RunId.day(each) === dayOf(step.day)) model.rows.delete(each)
      return void model.days.delete(dayOf(step.day))
  }
}

const tell = (session: Session, step: typeof Step.Type) => {
  switch (step._tag) {
    case "put": {
      const { _tag, which, ...more } = step
      return session.put(row(pool[which]!, more))
    }
    case "remove":
      return session.remove(pool[step.which]!)
    case "putDay":
      return session.putDay(
        { day: dayOf(step.day), mtimeNanos: 1n, settled: step.settled },
        new Set(step.found.map((which) => pool[which]!))
      )
    case "dropDay":
      return session.dropDay(dayOf(step.day))
    case "commit":
      return session.commit
    case "reopen":
      return Effect.void
  }
}

const byId = (left: { readonly id: string }, right: { readonly id: string }) =>
  left.id < right.id ? -1 : left.id > right.id ? 1 : 0
const byEnd = (left: Row, right: Row) => position(left).endedAt - position(right).endedAt || byId(left, right)
const bySight = (left: Row, right: Row) => left.lookedAt - right.lookedAt || byEnd(right, left)

const answersOf = ({ days, rows }: Model) => {
  const all = [...rows.values()].sort(byEnd)
  const finished = all.filter(({ state }) => state === "finished").toReversed()
  const unmeasured = finished.filter(({ bytes }) => bytes === undefined)
  return {
    all,
    days: [...days].sort().map(([day, settled]) => ({ day, mtimeNanos: 1n, settled })),
    totals: {
      bundles: all.length,
      ahead: all.filter(({ endedAt }) => endedAt > 1).length,
      bytes: all.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0),
      unmeasured: unmeasured.length
    },
    unknowns: all.filter(({ state }) => state === "unknown").length,
    unfinished: {
      all: all.length - finished.length,
      unread: all.filter(({ lookedAt, state }) => state !== "finished" && lookedAt === 0).length
    },
    unsettled: all.filter(({ state }) => state !== "finished").sort(bySight).slice(0, 3),
    behind: all.slice(3, 6),
    newest: finished.filter((each) => position(each).endedAt < 3).slice(0, 3),
    unmeasured: unmeasured.slice(0, 3),
    count: Math.min(4, all.filter((each) => position(each).endedAt < 2).length),
    one: rows.get(pool[0]!)
  }
}

const answersFrom = (session: Session) =>
  Effect.gen(function*() {
    const all = yield* session.all
    return {
      all,
      days: yield* session.days,
      totals: yield* session.totals(1),
      unknowns: yield* session.unknowns,
      unfinished: yield* session.unfinished,
      unsettled: yield* session.unsettled(3),
      behind: all[2] === undefined ? [] : yield* session.oldest(position(all[2]), 3),
      newest: yield* session.newestFinished(3, 3),
      unmeasured: yield* session.unmeasured(3),
      count: yield* session.count({ endedBefore: 2 }, 4),
      one: yield* session.get(pool[0]!)
    }
  })

type Part = { readonly dryRun: boolean; readonly steps: ReadonlyArray<typeof Step.Type> }

const partsOf = (steps: ReadonlyArray<typeof Step.Type>): ReadonlyArray<Part> =>
  steps.reduce<ReadonlyArray<Part>>(
    (parts, step) =>
      step._tag === "reopen"
        ? [...parts, { dryRun: step.dryRun, steps: [] }]
        : [...parts.slice(0, -1), { ...parts.at(-1)!, steps: [...parts.at(-1)!.steps, step] }],
    [{ dryRun: false, steps: [] }]
  )

it.effect.prop(
  "whatever is done, the answers are those of a simple model",
  [Arbitrary.array(Arbitrary.schema(Step), { maxLength: 40 })],
  ([steps]) =>
    inPlace(({ pass }) =>
      Effect.gen(function*() {
        let lasting: Model = { rows: new Map(), days: new Map() }
        for (const part of partsOf(steps)) {
          const current = copy(lasting)
          yield* pass((session) =>
            Effect.gen(function*() {
              assert.deepStrictEqual(yield* answersFrom(session), answersOf(current))
              for (const step of part.steps) {
                take(current, step)
                yield* tell(session, step)
                if (step._tag === "commit" && !part.dryRun) lasting = copy(current)
              }
              assert.deepStrictEqual(yield* answersFrom(session), answersOf(current))
            }), part.dryRun)
        }
      })
    ),
  { arbitrary: { runs: 100, size: 40, seed: "index" } }
)
