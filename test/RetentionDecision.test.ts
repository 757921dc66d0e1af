import { assert, describe, it } from "@effect/vitest"
import * as RetentionDecision from "../src/RetentionDecision.ts"
import { type BundleFacts as Facts, endOf } from "../src/RetentionFacts.ts"
import { KeepReason, reasonText } from "../src/RetentionReason.ts"
import { bundle, day, hour, ids, kept, live, MiB, minute, now, policy, reasonOf, removed } from "./RetentionFixtures.ts"

const decide = (bundles: ReadonlyArray<Facts>, input: Parameters<typeof policy>[0], freeBytes?: number) =>
  RetentionDecision.decide(bundles, policy(input), now, freeBytes === undefined ? undefined : { freeBytes })

/** Finished bundles that ended 1, 2, 3… days ago, newest first. */
const daily = (count: number, more: Partial<Facts> = {}) =>
  Array.from({ length: count }, (_, index) => bundle((index + 1) * day, more))

const unreadable = () => bundle(5 * day, { status: "unknown", endedAt: undefined, liveness: "dead" })

describe("limits", () => {
  it("the age of a bundle counts from its end, and at the limit to the millisecond it stays", () => {
    const at = bundle(day)
    const past = bundle(day + 1)
    assert.deepStrictEqual(removed(decide([at, past], { maxAge: "1 day" })), ids([past]))
  })

  it("equal times go by id", () => {
    const three = [bundle(day), bundle(day), bundle(day)]
    assert.deepStrictEqual(removed(decide(three.toReversed(), { maxBundles: 1 })), ids(three).slice(0, 2).sort())
  })

  it("a bundle whose end nobody knows has just ended", () => {
    const facts = bundle(0, { endedAt: undefined })
    assert.deepStrictEqual(removed(decide([facts, ...daily(2)], { maxAge: "1 hour", keepLast: 1 })).length, 2)
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1e300])("a time of %d in the index is no time", (endedAt) => {
    const noise = bundle(0, { endedAt, firstSeenEnded: Number.NaN, bytes: Number.NaN })
    const plan = decide([noise], { maxAge: "1 day", maxBytes: 1, keepMonthly: 1, keepYearly: 1 })
    assert.deepStrictEqual(kept(plan), [noise.id])
  })

  it("a dead running bundle is a crashed one", () => {
    const crashed = bundle(2 * day, { status: "running", liveness: "dead" })
    assert.deepStrictEqual(removed(decide([crashed], { maxAge: "1 day" })), [crashed.id])
    assert.strictEqual(reasonOf(decide([crashed], { all: true, keepStatus: ["crashed"] }), crashed), "KeepStatus")
  })

  it("crashed bundles nobody has looked at take their turn and are not removed unseen", () => {
    const crashed = Array.from(
      { length: 50 },
      (_, index) => bundle((60 + index) * day, { status: "running", liveness: "unprobed" })
    )
    const finished = daily(10)
    const plan = decide([...crashed, ...finished], { maxBundles: 10 })
    assert.deepStrictEqual(removed(plan), [])
    for (const facts of crashed) assert.strictEqual(reasonOf(plan, facts), "Unprobed")
    for (const facts of finished) assert.strictEqual(reasonOf(plan, facts), "WithinLimits")
  })

  it("an old bundle that must stay is passed over for the next until the count holds", () => {
    const [a, b, c, d] = daily(4)
    const pinned = bundle(9 * day, { pinned: true })
    const plan = decide([a!, b!, c!, d!, pinned], { maxBundles: 3 })
    assert.deepStrictEqual(removed(plan), ids([d!, c!]))
    assert.strictEqual(reasonOf(plan, pinned), "Pinned")
    const tagged = bundle(9 * day, { tags: { release: "1" } })
    const spared = decide([a!, b!, c!, d!, tagged], { maxBundles: 3, keepTag: ["release"] })
    assert.deepStrictEqual(removed(spared), ids([d!, c!]))
    assert.strictEqual(reasonOf(spared, tagged), "KeepTag")
  })
})

describe("bytes", () => {
  it("live, pinned and unknown bundles count and never go", () => {
    const fixed = [
      live(day, { bytes: 4 * MiB }),
      bundle(day, { pinned: true, bytes: 3 * MiB }),
      bundle(day, { liveness: "unknown", bytes: 2 * MiB })
    ]
    const plan = decide([...fixed, ...daily(3)], { maxBytes: 10 * MiB })
    assert.strictEqual(removed(plan).length, 2)
    assert.deepStrictEqual(removed(decide([...fixed, ...daily(3)], { maxBytes: MiB })).length, 3)
  })

  it("asks for no size that cannot matter", () => {
    const unmeasured = daily(5, { bytes: undefined })
    for (const input of [{}, { maxAge: "1 day" }, { maxBundles: 2 }, { keepLast: 2 }, { all: true }] as const) {
      assert.deepStrictEqual(decide(unmeasured, input, 0).needsSize, [])
    }
    assert.deepStrictEqual(decide(unmeasured, { minFree: "1 GiB" }).needsSize, [])
    assert.deepStrictEqual(decide(unmeasured, { minFree: "1 GiB" }, 1024 * MiB).needsSize, [])
    assert.deepStrictEqual(
      decide(unmeasured.map((facts) => ({ ...facts, pinned: true })), { maxBytes: 1 }).needsSize,
      []
    )
    assert.deepStrictEqual(decide(unmeasured, { maxBytes: 1, maxAge: "1 hour" }).needsSize, [])
  })

  it("a byte limit needs the newest alone: what is older than the limit's worth goes unmeasured", () => {
    const store = daily(1000, { bytes: undefined })
    const first = decide(store, { maxBytes: 3 * MiB })
    assert.deepStrictEqual(removed(first), [])
    assert.deepStrictEqual(first.needsSize, ids(store))
    const four = new Set(first.needsSize.slice(0, 4))
    const measured = store.map((facts) => four.has(facts.id) ? { ...facts, bytes: MiB } : facts)
    const second = decide(measured, { maxBytes: 3 * MiB })
    assert.deepStrictEqual(kept(second).length, 3)
    assert.deepStrictEqual(second.needsSize, [])
  })

  it("free space goes one bundle at a time past sizes that are not known, and asks for them oldest first", () => {
    const store = daily(4, { bytes: undefined })
    const oldest = store.toReversed()
    const blind = decide(store, { minFree: 10 * MiB }, 8 * MiB)
    assert.deepStrictEqual(removed(blind), ids(oldest.slice(0, 1)))
    assert.deepStrictEqual(blind.needsSize, ids(oldest))
    const known = store.map((facts) => ({ ...facts, bytes: MiB }))
    const seen = decide(known, { minFree: 10 * MiB }, 8 * MiB)
    assert.deepStrictEqual(removed(seen), ids(oldest.slice(0, 2)))
    assert.deepStrictEqual(seen.needsSize, [])
  })

  it("live and pinned bundles never count as freed, and what age takes does", () => {
    const store = [
      live(9 * day, { bytes: 900 * MiB }),
      bundle(9 * day, { pinned: true, bytes: 900 * MiB }),
      ...daily(5)
    ]
    assert.strictEqual(removed(decide(store, { minFree: 3 * MiB }, 0)).length, 3)
    assert.strictEqual(removed(decide(store, { minFree: 2 * MiB, maxAge: "2 days" }, 0)).length, 3)
  })
})

describe("keep rules", () => {
  it("spans of the calendar are in UTC, weeks start on Monday, and only spans with bundles take a place", () => {
    const at = (iso: string) => bundle(now - Date.parse(iso))
    // The 30th of November 2026 is a Monday.
    const monday = at("2026-11-30T00:00:00.000Z")
    const sunday = at("2026-11-29T23:59:59.999Z")
    const sameWeek = at("2026-11-23T00:00:00.000Z")
    const before = at("2026-11-22T23:59:59.999Z")
    const lastYear = at("2025-12-31T23:59:59.999Z")
    const store = [monday, sunday, sameWeek, before, lastYear]
    assert.deepStrictEqual(kept(decide(store, { keepWeekly: 3 })), ids([before, sunday, monday]))
    assert.deepStrictEqual(kept(decide(store, { keepHourly: 2 })), ids([sunday, monday]))
    assert.deepStrictEqual(kept(decide(store, { keepMonthly: 2 })), ids([lastYear, monday]))
    assert.deepStrictEqual(kept(decide(store, { keepYearly: 5 })), ids([lastYear, monday]))
    const yearBefore = at("2025-11-30T00:00:00.000Z")
    assert.deepStrictEqual(kept(decide([monday, yearBefore], { keepMonthly: 2 })), ids([yearBefore, monday]))
  })

  it("keepWithin keeps to the millisecond what maxAge would keep", () => {
    const at = bundle(day)
    const past = bundle(day + 1)
    assert.deepStrictEqual(kept(decide([at, past], { keepWithin: "1 day" })), [at.id])
  })

  it("each rule counts by itself", () => {
    const store = daily(5)
    const plan = decide(store, { keepLast: 2, keepDaily: 3 })
    assert.deepStrictEqual(kept(plan), ids(store.slice(0, 3)).toReversed())
    assert.deepStrictEqual(plan.decisions.slice(2).map(({ reason }) => reasonText(reason)), [
      "kept: daily 3 of 3",
      "kept: newest 2",
      "kept: newest 2"
    ])
  })

  it("a tag rule matches a key or a whole pair, and no inherited property", () => {
    const release = bundle(day, { tags: { release: "1=2" } })
    const store = [release, ...daily(2)]
    for (const keepTag of [["release"], ["release=1=2"]] as const) {
      assert.deepStrictEqual(kept(decide(store, { keepTag: [...keepTag] })), [release.id])
    }
    assert.deepStrictEqual(kept(decide(store, { keepTag: ["release="] })), [])
    assert.deepStrictEqual(kept(decide(store, { keepTag: ["constructor"] })), [])
    assert.strictEqual(removed(decide(store, { maxBundles: 3, groupBy: "tag:constructor" })).length, 0)
  })

  it("keepLast counts finished bundles, pinned ones among them", () => {
    const pinned = bundle(hour, { pinned: true })
    const [a, b, c] = daily(3)
    const plan = decide([live(hour), unreadable(), pinned, a!, b!, c!], { keepLast: 2 })
    assert.deepStrictEqual(removed(plan), ids([c!, b!]))
  })

  it("groups share neither counts nor places", () => {
    const store = [...daily(3, { name: "a" }), ...daily(3, { name: "b" }), unreadable()]
    const plan = decide(store, { maxBundles: 2, groupBy: "name" })
    assert.deepStrictEqual(new Set(removed(plan)), new Set(ids([store[2]!, store[5]!])))
    assert.include(plan.decisions.map(({ reason }) => reasonText(reason)), "beyond 2 bundles of a")
    const nameless = daily(2, { name: "" })
    const noName = { ...unreadable(), name: "" }
    assert.deepStrictEqual(removed(decide([...nameless, noName], { maxBundles: 2, groupBy: "name" })), [])
  })
})

describe("under the claim", () => {
  const rule = policy({ maxBundles: 1, keepTag: ["release"], keepStatus: ["crashed"], groupBy: "name" })
  const facts = bundle(2 * day)
  const again = (fresh: Partial<Facts>) => RetentionDecision.recheck(facts, { ...facts, ...fresh }, rule, now)

  it("what has not changed may go", () => {
    assert.isUndefined(again({ liveness: "dead" }))
  })

  it("what was pinned, tagged, renamed, resumed or found crashed meanwhile stays", () => {
    assert.deepStrictEqual(again({ pinned: true, pinReason: "mine" }), KeepReason.Pinned({ detail: "mine" }))
    assert.deepStrictEqual(again({ tags: { release: "1" } }), KeepReason.KeepTag({ tag: "release" }))
    assert.deepStrictEqual(again({ name: "other" }), KeepReason.Changed())
    assert.deepStrictEqual(again({ endedAt: now - day }), KeepReason.Changed())
    assert.deepStrictEqual(again({ liveness: "live" }), KeepReason.Live())
    assert.deepStrictEqual(again({ status: "crashed" }), KeepReason.KeepStatus({ status: "crashed" }))
    assert.strictEqual(again({ status: "unknown" })?._tag, "Unknown")
  })
})

describe("public bugs", () => {
  it("bug 01, bug 02: a live bundle is kept however old its run and whatever is asked", () => {
    const running = live(30 * day)
    for (
      const input of [{ maxAge: "4 hours" }, { maxBundles: 1 }, { maxBytes: 1 }, { all: true }, {
        keepLast: 1
      }] as const
    ) {
      const plan = decide([running, ...daily(3)], input, 0)
      assert.strictEqual(reasonOf(plan, running), "Live")
      assert.notInclude(removed(plan), running.id)
      assert.include(
        removed(decide([{ ...running, ...bundle(30 * day, { id: running.id }) }, ...daily(3)], input)),
        running.id
      )
    }
  })

  it("bug 07: live beyond every limit is kept for one and the same reason", () => {
    const running = live(90 * day, { bytes: 10_000 * MiB })
    const reasons = [
      decide([running, ...daily(3)], { maxBundles: 1 }),
      decide([running, ...daily(3)], { maxAge: "1 day" }),
      decide([running, ...daily(3)], { maxBytes: 1 }),
      decide([running, ...daily(3)], { minFree: "1 TiB" }, 0),
      decide([running, ...daily(3)], { all: true })
    ].map((plan) => plan.decisions.find(({ id }) => id === running.id)!.reason)
    for (const reason of reasons) assert.deepStrictEqual(reason, KeepReason.Live())
  })

  it("bug 08: keep the newest two of three, the oldest is live", () => {
    const oldest = live(9 * day)
    const [newest, next] = daily(2)
    assert.deepStrictEqual(removed(decide([newest!, next!, oldest], { keepLast: 2 })), [])
    assert.deepStrictEqual(removed(decide([newest!, next!, oldest], { maxBundles: 2, keepLast: 2 })), [])
    // A live bundle uses a place of `maxBundles`, which counts everything, and none of `keepLast`.
    assert.deepStrictEqual(removed(decide([newest!, next!, oldest], { maxBundles: 2 })), [next!.id])
  })

  describe("bug 36: a future timestamp", () => {
    const normal = daily(10)
    const future = bundle(Date.parse("2026-11-30T12:00:00.000Z") - Date.parse("2099-01-01T00:00:00.000Z"))
    const inputs = [
      { maxAge: "5 days" },
      { maxBundles: 1 },
      { maxBundles: 5 },
      { maxBundles: 10 },
      { maxBytes: 5 * MiB },
      { keepLast: 5 },
      { keepDaily: 5 },
      { keepWeekly: 2 },
      { keepMonthly: 1 },
      { keepYearly: 1 },
      { keepWithin: "4 days" }
    ] as const

    it.each(inputs)("takes nobody's place and changes no other decision: %j", (input) => {
      const without = decide(normal, input)
      for (const firstSeenEnded of [undefined, now + day, now, now - 3 * day - 1, now - 90 * day]) {
        const ahead = { ...future, firstSeenEnded }
        const plan = decide([ahead, ...normal], input)
        assert.deepStrictEqual(plan.decisions.filter(({ id }) => id !== future.id), without.decisions)
        assert.isTrue(plan.decisions.find(({ id }) => id === future.id)?.clockAhead)
      }
    })

    it("stays when it has just been seen, and goes by age, count and bytes counted from when it was", () => {
      for (const input of [{ maxAge: "5 days" }, { maxBundles: 5 }, { maxBytes: 5 * MiB }, { keepLast: 5 }] as const) {
        assert.notInclude(removed(decide([future, ...normal], input)), future.id)
        const seen = { ...future, firstSeenEnded: now - 6 * day }
        assert.include(removed(decide([seen, ...normal], input)), future.id)
      }
    })

    it("has ended by now, also when a pass with a wrong clock saw it", () => {
      assert.strictEqual(endOf({ ...future, firstSeenEnded: now + day }, now), now)
      assert.strictEqual(endOf({ ...future, firstSeenEnded: now - day }, now), now - day)
    })

    it("the clock set back a day: what ended today stays where it was", () => {
      const today = [bundle(-23 * hour), bundle(-22 * hour)]
      const plan = decide([...today, ...normal], { maxBundles: 5, maxAge: "8 days" })
      assert.deepStrictEqual(kept(plan).length, 7)
      for (const facts of today) assert.strictEqual(reasonOf(plan, facts), "WithinLimits")
    })
  })

  it("bug 48: an empty policy removes nothing, and no decision is reached with a bad one", () => {
    const store = daily(5)
    assert.deepStrictEqual(removed(decide(store, {}, 0)), [])
    assert.deepStrictEqual(removed(decide(store, { groupBy: "name" }, 0)), [])
    assert.deepStrictEqual(removed(decide(store, { all: false }, 0)), [])
    for (const bad of [0, -1, Number.NaN, JSON.parse("1e400")]) {
      for (const field of ["maxBundles", "maxAge", "maxBytes", "minFree", "keepLast", "keepWithin"]) {
        assert.throws(() => decide(store, { [field]: bad }), field)
      }
    }
    assert.deepStrictEqual(removed(decide(store, { all: true })), ids(store).toReversed())
  })

  it("bug 49: a hundred runs from a hundred hosts are one group unless told otherwise", () => {
    const store = Array.from(
      { length: 100 },
      (_, index) => bundle(index * hour, { name: "job", tags: { host: `host-${index}` } })
    )
    assert.deepStrictEqual(kept(decide(store, { maxBundles: 10 })), ids(store.slice(0, 10)).toReversed())
    assert.deepStrictEqual(kept(decide(store, { keepLast: 10 })), ids(store.slice(0, 10)).toReversed())
    assert.deepStrictEqual(kept(decide(store, { maxBundles: 10, groupBy: "name" })).length, 10)
  })

  it("bug 55: a pinned bundle beyond every limit stays, and says that it matched", () => {
    const pinned = bundle(400 * day, { pinned: true, pinReason: "evidence", bytes: 10_000 * MiB, liveness: "dead" })
    for (
      const input of [
        { maxBundles: 1 },
        { maxAge: "1 day" },
        { maxBytes: 1 },
        { minFree: "1 TiB" },
        { all: true },
        { keepLast: 1 },
        { keepDaily: 1, groupBy: "name" }
      ] as const
    ) {
      const plan = decide([pinned, ...daily(3)], input, 0)
      assert.deepStrictEqual(plan.decisions[0]?.reason, KeepReason.Pinned({ detail: "evidence" }))
    }
    assert.strictEqual(reasonOf(decide([pinned], { maxBundles: 5 }), pinned), "WithinLimits")
  })

  describe("bug 56: counts", () => {
    const limit = 5

    it.each([0, 1, limit - 1, limit, limit + 1, 3 * limit])("%d bundles", (count) => {
      const store = daily(count)
      const left = Math.min(count, limit)
      assert.deepStrictEqual(kept(decide(store, { maxBundles: limit })), ids(store.slice(0, left)).toReversed())
      assert.deepStrictEqual(kept(decide(store, { keepLast: limit })), ids(store.slice(0, left)).toReversed())
      assert.strictEqual(kept(decide(store, { keepDaily: limit })).length, left)
    })

    it("live, pinned, unreadable and just started ones count for maxBundles", () => {
      for (const count of [limit - 1, limit, limit + 1]) {
        const others = [live(9 * day), bundle(9 * day, { pinned: true }), unreadable(), live(minute)]
        const store = [...daily(count), ...others]
        const plan = decide(store, { maxBundles: limit })
        assert.strictEqual(kept(plan).length, limit)
        for (const facts of others) assert.include(kept(plan), facts.id)
        // Of the finished ones the pinned is the oldest: it has a place only when there are fewer than five others.
        assert.strictEqual(removed(decide(store, { keepLast: limit })).length, Math.max(0, count - limit))
      }
    })

    it("two days keep two days", () => {
      const store = Array.from({ length: 96 }, (_, index) => bundle(index * hour + minute))
      assert.strictEqual(kept(decide(store, { maxAge: "2 days" })).length, 48)
      assert.strictEqual(kept(decide(store, { keepWithin: "2 days" })).length, 48)
      assert.strictEqual(kept(decide(store, { keepDaily: 2 })).length, 2)
    })

    it("a rule for weeks keeps the only weekly one among many daily ones", () => {
      const weekly = bundle(20 * day)
      const store = [...Array.from({ length: 30 }, (_, index) => bundle(index * hour)), weekly]
      assert.include(kept(decide(store, { keepWeekly: 3 })), weekly.id)
    })
  })
})
