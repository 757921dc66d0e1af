/**
 * How many passes of the usual budget a limit in bytes takes that three of four bundles fill, in a store in which nobody
 * has measured any; and how many the report of the first pass says.
 *
 * npm run bench:converge -- 10000 "1 minute"   (bundles, time of a pass)
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as DiskUsage from "../src/DiskUsage.ts"
import * as Retention from "../src/Retention.ts"
import * as RunStore from "../src/RunStore.ts"
import { series } from "../test/support/Fabricate.ts"
import { day, hour } from "../test/support/Time.ts"
import { base, bytesEach, layerOf } from "./Stores.ts"

const [count = "10000", maxTime = "2 seconds"] = process.argv.slice(2)
const size = Number(count)
const root = `${base}/converging`

const fill = Effect.gen(function*() {
  yield* Effect.provide(Effect.void, RunStore.layer({ root, allowTemp: true }))
  const today = Math.floor(Date.now() / day) * day
  const made = Array.from(
    { length: Math.ceil(size / 300) },
    (_, nth) => series(root, Math.min(300, size - nth * 300), today - (nth + 2) * day + 12 * hour, { size: bytesEach })
  )
  return yield* DiskUsage.measure(made[0]![0]!.dir)
})

const bench = Effect.gen(function*() {
  const { bytes } = yield* fill
  const pass = Effect.provide(
    Retention.run({ policy: { maxBytes: 0.75 * size * bytes }, budget: { maxTime: maxTime as Duration.Input } }),
    layerOf(root)
  )
  const first = yield* pass
  let passes = 1
  let removed = first.removed.length
  for (let report = first; report.debt !== null; passes++) {
    report = yield* pass
    removed += report.removed.length
  }
  const said = 1 + (first.debt?.passes ?? 0)
  console.log(`${size} bundles, ${removed} to go: ${passes} passes, and the first said ${said}`)
})

await Effect.runPromise(bench).finally(() => NFS.rmSync(root, { recursive: true, force: true }))
