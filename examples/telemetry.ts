/**
 * A program with telemetry: `OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node examples/telemetry.ts`
 *
 * Its spans are in `telemetry/spans.jsonl` of the bundle, its log events in `logs/events.jsonl`. When the variable is
 * set they go to that collector as well. All of it is flushed before the lease goes, so whoever finds the lease free
 * finds the telemetry complete; a collector that is down changes neither the outcome nor what is in the bundle.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Run from "leasehold/Run"
import * as RunStore from "leasehold/RunStore"

const checked = Metric.counter("numbers_checked", { incremental: true })

const isPrime = (number: number): boolean => {
  for (let divisor = 2; divisor * divisor <= number; divisor++) {
    if (number % divisor === 0) return false
  }
  return number > 1
}

const countPrimes = Effect.fn("countPrimes")(function*(from: number, to: number) {
  yield* Effect.annotateCurrentSpan({ from, to })
  let primes = 0
  for (let number = from; number < to; number++) if (isPrime(number)) primes++
  yield* Metric.update(checked, to - from)
  yield* Effect.log("counted").pipe(Effect.annotateLogs({ from, to, primes }))
  return primes
})

const program = Effect.gen(function*() {
  // A finalizer's span belongs to the run as well.
  yield* Effect.addFinalizer(() => Effect.withSpan(Effect.log("cleaning up"), "cleanup"))
  const parts = yield* Effect.forEach([0, 1, 2, 3], (part) => countPrimes(part * 1000, (part + 1) * 1000))
  console.log(parts.reduce((sum, primes) => sum + primes, 0))
})

program.pipe(Run.scoped({ name: "telemetry" }), Effect.provide(RunStore.layer()), Run.main)
