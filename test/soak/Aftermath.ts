/** What has to be true of the store when everybody has gone, by the files and by what each of them has said. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Recovery from "../../src/Recovery.ts"
import * as Retention from "../../src/Retention.ts"
import { untilPaid } from "../../src/RetentionRounds.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import { isRunId, type RunId } from "../../src/RunId.ts"
import { isTerminal } from "../../src/RunRecord.ts"
import * as RunStore from "../../src/RunStore.ts"
import { toRebuild } from "../../src/TrimHistory.ts"
import * as Verification from "../../src/Verification.ts"
import { describe, isOpenProblem } from "../../src/VerificationFinding.ts"
import { names, recordAt } from "../support/CommandLine.ts"
import { damage } from "../support/Contents.ts"
import { perhapsRemoved, removals, wrongs } from "../support/History.ts"
import type { Line } from "../support/Journal.ts"
import { filed, present, world } from "../support/Stores.ts"

/** Answers that one gets only where others are killed and stopped. */
const also: Readonly<Record<string, ReadonlyArray<RegExp>>> = {
  // Beside its bundle lies what is left of an archive, which somebody who was stopped has locked.
  rm: [/^RemovalError\.System .*\.tar\.zst: in use \(EBUSY on lock\)$/],
  archive: [/^ArchiveError\.Busy$/]
}

const policy = { maxBundles: 1_000_000 }

const problems = Effect.map(
  Stream.runCollect(Stream.filter(Verification.check(), isOpenProblem)),
  (all) => all.map(({ fault, where }) => `${where}: ${describe(fault)}`)
)

/** What is wrong with a run that all has been written into. */
const faultsOf = (dir: string, id: string): ReadonlyArray<string> => {
  const record = recordAt(dir)
  return [
    ...record.id === id ? [] : [`the record is that of ${record.id}`],
    ...isTerminal(record) ? [] : [`its status is ${record.status}`],
    ...damage(dir, id, toRebuild(record).length > 0)
  ].map((fault) => `${id}: ${fault}`)
}

const inspect = Effect.fnUntraced(function*(root: string, lines: ReadonlyArray<Line>) {
  const found: Array<string> = []
  const store = yield* RunStore.RunStore
  yield* Stream.runDrain(Recovery.recoverAll)
  for (const id of present(root).filter(isRunId)) yield* store.unpin(id)
  const paid = yield* untilPaid({ policy })
  found.push(...paid.failed.map(({ id, reason }) => `a pass failed at ${id}: ${reason}`))
  found.push(...yield* problems)
  const again = yield* Retention.run({ policy, budget: { maxTime: "1 minute" } })
  const done = [again.removed, again.recovered, again.trimmed, again.archived, again.expired].map(({ length }) =>
    length
  )
  if (done.some((count) => count > 0)) found.push(`a second pass still found something to do: ${done}`)
  for (const place of ["staging", "trash"]) {
    if (names(`${root}/${place}`).length > 0) found.push(`${place} has ${names(`${root}/${place}`)}`)
  }

  // Whoever is killed between the coming of a bundle or an archive and the going of the other leaves both, of which the
  // bundle counts: told of as a note, and mended where that is asked for.
  yield* Stream.runDrain(Verification.check({ repair: true }))
  const listed = present(root).filter(isRunId)
  const archived = filed(root, ".tar.zst").filter(isRunId)
  const removed = new Set(removals(lines).map(({ id }) => id))
  const perhaps = new Set(perhapsRemoved(lines).map(({ id }) => id))
  const made = new Set<string>(lines.flatMap(({ event, id }) => event === "made" ? [id] : []))
  const there = new Set<RunId>([...listed, ...archived])
  for (const id of listed.filter((each) => archived.includes(each))) found.push(`${id} is in two places`)
  found.push(...[...there].filter((id) => removed.has(id)).map((id) => `${id} was removed, and is there`))
  for (const id of made) {
    if (!there.has(id as RunId) && !removed.has(id) && !perhaps.has(id)) {
      found.push(`${id} has gone, and nobody has removed it`)
    }
  }
  for (const { id } of yield* Stream.runCollect(RunArchive.list)) yield* RunArchive.restore(id)
  for (const id of there) if (made.has(id)) found.push(...faultsOf(store.dir(id), id))
  return [...found, ...yield* problems]
})

/** Everything there is to say against what has happened, and against the store as it was left. */
export const faults = (root: string, lines: ReadonlyArray<Line>): Promise<ReadonlyArray<string>> => {
  const inOrder = [...lines].sort((left, right) => left.at < right.at ? -1 : 1)
  return Effect.runPromise(
    inspect(root, inOrder).pipe(
      Effect.provide(world(root)),
      Effect.catchCause((cause) => Effect.succeed([`nobody can work there: ${String(cause)}`])),
      Effect.map((found) => [...wrongs(inOrder, also), ...found])
    )
  )
}
