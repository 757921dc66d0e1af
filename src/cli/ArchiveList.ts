/** What `ls --archived` shows: runs that have been archived, by the records in their archives. */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type * as Documents from "../Documents.ts"
import * as RunArchive from "../RunArchive.ts"
import type { RunRecord } from "../RunRecord.ts"
import { RunStore } from "../RunStore.ts"
import { formatAgo, formatBytes } from "../Units.ts"
import { harmless, paint, printJson } from "./Output.ts"
import { type Cell, table } from "./Table.ts"

interface View {
  readonly entry: RunArchive.Entry
  readonly record: Result.Result<RunRecord, RunArchive.ArchiveError>
}

/** Which archives are to be shown: by themselves, and by their records. */
export interface Wanted {
  readonly begins: (entry: RunArchive.Entry) => boolean
  readonly isWanted: (record: View["record"]) => boolean
  readonly limit: number
}

/** Without the id and the path, which would leave no room for what is wrong. */
const problemOf = ({ message, reason }: RunArchive.ArchiveError) => reason._tag === "Corrupt" ? reason.detail : message

const row = ({ entry, record }: View, now: number): ReadonlyArray<Cell> => {
  const known = Result.getOrUndefined(record)
  return [
    { text: entry.id },
    { text: harmless(known?.name ?? "?"), most: 30 },
    { text: known?.status ?? "damaged" },
    { text: formatAgo(now - entry.endedAt) },
    { text: formatBytes(entry.bytes) },
    { text: Result.isFailure(record) ? harmless(problemOf(record.failure)) : "", format: "dim", most: 80 }
  ]
}

const header: ReadonlyArray<Cell> = ["ID", "NAME", "STATUS", "ENDED", "SIZE", ""].map((text) => ({
  text,
  format: "dim"
}))

const documentOf = ({ entry, record }: View): typeof Documents.ArchivedRun.Type => {
  const known = Result.getOrUndefined(record)
  return {
    id: entry.id,
    name: known?.name ?? null,
    status: known?.status ?? null,
    startedAt: known?.startedAt ?? null,
    endedAt: known?.endedAt ?? null,
    bytes: entry.bytes,
    path: entry.path,
    ...(Result.isFailure(record) ? { problem: record.failure.message } : {})
  }
}

/** Lists archives, newest first. Only the beginning of each is read, and only of as many as are shown. */
export const listArchived = Effect.fnUntraced(function*(
  { begins, isWanted, limit }: Wanted,
  now: number,
  json: boolean
) {
  const { root } = yield* RunStore
  const views = yield* RunArchive.list.pipe(
    Stream.filter(begins),
    Stream.mapEffect(
      (entry) => Effect.map(Effect.result(RunArchive.readRecord(entry)), (record) => ({ entry, record })),
      {
        concurrency: 4
      }
    ),
    Stream.filter(({ record }) => isWanted(record)),
    Stream.take(limit),
    Stream.runCollect
  )
  if (json) {
    return yield* printJson(
      { version: 1, root, archives: views.map(documentOf) } satisfies typeof Documents.LsArchived.Type
    )
  }
  if (views.length === 0) return yield* Console.error(paint("dim", `no archived runs to list in ${root}`))
  yield* Console.log(yield* table([header, ...views.map((view) => row(view, now))]))
})
