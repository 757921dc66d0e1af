/** Every state that can be reached, nearest first, so that the first fault that is found has the shortest way to it. */
import { type Move, moves, type Protocol, type State } from "./Protocol.ts"

export interface Explored {
  readonly states: number
  readonly fault: { readonly what: string; readonly trace: ReadonlyArray<string> } | undefined
}

/** Two states that differ in nothing that anybody could act on are the same. */
const keyOf = ({ bundles, crashes, processes }: State): string =>
  bundles.map(({ lease, lockedBy, pinned, place, status }) => `${place}${lease}${status}${pinned}${lockedBy}`).join() +
  processes.map(({ at, lock, open, saw, state, written }) =>
    state === "alive" ? `${at}${lock}${open}${saw}${written}` : state
  ).join() + processes.length + crashes

interface Seen {
  readonly state: State
  readonly from: Seen | undefined
  readonly by: string
}

const traceOf = (seen: Seen, last: Move): ReadonlyArray<string> => {
  const trace = [last.name]
  for (let at: Seen | undefined = seen; at?.from !== undefined; at = at.from) trace.push(at.by)
  return trace.toReversed()
}

export const explore = (protocol: Protocol, beginning: State, maxCrashes: number): Explored => {
  const known = new Set([keyOf(beginning)])
  let layer: Array<Seen> = [{ state: beginning, from: undefined, by: "" }]
  while (layer.length > 0) {
    const next: Array<Seen> = []
    for (const seen of layer) {
      for (const move of moves(protocol, seen.state, maxCrashes)) {
        if (move.violation !== undefined) {
          return { states: known.size, fault: { what: move.violation, trace: traceOf(seen, move) } }
        }
        const key = keyOf(move.next)
        if (known.has(key)) continue
        known.add(key)
        next.push({ state: move.next, from: seen, by: move.name })
      }
    }
    layer = next
  }
  return { states: known.size, fault: undefined }
}
