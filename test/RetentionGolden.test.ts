/** What forty policies do to one store. `UPDATE_GOLDEN=1 vitest run test/RetentionGolden.test.ts` writes the files anew. */
import { assert, describe, it } from "@effect/vitest"
import * as Fs from "node:fs"
import { fileURLToPath } from "node:url"
import * as RetentionDecision from "../src/RetentionDecision.ts"
import type { BundleFacts } from "../src/RetentionFacts.ts"
import type { PolicyInput } from "../src/RetentionPolicy.ts"
import { reasonText } from "../src/RetentionReason.ts"
import * as RetentionWords from "../src/RetentionWords.ts"
import { formatBytes, formatDuration } from "../src/Units.ts"
import { MiB, now, policy, sampleStore } from "./RetentionFixtures.ts"

const golden = fileURLToPath(new URL("golden/retention/", import.meta.url))

const policies: { readonly [name: string]: PolicyInput } = {
  "empty": {},
  "group-by-alone": { groupBy: "name" },
  "all": { all: true },
  "all-but-newest": { all: true, keepLast: 3 },
  "max-bundles-1": { maxBundles: 1 },
  "max-bundles-20": { maxBundles: 20 },
  "max-bundles-as-many-as-there-are": { maxBundles: 32 },
  "max-bundles-one-fewer": { maxBundles: 31 },
  "max-bundles-per-name": { maxBundles: 5, groupBy: "name" },
  "max-bundles-per-tag": { maxBundles: 3, groupBy: "tag:branch" },
  "max-age-14-days": { maxAge: "14 days" },
  "max-age-90-minutes": { maxAge: "90 minutes" },
  "max-age-2-years": { maxAge: "730 days" },
  "max-bytes-700-mib": { maxBytes: "700 MiB" },
  "max-bytes-1-kib": { maxBytes: "1 KiB" },
  "max-bytes-never-reached": { maxBytes: "100 GiB" },
  "max-bytes-per-name-is-of-the-store": { maxBytes: "700 MiB", groupBy: "name" },
  "min-free-enough": { minFree: "500 MiB" },
  "min-free-a-little-short": { minFree: "1010 MiB" },
  "min-free-far-short": { minFree: "10 GiB" },
  "min-free-after-age": { minFree: "1200 MiB", maxAge: "390 days" },
  "keep-last-1": { keepLast: 1 },
  "keep-last-10": { keepLast: 10 },
  "keep-last-2-per-name": { keepLast: 2, groupBy: "name" },
  "keep-hourly-4": { keepHourly: 4 },
  "keep-daily-7": { keepDaily: 7 },
  "keep-weekly-4": { keepWeekly: 4 },
  "keep-monthly-6": { keepMonthly: 6 },
  "keep-yearly-3": { keepYearly: 3 },
  "keep-grandfather-father-son": { keepDaily: 3, keepWeekly: 2, keepMonthly: 2, keepYearly: 2 },
  "keep-grandfather-father-son-per-name": {
    keepDaily: 3,
    keepWeekly: 2,
    keepMonthly: 2,
    keepYearly: 2,
    groupBy: "name"
  },
  "keep-within-2-days": { keepWithin: "2 days" },
  "keep-tag-release": { keepTag: ["release"] },
  "keep-tag-values": { keepTag: ["release=1.4", "branch=fix", "release="] },
  "keep-status-failed": { keepStatus: ["error", "crashed"] },
  "count-or-age": { maxBundles: 25, maxAge: "30 days" },
  "count-spares-newest": { maxBundles: 4, keepLast: 6 },
  "age-spares-newest-per-name": { maxAge: "1 day", keepLast: 2, groupBy: "name" },
  "age-spares-releases-and-failures": { maxAge: "7 days", keepTag: ["release"], keepStatus: ["error"] },
  "bytes-spare-dailies": { maxBytes: "600 MiB", keepDaily: 4 },
  "everything-at-once": {
    maxBundles: 28,
    maxAge: "60 days",
    maxBytes: "1 GiB",
    minFree: "1100 MiB",
    keepLast: 2,
    keepDaily: 2,
    keepMonthly: 2,
    keepTag: ["release"],
    keepStatus: ["interrupted"],
    groupBy: "name"
  },
  "standard": { maxBundles: 1000, maxAge: "30 days", keepLast: 10 }
}

const freeBytes = 1000 * MiB

const table = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const widths: Array<number> = []
  for (const row of rows) row.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)))
  return rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ").trimEnd())
}

const ageOf = (facts: BundleFacts): string => {
  if (facts.endedAt === undefined) return "-"
  const millis = now - facts.endedAt
  return `${millis < 0 ? "-" : ""}${formatDuration(Math.abs(millis))}`
}

const render = (input: PolicyInput): string => {
  const store = sampleStore()
  const facts = new Map(store.map((bundle) => [bundle.id, bundle]))
  const plan = RetentionDecision.decide(store, policy(input), now, { freeBytes })
  const rows = plan.decisions.map((decision) => {
    const bundle = facts.get(decision.id)!
    return [
      bundle.id,
      bundle.name,
      bundle.status,
      ageOf(bundle),
      bundle.bytes === undefined ? "?" : formatBytes(bundle.bytes),
      decision.action,
      reasonText(decision.reason) + (decision.clockAhead ? " (clock ahead)" : "")
    ]
  })
  const removals = plan.decisions.filter(({ action }) => action === "remove").length
  return [
    `policy   ${JSON.stringify(input)}`,
    `in words ${RetentionWords.describe(policy(input))}`,
    `result   ${removals} of ${store.length} go, ${formatBytes(freeBytes)} are free`,
    `measure  ${plan.needsSize.length === 0 ? "nothing" : plan.needsSize.join(" ")}`,
    "",
    ...table(rows),
    ""
  ].join("\n")
}

describe("golden", () => {
  it.each(Object.entries(policies))("%s", (name, input) => {
    const file = `${golden}${name}.txt`
    const text = render(input)
    if (process.env["UPDATE_GOLDEN"] === "1") Fs.writeFileSync(file, text)
    assert.strictEqual(text, Fs.readFileSync(file, "utf8"))
  })

  it("has a file for each policy and no other", () => {
    assert.deepStrictEqual(Fs.readdirSync(golden).sort(), Object.keys(policies).map((name) => `${name}.txt`).sort())
  })
})
