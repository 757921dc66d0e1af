/** A few seconds of what `npm run test:soak` does for as long as one likes. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { directory } from "../support/Stores.ts"
import { soak } from "./Soak.ts"

const seed = Number(process.env["LEASEHOLD_SEED"] ?? Math.floor(Math.random() * 1e9))

describe("a store in which everything is done at once", () => {
  it.live(
    "loses nothing, while its processes are killed and stopped",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const dir = yield* directory
        const { line, violations } = yield* Effect.promise(() =>
          soak({ dir, millis: 4000, processes: 4, runs: 6, seed, onMinute: console.log })
        )
        console.log(`LEASEHOLD_SEED=${seed} ${line}`)
        assert.deepStrictEqual(violations, [])
      })),
    240_000
  )
})
