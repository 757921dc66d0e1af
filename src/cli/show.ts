import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { describe } from "../Holder.ts"
import { commandLine } from "../internal/ShellWords.ts"
import { describeLiveness } from "../Liveness.ts"
import * as OnRemove from "../OnRemove.ts"
import { countOf } from "../RetentionReason.ts"
import { type Registered, type RunRecord, type Timestamp, toMillis, type Trim } from "../RunRecord.ts"
import { formatAgo, formatBytes, formatDuration } from "../Units.ts"
import { findRun, Json, runName, Store } from "./Context.ts"
import { printJson } from "./Output.ts"
import { livenessDocument, look, statusOf } from "./RunView.ts"
import { type Facts, sheet } from "./Table.ts"

const exitText = ({ exit }: RunRecord): string | undefined => {
  if (exit === undefined) return undefined
  const how = exit.signal ?? (exit.code === undefined ? "" : String(exit.code))
  return [how, exit.message].filter((part) => part !== undefined && part !== "").join(": ")
}

/** As everything else of how it ended, of the last attempt. */
const outputText = ({ attempts }: RunRecord): string | undefined => {
  const last = attempts.at(-1)
  const which = attempts.length > 1 ? " of the last attempt" : ""
  if (last?.tty === true) return `not kept${which}: it had the terminal`
  return last?.outputIncomplete === true ? `incomplete${which}: it could not all be kept` : undefined
}

const trimText = ({ at, bytes, paths, pending }: Trim, now: number) =>
  `${paths.join(", ")}: ${formatBytes(bytes)} (${formatAgo(now - toMillis(at))}${
    pending === true ? ", unfinished" : ""
  })`
const undoText = (registered: Registered, now: number): string => {
  const { at, doneAt, failure } = registered
  const ago = (time: Timestamp) => formatAgo(now - toMillis(time))
  const state = doneAt !== undefined
    ? `done ${ago(doneAt)}`
    : failure !== undefined
    ? `failed ${countOf(failure.count, "time")}, last ${ago(failure.at)}: ${failure.message}`
    : OnRemove.isKnown(registered)
    ? `registered ${ago(at)}`
    : `registered ${ago(at)}; this program cannot undo it`
  return `${OnRemove.describe(registered)} (${state})`
}

const fields = (record: RunRecord, now: number): Facts => {
  const at = (time: RunRecord["endedAt"]) => time && `${time} (${formatAgo(now - toMillis(time))})`
  const { endedAt } = record
  return [
    ["name", record.name],
    ["started", at(record.startedAt)],
    ["ended", at(endedAt)],
    ["took", endedAt && formatDuration(Math.max(0, toMillis(endedAt) - toMillis(record.startedAt)))],
    ["released", at(record.releasedAt)],
    ["exit", exitText(record)],
    ["command", record.command && commandLine(record.command.argv)],
    ["in", record.command?.cwd],
    ["output", outputText(record)],
    ["parent", record.parent],
    ["forked from", record.forkedFrom],
    ["attempts", record.attempts.length > 1 ? String(record.attempts.length) : undefined],
    ["tags", Object.entries(record.tags).map(([key, value]) => `${key}=${value}`).join(" ")],
    ["pinned", record.pin && `${record.pin.reason} (${formatAgo(now - toMillis(record.pin.at))})`],
    ["bytes", record.bytes && formatBytes(record.bytes.value)],
    ["trimmed", (record.trimmed ?? []).map((trim) => trimText(trim, now)).join("; ")],
    ...(record.onRemove ?? []).map((registered) => ["on removal", undoText(registered, now)] as const),
    ["lease", record.lease === "unprotected" ? "unprotected: the file system has no locks" : undefined]
  ]
}

export const show = Command.make("show", { run: runName }).pipe(
  Command.withDescription("Show what is known of a run, and who works in it"),
  Command.withHandler(Effect.fn(function*({ run }) {
    const view = yield* Effect.flatMap(findRun(run), look)
    const { entry, liveness } = view
    if (yield* Json) {
      const document = Result.isSuccess(entry.record)
        ? { run: entry.record.success }
        : { run: null, problem: entry.record.failure.message }
      return yield* printJson({ version: 1, ...document, liveness: livenessDocument(liveness) })
    }
    const now = DateTime.toEpochMillis(yield* DateTime.now)
    const rows: Facts = [
      ["id", entry.id],
      ["status", statusOf(view)],
      ["problem", Result.isFailure(entry.record) ? entry.record.failure.message : undefined],
      ...(Result.isSuccess(entry.record) ? fields(entry.record.success, now) : []),
      ["liveness", `${liveness._tag.toLowerCase()}: ${describeLiveness(liveness)}`],
      ...(liveness._tag === "Live" ? liveness.holders.map((holder) => ["holder", describe(holder)] as const) : []),
      ["dir", entry.dir]
    ]
    yield* Console.log(yield* sheet(rows))
  })),
  Command.provide(Store)
)
