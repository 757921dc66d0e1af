/** Every state that can be reached, nearest first, so that the first fault that is found has the shortest way to it. */
import { type Move, moves, type Protocol, type State } from "./Protocol.ts"

export interface Explored {
  readonly states: number
  readonly fault: { readonly what: string; readonly trace: ReadonlyArray<string> } | undefined
}

/** Two states that differ in nothing that anybody could act on are the same. */
const keyOf = ({ contents, crashes, processes, runs }: State): string => {
  let key = `${crashes}${processes.length}`
  for (const { archive, draft, lease, lockedBy, pinned, place, removed, staged, status } of runs) {
    key += `|${place}${lease}${status}${pinned}${lockedBy}${archive},${draft}${removed}`
    if (staged !== undefined) key += `${staged.lease}${staged.status}`
  }
  for (const process of processes) {
    const { at, file, fileLocked, leftover, leftoverLocked, lock, open, saw, state, written } = process
    key += `|${state === "alive" ? `${at}${lock}${open}${saw}${written},${file}${fileLocked}` : state}`
    if (leftover !== 0) key += `${leftover}${leftoverLocked}`
  }
  for (const file in contents) key += `|${file}${contents[file]!.whole}${contents[file]!.status}`
  return key
}

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
