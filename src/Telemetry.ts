/**
 * What a run tells of itself: log events, spans, and export to an OpenTelemetry collector.
 *
 * Guarantees. Everything is flushed before the final record is written and the lease goes. A sink that fails is
 * reported once, as a warning, and never changes what the program does or how it ends.
 *
 * Limits. Lines reach their files in batches: a killed process loses up to the last tenth of a second.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Tracer from "effect/Tracer"
import { variable } from "./internal/Environment.ts"
import * as JsonLines from "./internal/JsonLines.ts"
import { messageOf } from "./Outcome.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Log events as JSON lines in `logs/events.jsonl`, beside the loggers that are there already; on. */
  readonly events?: boolean | undefined
  /** Spans as JSON lines in `telemetry/spans.jsonl`, beside the tracer that is there already; on. */
  readonly spans?: boolean | undefined
  /** Export when `OTEL_EXPORTER_OTLP_ENDPOINT` is set; on. */
  readonly otlp?: boolean | undefined
  /** What error messages go through before they are written to the span file. */
  readonly redact?: ((text: string) => string) | undefined
}

const events = (path: string) =>
  Logger.layer(
    [Effect.map(
      JsonLines.make(path),
      (lines) => Logger.make((options) => lines.push(Logger.formatJson.log(options)))
    )],
    { mergeWithExisting: true }
  )

type Redact = (text: string) => string

const outcomeOf = (exit: Exit.Exit<unknown, unknown>, redact: Redact) =>
  Exit.isSuccess(exit) ?
    { status: "ok" } :
    Cause.hasInterruptsOnly(exit.cause) ?
    { status: "interrupted" } :
    { status: "error", message: redact(messageOf(Cause.squash(exit.cause))) }

/** An attribute may be anything; what JSON cannot say must not end the program that set it. */
const jsonSafe = (value: unknown): unknown => {
  const text = Result.try(() => JSON.stringify(value))
  return Result.isSuccess(text) && text.success !== undefined ? value : messageOf(value)
}

const attributesOf = (span: Tracer.Span) =>
  Object.fromEntries([...span.attributes].map(([name, value]) => [name, jsonSafe(value)]))

const spanLine = (span: Tracer.Span, endTime: bigint, exit: Exit.Exit<unknown, unknown>, redact: Redact): string =>
  JSON.stringify({
    traceId: span.traceId,
    spanId: span.spanId,
    ...Option.match(span.parent, { onNone: () => ({}), onSome: (parent) => ({ parentSpanId: parent.spanId }) }),
    name: span.name,
    kind: span.kind,
    startTimeUnixNano: String(span.status.startTime),
    endTimeUnixNano: String(endTime),
    attributes: attributesOf(span),
    ...outcomeOf(exit, redact)
  })

/** Writes a span down as it ends and leaves everything else to the tracer that is there. */
const recording = (tracer: Tracer.Tracer, lines: JsonLines.JsonLines, redact: Redact): Tracer.Tracer =>
  Tracer.make({
    ...(tracer.context === undefined ? {} : { context: tracer.context }),
    span: (options) => {
      const span = tracer.span(options)
      const end = span.end.bind(span)
      span.end = (endTime, exit) => {
        end(endTime, exit)
        if (span.sampled) lines.push(spanLine(span, endTime, exit, redact))
      }
      return span
    }
  })

const spans = (path: string, redact: Redact) =>
  Layer.effect(
    Tracer.Tracer,
    Effect.gen(function*() {
      const lines = yield* JsonLines.make(path)
      return recording(yield* Tracer.Tracer, lines, redact)
    })
  )

/** What the standard says where nothing is set; Effect exports nothing then. */
const standardExporters = ConfigProvider.layerAdd(
  ConfigProvider.fromEnv({
    env: { OTEL_TRACES_EXPORTER: "otlp", OTEL_LOGS_EXPORTER: "otlp", OTEL_METRICS_EXPORTER: "otlp" }
  })
)

/** Loaded only when it is asked for: the exporters bring an HTTP client along, which most runs never need. */
const otlp = (name: string, runId: string) =>
  Layer.unwrap(Effect.promise(async () => {
    const [Otlp, OtlpSerialization, FetchHttpClient] = await Promise.all([
      import("effect/observability/Otlp"),
      import("effect/observability/OtlpSerialization"),
      import("effect/http/FetchHttpClient")
    ])
    return Otlp.layerFromConfig({
      resource: { serviceName: name, attributes: { "leasehold.run.id": runId } },
      loggerMergeWithExisting: true
    }).pipe(
      Layer.provide(OtlpSerialization.layerJson),
      Layer.provide(FetchHttpClient.layer),
      Layer.provide(standardExporters)
    )
  })).pipe(
    // Settings that are malformed are no reason not to do the work.
    Layer.catchCause((cause) =>
      Layer.effectDiscard(Effect.logWarning(`nothing is exported: ${messageOf(Cause.squash(cause))}`))
    )
  )

/**
 * The sinks of one run, to be built after its lease is held and in the same scope, so that they are flushed before the
 * lease goes.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  run: { readonly id: string; readonly name: string; readonly dir: string },
  options: Options = {}
): Layer.Layer<never> =>
  Layer.unwrap(Effect.gen(function*() {
    const endpoint = yield* variable("OTEL_EXPORTER_OTLP_ENDPOINT")
    // A chain and not siblings: the span file wraps the exporter's tracer, and each flushes before the one below it.
    let sinks: Layer.Layer<never> = Layer.empty
    if (options.otlp !== false && endpoint !== undefined) sinks = Layer.provideMerge(otlp(run.name, run.id), sinks)
    if (options.spans !== false) {
      sinks = Layer.provideMerge(spans(`${run.dir}/telemetry/spans.jsonl`, options.redact ?? ((text) => text)), sinks)
    }
    if (options.events !== false) {
      sinks = Layer.provideMerge(events(`${run.dir}/logs/events.jsonl`), sinks)
    }
    return sinks
  }))
