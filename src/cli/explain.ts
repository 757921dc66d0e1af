import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Documents from "../Documents.ts"
import { describe } from "../Holder.ts"
import { describeLiveness } from "../Liveness.ts"
import { decisionText, type Verdict, verdictText } from "../RetentionExplanation.ts"
import { reasonKind, reasonText } from "../RetentionReason.ts"
import * as RetentionSurvey from "../RetentionSurvey.ts"
import * as RetentionWords from "../RetentionWords.ts"
import { timestamp, toMillis } from "../RunRecord.ts"
import * as SqliteIndex from "../SqliteIndex.ts"
import { formatAgo } from "../Units.ts"
import { Json, runName, Store } from "./Context.ts"
import { harmless, paint, printJson } from "./Output.ts"
import { policyFlags, policyOf } from "./PolicyFlags.ts"
import { livenessDocument, statusOf } from "./RunView.ts"
import { type Cell, type Facts, sheet, table } from "./Table.ts"

type Explained = RetentionSurvey.Explained

const recordOf = ({ entry }: Explained) => Result.getOrUndefined(entry.record)

const endedAt = ({ ended }: Explained) => ended === undefined ? undefined : timestamp(DateTime.makeUnsafe(ended))

const knownBy: Record<RetentionSurvey.EndKnownBy, string> = {
  record: "by its record",
  restored: "when it was restored",
  "last event": "crashed, by the last event that it logged",
  "found dead": "crashed, and nothing tells when, so it counts as ended when it is found",
  "first seen": "when a pass first saw it ended; its record has a time in the future"
}

const documentOf = (explained: Explained): typeof Documents.Explain.Type => {
  const { answers, decision, entry, group, guard, liveness, note, policy } = explained
  const record = recordOf(explained)
  return {
    version: 1,
    id: entry.id,
    name: record?.name ?? null,
    status: statusOf(explained),
    liveness: livenessDocument(liveness),
    endedAt: endedAt(explained) ?? null,
    endKnownBy: explained.endKnownBy ?? null,
    pin: record?.pin ?? null,
    policy: RetentionWords.describe(policy),
    group: group ?? null,
    rules: answers.map(({ field, value, verdict, why }) => ({ rule: field, value, verdict, why })),
    guard: guard === undefined ? null : reasonKind(guard),
    action: decision.action,
    reason: reasonKind(decision.reason),
    message: reasonText(decision.reason),
    note: note ?? null
  }
}

const facts = (explained: Explained): Facts => {
  const { entry, group, liveness, now, policy } = explained
  const record = recordOf(explained)
  const at = endedAt(explained)
  const how = explained.endKnownBy
  return [
    ["id", entry.id],
    ["name", record?.name],
    ["status", statusOf(explained)],
    ["problem", Result.isFailure(entry.record) ? entry.record.failure.message : undefined],
    ["liveness", `${liveness._tag.toLowerCase()}: ${describeLiveness(liveness)}`],
    ...(liveness._tag === "Live" ? liveness.holders.map((holder) => ["holder", describe(holder)] as const) : []),
    ["ended", at && `${at} (${formatAgo(now - toMillis(at))})${how === undefined ? "" : `, ${knownBy[how]}`}`],
    ["pinned", record?.pin && `${record.pin.reason} (${formatAgo(now - toMillis(record.pin.at))})`],
    ["policy", RetentionWords.describe(policy)],
    ["group", group]
  ]
}

const colours: Record<Verdict, NonNullable<Cell["format"]>> = { asks: "red", spares: "green", neither: "dim" }

const say = Effect.fnUntraced(function*(explained: Explained) {
  yield* Console.log(yield* sheet(facts(explained)))
  const rows = explained.answers.map(({ field, value, verdict, why }): ReadonlyArray<Cell> => [
    { text: field },
    { text: harmless(value) },
    { text: verdictText(verdict), format: colours[verdict] },
    { text: harmless(why) }
  ])
  if (rows.length > 0) yield* Console.log(`\n${yield* table(rows)}`)
  yield* Console.log(`\n${paint("bold", harmless(decisionText(explained)))}`)
})

export const explain = Command.make("explain", { run: runName, ...policyFlags }).pipe(
  Command.withDescription("Show why a run is kept, or would go, under a policy: what each rule says, and all together"),
  Command.withHandler(Effect.fn(function*({ run, ...given }) {
    const explained = yield* RetentionSurvey.explain(run, yield* policyOf(given))
    yield* (yield* Json) ? printJson(documentOf(explained)) : say(explained)
  })),
  Command.provide(Layer.provideMerge(SqliteIndex.layer, Store))
)
