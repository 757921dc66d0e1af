import * as Command from "effect/cli/Command"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NodePath from "node:path"
import * as DiskUsage from "../DiskUsage.ts"
import type * as Documents from "../Documents.ts"
import * as ArchivePlace from "../internal/ArchivePlace.ts"
import type { RunId } from "../RunId.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import { formatBytes } from "../Units.ts"
import { findRun, Json, Store } from "./Context.ts"
import { printJson } from "./Output.ts"
import { runNames } from "./Several.ts"
import { type Cell, table } from "./Table.ts"

interface Measured {
  readonly id: RunId
  readonly usage: DiskUsage.Usage
}

const concurrency = 4

const measure = ({ dir, id }: Entry): Effect.Effect<Measured> =>
  Effect.map(DiskUsage.measure(dir), (usage) => ({ id, usage }))

const isComplete = ({ complete, unreadable }: DiskUsage.Usage) => complete && unreadable === 0

const counted = (number: number, one: string, many: string) =>
  number === 0 ? [] : [`${number} ${number === 1 ? one : many}`]

const noteOf = ({ complete, mounts, unreadable }: DiskUsage.Usage): string =>
  [
    ...counted(unreadable, "part could not be read", "parts could not be read"),
    ...counted(mounts, "mount not counted", "mounts not counted"),
    ...(complete || unreadable > 0 ? [] : ["measured in part"])
  ].join(", ")

const row = (usage: DiskUsage.Usage, name: string): ReadonlyArray<Cell> => [
  { text: formatBytes(usage.bytes).padStart(10) },
  { text: name },
  { text: noteOf(usage), format: "yellow" }
]

/** Measured as they are listed, and nothing is kept of a run but its sums. */
const measureAll = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
  const store = yield* RunStore
  const named = new Map((yield* Effect.forEach(names, findRun)).map((entry) => [entry.id, entry]))
  const entries = names.length === 0 ? store.list : Stream.fromIterable(named.values())
  return yield* Stream.runCollect(Stream.mapEffect(entries, measure, { concurrency }))
})

/** Without what the directory itself takes up. */
const measureIn = Effect.fnUntraced(function*(path: string) {
  const whole = yield* DiskUsage.measure(path)
  const itself = yield* DiskUsage.measure(path, { maxEntries: 1 })
  return { ...whole, bytes: Math.max(0, whole.bytes - itself.bytes) }
})

/** Archives alone: beside them lies what is known of runs that were restored. */
const measureArchives = (path: string) =>
  DiskUsage.measureChosen(path, {
    isChosen: (way) => ArchivePlace.idOf(NodePath.posix.basename(way)) !== undefined,
    mayHold: (way) => !way.includes("/"),
    chosen: () => {},
    missed: () => {}
  }).pipe(Effect.catch(() => measureIn(path)))

const sum = (all: ReadonlyArray<Measured>) => all.reduce((bytes, { usage }) => bytes + usage.bytes, 0)

export const du = Command.make("du", { runs: runNames({ min: 0 }) }).pipe(
  Command.withDescription("Show how much of the disk runs take up; all of them, or those named"),
  Command.withHandler(Effect.fn(function*({ runs }) {
    const { root } = yield* RunStore
    const measured = yield* measureAll(runs)
    const trash = yield* measureIn(`${root}/trash`)
    const staging = yield* measureIn(`${root}/staging`)
    const archive = yield* measureArchives(`${root}/archive`)
    const bytes = sum(measured)
    if (yield* Json) {
      const document: typeof Documents.Du.Type = {
        version: 1,
        runs: measured.map(({ id, usage }) => ({ id, bytes: usage.bytes, complete: isComplete(usage) })),
        bytes,
        archiveBytes: archive.bytes,
        trashBytes: trash.bytes,
        stagingBytes: staging.bytes
      }
      return yield* printJson(document)
    }
    const largestFirst = measured.toSorted((left, right) => right.usage.bytes - left.usage.bytes)
    const total = { bytes, entries: 0, unreadable: 0, mounts: 0, complete: true }
    const rows = [
      ...largestFirst.map(({ id, usage }) => row(usage, id)),
      ...(runs.length === 1 ? [] : [row(total, "total")]),
      ...(runs.length > 0 ? [] : [row(archive, "archived"), row(trash, "in the trash"), row(staging, "being built")])
    ]
    yield* Console.log(yield* table(rows))
  })),
  Command.provide(Store)
)
