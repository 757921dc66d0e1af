/** Stores and policies of every kind, for what holds for all of them. */
import * as Arbitrary from "effect/Arbitrary"
import * as Schema from "effect/Schema"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import { bundle, hour, MiB, now } from "./RetentionFixtures.ts"

export const upTo = (max: number) => Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: max }))

const Seed = Schema.Struct({
  // Few distinct hours, so that equal times, equal days and full months all turn up.
  hoursAgo: Schema.Int.check(Schema.isBetween({ minimum: -48, maximum: 2000 })),
  seenHoursAgo: Schema.optionalKey(upTo(1000)),
  name: Schema.Literals(["a", "b", "c"]),
  status: Schema.Literals(["ok", "ok", "error", "interrupted", "crashed", "running", "unknown"]),
  liveness: Schema.Literals(["unprobed", "unprobed", "dead", "dead", "live", "unknown"]),
  pinned: Schema.Literals([false, false, false, true]),
  bytes: Schema.optionalKey(upTo(20)),
  tag: Schema.optionalKey(Schema.Literals(["x", "y"])),
  shuffle: Schema.Int
})

type Seed = typeof Seed.Type

export const factsOf = (seed: Seed): BundleFacts =>
  bundle(seed.hoursAgo * hour, {
    name: seed.name,
    status: seed.status,
    liveness: seed.liveness,
    pinned: seed.pinned,
    bytes: seed.bytes === undefined ? undefined : seed.bytes * MiB,
    firstSeenEnded: seed.seenHoursAgo === undefined ? undefined : now - seed.seenHoursAgo * hour,
    tags: seed.tag === undefined ? {} : { t: seed.tag }
  })

export const Seeds = Arbitrary.array(Arbitrary.schema(Seed), { maxLength: 40 })
export const Store = Arbitrary.map(Seeds, (seeds) => seeds.map(factsOf))
/** A store whose clocks were always right: one that is clock ahead is judged apart from all others. */
export const ClockedStore = Arbitrary.map(Store, (store) => store.filter(({ endedAt }) => (endedAt ?? 0) <= now))
const hours = Schema.Literals(["1 hour", "30 hours", "100 hours", "400 hours", "1500 hours"])
const sizes = Schema.Literals(["1 MiB", "10 MiB", "40 MiB", "120 MiB", "200 MiB"])

const Limit = Schema.Union([
  Schema.Struct({ maxBundles: upTo(30) }),
  Schema.Struct({ maxAge: hours }),
  Schema.Struct({ maxBytes: sizes }),
  Schema.Struct({ minFree: sizes }),
  Schema.Struct({ all: Schema.Literal(true) })
])

const KeepRule = Schema.Union([
  Schema.Struct({ keepLast: upTo(10) }),
  Schema.Struct({ keepHourly: upTo(10) }),
  Schema.Struct({ keepDaily: upTo(10) }),
  Schema.Struct({ keepWeekly: upTo(5) }),
  Schema.Struct({ keepMonthly: upTo(3) }),
  Schema.Struct({ keepYearly: upTo(2) }),
  Schema.Struct({ keepWithin: hours }),
  Schema.Struct({ keepTag: Schema.Literals(["t", "t=x", "other"]) }),
  Schema.Struct({ keepStatus: Schema.Literals(["ok", "error", "crashed"]) })
])

const Grouping = Schema.Union([Schema.Struct({}), Schema.Struct({ groupBy: Schema.Literals(["name", "tag:t"]) })])

/** Few rules at a time: a policy with all of them hides one behind another. */
const some = <A extends PolicyInput>(rule: Schema.Codec<A>) =>
  Arbitrary.map(
    Arbitrary.array(Arbitrary.schema(rule), { maxLength: 3 }),
    (rules) => rules.reduce<PolicyInput>((all, one) => ({ ...all, ...one }), {})
  )

export const Limits = some(Limit)
export const KeepRules = some(KeepRule)
export const Groups = Arbitrary.map(Arbitrary.schema(Grouping), (grouping): PolicyInput => grouping)
export const Policy = Arbitrary.map(
  Arbitrary.all([Limits, KeepRules, Groups]),
  ([limits, keepRules, grouping]): PolicyInput => ({ ...limits, ...keepRules, ...grouping })
)
