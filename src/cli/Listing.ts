/** What `ls` does. */
import * as Console from "effect/Console"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { startedAt } from "../RunId.ts"
import { type RunRecord, toMillis } from "../RunRecord.ts"
import { mayBe as mayBeOf, type ShownStatus, statuses } from "../RunStatus.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import { formatAgo, formatDuration } from "../Units.ts"
import { UsageError } from "./ExitCode.ts"
import type { Given, Options } from "./Options.ts"
import { harmless, paint, printJson } from "./Output.ts"
import { plant, withAncestors } from "./RunTree.ts"
import { listed, look, problemOf, type RunView, statusOf } from "./RunView.ts"
import { type Cell, table } from "./Table.ts"
import { parseTag, tagOption } from "./Tags.ts"

export const options = {
  limit: { kind: "count", alias: "n", fallback: 20, description: "How many runs at the most, 0 for all (default 20)" },
  name: { kind: "text", description: "Only runs of this name" },
  status: {
    kind: "choices",
    choices: statuses,
    description: "Only runs of this status; may be given more than once"
  },
  tag: tagOption,
  tree: {
    kind: "switch",
    description: "Show runs below the runs that started them, which are then listed in any case"
  },
  archived: { kind: "switch", description: "List runs that have been archived instead" }
} as const satisfies Options

/** How long ago runs have started. */
interface Ages {
  readonly since?: Option.Option<Duration.Duration>
  readonly until?: Option.Option<Duration.Duration>
}

interface Wanted {
  readonly name: Option.Option<string>
  readonly statuses: ReadonlyArray<ShownStatus>
  readonly tags: ReadonlyArray<readonly [string, string | undefined]>
}

/** What the record alone can answer, before anything is asked of the kernel. */
const mayBe = (wanted: Wanted) => ({ record }: Entry): boolean =>
  (wanted.statuses.length === 0 || wanted.statuses.some((status) => mayBeOf(record, status))) &&
  isCalled(wanted, record)

const isCalled = (wanted: Wanted, record: Result.Result<RunRecord, unknown>): boolean => {
  const isPlain = Option.isNone(wanted.name) && wanted.tags.length === 0
  if (Result.isFailure(record)) return isPlain
  const { name, tags } = record.success
  return (Option.isNone(wanted.name) || wanted.name.value === name) &&
    wanted.tags.every(([key, value]) => Object.hasOwn(tags, key) && (value === undefined || tags[key] === value))
}

const archivedStatus = (record: Result.Result<RunRecord, unknown>) =>
  Result.isSuccess(record) ? record.success.status : "damaged"

const colours: Record<ShownStatus, NonNullable<Cell["format"]>> = {
  running: "cyan",
  closing: "cyan",
  ok: "green",
  error: "red",
  interrupted: "yellow",
  crashed: "red",
  damaged: "magenta"
}

const durationOf = (record: RunRecord, status: ShownStatus, now: number): string => {
  const end = record.endedAt === undefined ? status === "running" ? now : undefined : toMillis(record.endedAt)
  return end === undefined ? "" : formatDuration(Math.max(0, end - toMillis(record.startedAt)))
}

const row = (view: RunView, now: number, branch = ""): ReadonlyArray<Cell> => {
  const status = statusOf(view)
  const record = Result.getOrUndefined(view.entry.record)
  const note = problemOf(view) ?? (record?.pin === undefined ? "" : `pinned: ${record.pin.reason}`)
  return [
    { text: `${branch}${view.entry.id}` },
    { text: harmless(record?.name ?? "?"), most: 30 },
    { text: status, format: colours[status] },
    { text: formatAgo(now - DateTime.toEpochMillis(startedAt(view.entry.id))) },
    { text: record === undefined ? "" : durationOf(record, status, now) },
    { text: harmless(note), format: "dim", most: 80 }
  ]
}

const header: ReadonlyArray<Cell> = ["ID", "NAME", "STATUS", "STARTED", "TOOK", ""].map((text) => ({
  text,
  format: "dim"
}))

export const list = Effect.fn(function*(flags: Given<typeof options> & Ages, json: boolean) {
  const store = yield* RunStore
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const wanted: Wanted = {
    name: flags.name,
    statuses: flags.status,
    tags: yield* Effect.forEach(flags.tag, (text) => Effect.fromResult(parseTag(text, { valueOptional: true })))
  }
  const started = (entry: Pick<Entry, "id">) => DateTime.toEpochMillis(startedAt(entry.id))
  const oldest = Option.map(flags.since ?? Option.none(), (since) => now - Duration.toMillis(since))
  const newest = Option.map(flags.until ?? Option.none(), (until) => now - Duration.toMillis(until))
  const isYoung = (entry: Pick<Entry, "id">) => Option.isNone(oldest) || started(entry) >= oldest.value
  const isOld = (entry: Pick<Entry, "id">) => Option.isNone(newest) || started(entry) <= newest.value
  const most = flags.limit === 0 ? Number.MAX_SAFE_INTEGER : flags.limit
  if (flags.archived) {
    if (flags.tree) return yield* Effect.fail(new UsageError("--tree and --archived do not go together"))
    const { listArchived } = yield* Effect.promise(() => import("./ArchiveList.ts"))
    const isWanted = (record: Result.Result<RunRecord, unknown>) =>
      isCalled(wanted, record) &&
      (wanted.statuses.length === 0 || wanted.statuses.some((status) => status === archivedStatus(record)))
    return yield* listArchived({ begins: (entry) => isYoung(entry) && isOld(entry), isWanted, limit: most }, now, json)
  }
  const views = yield* store.list.pipe(
    Stream.takeWhile(isYoung),
    Stream.filter((entry) => isOld(entry) && mayBe(wanted)(entry)),
    Stream.mapEffect(look, { concurrency: 16 }),
    Stream.filter((view) => wanted.statuses.length === 0 || wanted.statuses.includes(statusOf(view))),
    Stream.take(most),
    Stream.runCollect
  )
  const placed = flags.tree ? plant(yield* withAncestors(views)) : undefined
  if (json) {
    const runs = placed?.map(({ depth, view }) => ({ ...listed(view), depth })) ?? views.map(listed)
    return yield* printJson({ version: 1, root: store.root, runs })
  }
  if (views.length === 0) return yield* Console.error(paint("dim", `no runs to list in ${store.root}`))
  const rows = placed?.map(({ branch, view }) => row(view, now, branch)) ?? views.map((view) => row(view, now))
  yield* Console.log(yield* table([header, ...rows]))
})
