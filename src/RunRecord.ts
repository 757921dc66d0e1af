/**
 * The record of a run, `run.json`: what is known of it, checked by a schema, readable by any program.
 *
 * A record is written when the run starts, when its outcome is known, and when everything has been let go. Keys that
 * this version does not know are kept when it writes, at every level. A record of a newer version is not read, not
 * rewritten and not removed.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { RunId } from "./RunId.ts"

/**
 * The version of the format that this code writes, and the newest it reads.
 *
 * @category constants
 * @since 0.1.0
 */
export const version = 1

/**
 * The most bytes a record may have. A larger file is not read, so that one broken bundle cannot fill the memory of
 * everybody who lists the store.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxBytes = 1024 * 1024

/** Decoding drops unknown keys unless they are asked for; a record must give back what a newer program put there. */
const open = <const Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.StructWithRest(Schema.Struct(fields), [Schema.Record(Schema.String, Schema.Json)])

/**
 * An instant as ISO 8601 in UTC with milliseconds, `2026-11-30T14:22:33.123Z`.
 *
 * It stays a string in memory: a record then is the same value on disk and in a program, and nothing is lost between.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Timestamp = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/u, { expected: "an ISO 8601 instant in UTC" }),
    Schema.makeFilter((text: string) => !Number.isNaN(Date.parse(text)), { expected: "a real date" })
  ),
  Schema.brand("leasehold/Timestamp")
)

/**
 * @category models
 * @since 0.1.0
 */
export type Timestamp = typeof Timestamp.Type

/**
 * @category constructors
 * @since 0.1.0
 */
export const timestamp = (instant: DateTime.DateTime): Timestamp => DateTime.formatIso(instant) as Timestamp

/**
 * Milliseconds since 1970.
 *
 * @category getters
 * @since 0.1.0
 */
export const toMillis = (timestamp: Timestamp): number => Date.parse(timestamp)

/**
 * `running` until the program's exit is known; `crashed` is written by whoever has proved the owner dead.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Status = Schema.Literals(["running", "ok", "error", "interrupted", "crashed"])

/**
 * @category models
 * @since 0.1.0
 */
export type Status = typeof Status.Type

/**
 * How the program ended: an exit code, or the signal that ended it, and a redacted message.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunExit = open({
  code: Schema.optionalKey(Schema.Int),
  signal: Schema.optionalKey(Schema.String),
  message: Schema.optionalKey(Schema.String)
})

/**
 * @category models
 * @since 0.1.0
 */
export type RunExit = typeof RunExit.Type

/**
 * The command of a run.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunCommand = open({
  argv: Schema.Array(Schema.String),
  cwd: Schema.String
})

/**
 * @category models
 * @since 0.1.0
 */
export type RunCommand = typeof RunCommand.Type

/**
 * One go at the run: the first start and every resume. `tty` is true when its command had the terminal itself, so that
 * its output was not kept, and `outputIncomplete` when not all of it could be.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Attempt = open({
  startedAt: Timestamp,
  endedAt: Schema.optionalKey(Timestamp),
  status: Status,
  tty: Schema.optionalKey(Schema.Boolean),
  outputIncomplete: Schema.optionalKey(Schema.Boolean)
})

/**
 * @category schemas
 * @since 0.1.0
 */
export const Pin = open({ reason: Schema.String, at: Timestamp })

/**
 * A trim: what `paths` matched was taken out of the bundle, so many names at the top of the matches and so many
 * allocated bytes. While it is `pending` it was begun and not finished, and the figures are what it set out to take.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Trim = open({
  at: Timestamp,
  paths: Schema.Array(Schema.String),
  entries: Schema.Natural,
  bytes: Schema.Natural,
  pending: Schema.optionalKey(Schema.Boolean)
})

/**
 * @category models
 * @since 0.1.0
 */
export type Trim = typeof Trim.Type

/**
 * How something that a run has made outside of its bundle is undone: by a command, or as a worktree of git. Any other
 * `type` is one that a newer program knows.
 *
 * @category schemas
 * @since 0.1.0
 */
export const KnownUndo = Schema.Union([
  open({ type: Schema.Literal("command"), argv: Schema.NonEmptyArray(Schema.String), cwd: Schema.String }),
  open({ type: Schema.Literal("git-worktree"), repository: Schema.String, path: Schema.String })
])

/**
 * @category models
 * @since 0.1.0
 */
export type KnownUndo = typeof KnownUndo.Type

/**
 * What is to be undone before the bundle goes. `doneAt` says that it has been; `failure` what came of the last try, and
 * how often it was tried in vain.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Registered = open({
  id: Schema.NonEmptyString,
  at: Timestamp,
  undo: Schema.Union([KnownUndo, open({ type: Schema.String })]),
  timeoutMs: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  doneAt: Schema.optionalKey(Timestamp),
  failure: Schema.optionalKey(open({ at: Timestamp, message: Schema.String, count: Schema.Natural }))
})

/**
 * @category models
 * @since 0.1.0
 */
export type Registered = typeof Registered.Type

/**
 * Tags of a run, for filters and retention rules.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Tags = Schema.Record(Schema.String, Schema.String)

/**
 * @category models
 * @since 0.1.0
 */
export type Tags = typeof Tags.Type

/**
 * `run.json`. Times are ISO 8601 in UTC with milliseconds; `bytes` are allocated bytes on disk.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunRecord = open({
  version: Schema.Literal(version),
  id: RunId,
  name: Schema.String,
  status: Status,
  startedAt: Timestamp,
  endedAt: Schema.optionalKey(Timestamp),
  releasedAt: Schema.optionalKey(Timestamp),
  command: Schema.optionalKey(RunCommand),
  exit: Schema.optionalKey(RunExit),
  parent: Schema.optionalKey(RunId),
  forkedFrom: Schema.optionalKey(RunId),
  attempts: Schema.Array(Attempt),
  tags: Tags,
  pin: Schema.optionalKey(Pin),
  onRemove: Schema.optionalKey(Schema.Array(Registered)),
  bytes: Schema.optionalKey(open({ value: Schema.Natural, at: Timestamp })),
  trimmed: Schema.optionalKey(Schema.Array(Trim)),
  lease: Schema.optionalKey(Schema.Literal("unprotected"))
}).annotate({
  identifier: "RunRecord",
  title: "Leasehold run record",
  description: "The record of one run, kept as run.json in its bundle"
})

/**
 * @category models
 * @since 0.1.0
 */
export type RunRecord = typeof RunRecord.Type

/**
 * The record with something changed of its last attempt.
 *
 * @category combinators
 * @since 0.1.0
 */
export const inLastAttempt = (
  record: RunRecord,
  change: Pick<Partial<typeof Attempt.Type>, "endedAt" | "status" | "tty" | "outputIncomplete">
): RunRecord => ({
  ...record,
  attempts: record.attempts.map((attempt, index) =>
    index === record.attempts.length - 1 ? { ...attempt, ...change } : attempt
  )
})

/**
 * Whether the run's own outcome is known, which does not mean that nobody works in its bundle any more.
 *
 * @category getters
 * @since 0.1.0
 */
export const isTerminal = (record: RunRecord): boolean => record.status !== "running"

/**
 * Why a record could not be used. Each is a reason to keep the bundle.
 *
 * @category errors
 * @since 0.1.0
 */
export class RecordError extends Schema.TaggedError<RecordError>()("RecordError", {
  reason: Schema.Union([
    Schema.TaggedStruct("NotABundle", { kind: Schema.String }),
    Schema.TaggedStruct("Missing", {}),
    Schema.TaggedStruct("NotAFile", { kind: Schema.String }),
    Schema.TaggedStruct("TooLarge", { bytes: Schema.Finite }),
    Schema.TaggedStruct("Unreadable", { code: Schema.String }),
    Schema.TaggedStruct("Malformed", { detail: Schema.String }),
    Schema.TaggedStruct("NewerVersion", { version: Schema.Finite })
  ])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "NotABundle":
        return `in the place of the bundle lies a ${reason.kind}`
      case "Missing":
        return "run.json is missing"
      case "NotAFile":
        return `run.json is a ${reason.kind}, not a regular file`
      case "TooLarge":
        return `run.json has ${reason.bytes} bytes, more than the ${maxBytes} that are read`
      case "Unreadable":
        return `run.json cannot be read (${reason.code})`
      case "Malformed":
        return `run.json is malformed: ${reason.detail}`
      case "NewerVersion":
        return `run.json has format version ${reason.version}; this program reads up to ${version}`
    }
  }
}

const malformed = (detail: string) => new RecordError({ reason: { _tag: "Malformed", detail } })

const decodeJson = Schema.decodeUnknownResult(RunRecord)

const oneLine = (text: string) => {
  const line = text.replaceAll(/\s+/g, " ")
  return line.length > 200 ? `${line.slice(0, 197)}...` : line
}

/**
 * Reads the text of a `run.json`. The version is looked at first: a newer format is a newer format, not a malformed
 * one, whatever else it holds.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (text: string): Result.Result<RunRecord, RecordError> => {
  if (text.trim() === "") return Result.fail(malformed("the file is empty"))
  return Result.flatMap(json(text), (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return Result.fail(malformed("not a JSON object"))
    }
    const found = "version" in value ? value.version : undefined
    if (typeof found === "number" && found > version) {
      return Result.fail(new RecordError({ reason: { _tag: "NewerVersion", version: found } }))
    }
    return Result.mapError(decodeJson(value), (error) => malformed(oneLine(error.message)))
  })
}

const json = (text: string): Result.Result<unknown, RecordError> =>
  Result.try({ try: (): unknown => JSON.parse(text), catch: (cause) => malformed(oneLine(String(cause))) })

/**
 * The text of a `run.json`, for people as much as for programs: two spaces of indent, a line break at the end.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (record: RunRecord): string => `${JSON.stringify(record, undefined, 2)}\n`
