import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as RunId from "../src/RunId.ts"

describe("RunId", () => {
  it.effect("generated ids follow the grammar, differ, and name their own day", () =>
    Effect.gen(function*() {
      const ids = yield* Effect.all(Array.from({ length: 200 }, () => RunId.generate))
      assert.strictEqual(new Set(ids).size, 200)
      for (const id of ids) {
        assert.isTrue(RunId.isRunId(id))
        assert.strictEqual(RunId.day(id), "1970-01-01")
      }
    }))

  it("ids sort as their start times do", () => {
    const at = (iso: string) => RunId.fromParts(DateTime.makeUnsafe(iso), [1, 2, 3, 4, 5, 6, 7, 8])
    const ids = ["2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z"].map(at)
    assert.deepStrictEqual(ids.toSorted(), ids)
    assert.deepStrictEqual(ids.map((id) => DateTime.formatIso(RunId.startedAt(id))), [
      "2025-12-31T23:59:59.999Z",
      "2026-01-01T00:00:00.000Z",
      "2026-01-01T00:00:00.001Z"
    ])
  })

  it.each([
    "",
    ".",
    "..",
    "../20261130T142233123Z-k3f9x2mq",
    "20261130T142233123Z-k3f9x2mq/..",
    "20261130T142233123Z-k3f9x2mq\0",
    "20261130T142233123Z-k3f9x2mq\n",
    "20261130T142233123Z-K3F9X2MQ",
    "20261130T142233123Z-k3f9x2m",
    "20261330T142233123Z-k3f9x2mq",
    "20260230T142233123Z-k3f9x2mq",
    "20261130T242233123Z-k3f9x2mq",
    "２０２６1130T142233123Z-k3f9x2mq",
    "x".repeat(10_000)
  ])("%j is refused", (text) => {
    const result = RunId.parse(text)
    assert.isTrue(Result.isFailure(result))
    if (Result.isFailure(result)) assert.isBelow(result.failure.message.length, 200)
  })
})
