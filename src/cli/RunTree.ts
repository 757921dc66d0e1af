/** Runs under the runs that started them: who stands below whom, and the branches that show it. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { RunId } from "../RunId.ts"
import { RunStore } from "../RunStore.ts"
import { look, type RunView } from "./RunView.ts"

/** A run at its place in the tree. `branch` goes before its id. */
interface Placed {
  readonly view: RunView
  readonly depth: number
  readonly branch: string
}

const parentOf = ({ entry }: RunView): RunId | undefined => Result.getOrUndefined(entry.record)?.parent

/** The runs with all their ancestors that are still there, whether or not those were asked for. */
export const withAncestors = Effect.fnUntraced(function*(views: ReadonlyArray<RunView>) {
  const store = yield* RunStore
  const known = new Map(views.map((view) => [view.entry.id, view]))
  const gone = new Set<RunId>()
  for (const view of views) {
    // What is known by now, a damaged record's loop too, has been followed or will be.
    for (let id = parentOf(view); id !== undefined && !known.has(id) && !gone.has(id);) {
      const entry = yield* Effect.option(store.get(id))
      if (Option.isNone(entry)) {
        gone.add(id)
        break
      }
      const ancestor = yield* look(entry.value)
      known.set(id, ancestor)
      id = parentOf(ancestor)
    }
  }
  return [...known.values()]
})

const newestFirst = (left: RunView, right: RunView) => left.entry.id < right.entry.id ? 1 : -1

/** Those without a parent among the others, and of each loop that a damaged record makes the oldest. */
const topsOf = (sorted: ReadonlyArray<RunView>, parents: ReadonlyMap<RunId, RunId | undefined>) => {
  const settled = new Set<RunId>()
  const loose = new Set<RunId>()
  for (const { entry } of sorted.toReversed()) {
    const way = new Set<RunId>()
    let id: RunId | undefined = entry.id
    while (id !== undefined && !settled.has(id) && !way.has(id)) {
      way.add(id)
      id = parents.get(id)
    }
    if (id !== undefined && way.has(id)) {
      const loop = [...way].slice([...way].indexOf(id))
      loose.add(loop.reduce((oldest, each) => each < oldest ? each : oldest))
    }
    for (const each of way) settled.add(each)
  }
  return sorted.filter(({ entry: { id } }) => parents.get(id) === undefined || loose.has(id))
}

/** Each run below its parent, the newest first among brothers and among trees. */
export const plant = (views: ReadonlyArray<RunView>): ReadonlyArray<Placed> => {
  const sorted = views.toSorted(newestFirst)
  const known = new Set(sorted.map(({ entry }) => entry.id))
  const parents = new Map(sorted.map((view) => {
    const parent = parentOf(view)
    return [view.entry.id, parent !== undefined && known.has(parent) ? parent : undefined] as const
  }))
  const tops = topsOf(sorted, parents)
  const isTop = new Set(tops.map(({ entry }) => entry.id))
  const children = Map.groupBy(sorted.filter(({ entry }) => !isTop.has(entry.id)), ({ entry }) => parents.get(entry.id))
  const placed: Array<Placed> = []
  // No recursion: runs may be nested as deep as somebody likes.
  const waiting = tops.toReversed().map((view) => ({ view, depth: 0, branch: "", below: "" }))
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { below, depth, view } = next
    placed.push({ view, depth, branch: next.branch })
    const under = (children.get(view.entry.id) ?? []).toReversed()
    for (const [index, child] of under.entries()) {
      const [branch, rest] = index === 0 ? ["└─ ", "   "] : ["├─ ", "│  "]
      waiting.push({ view: child, depth: depth + 1, branch: below + branch, below: below + rest })
    }
  }
  return placed
}
