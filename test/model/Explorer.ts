/** Every state that can be reached, nearest first, so that the first fault that is found has the shortest way to it. */
import { faultOf, type Move, moves, type Protocol, type State } from "./Protocol.ts"

export interface Explored {
  readonly states: number
  readonly fault: { readonly what: string; readonly trace: ReadonlyArray<string> } | undefined
}

const numbered = <A extends string>(...words: ReadonlyArray<A>) =>
  Object.fromEntries(words.map((word, nth) => [word, nth])) as Readonly<Record<A, number>>

const places = numbered("nowhere", "runs", "trash")
const statuses = numbered("none", "running", "ended", "released", "crashed", "pinned")
const states = numbered("alive", "over", "dead")
const modes = numbered("", "shared", "exclusive")

/**
 * Two states that differ in nothing that anybody could act on are the same. Numbers are small here, so that several of
 * them are one letter of the key.
 */
const keyOf = ({ contents, crashes, processes, runs }: State): string => {
  const key = [crashes * 16 + processes.length]
  for (const { archive, draft, lease, lockedBy, pinned, place, removed, staged, status } of runs) {
    key.push(
      ((places[place] * 8 + statuses[status]) * 8 + lockedBy + 1) * 4 + Number(pinned) * 2 + Number(removed),
      lease * 8 + draft,
      staged === undefined ? archive : 32_768 + archive
    )
    if (staged !== undefined) key.push(staged.lease * 8 + statuses[staged.status])
  }
  for (const process of processes) {
    const { at, file, fileLocked, leftover, leftoverLocked, lock, open, saw, state, written } = process
    if (state !== "alive") {
      key.push(states[state])
      continue
    }
    key.push(
      16_384 + ((at * 4 + modes[lock]) * 8 + statuses[saw]) * 4 + written,
      open * 256 + file * 2 + Number(fileLocked),
      leftover * 2 + Number(leftoverLocked)
    )
  }
  for (const file in contents) {
    const { status, whole } = contents[file]!
    key.push(Number(file) * 16 + statuses[status] * 2 + Number(whole))
  }
  return String.fromCharCode(...key)
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
        const key = keyOf(move.next)
        const isKnown = known.has(key)
        const what = move.violation ?? (isKnown ? undefined : faultOf(protocol, move.next))
        if (what !== undefined) return { states: known.size, fault: { what, trace: traceOf(seen, move) } }
        if (isKnown) continue
        known.add(key)
        next.push({ state: move.next, from: seen, by: move.name })
      }
    }
    layer = next
  }
  return { states: known.size, fault: undefined }
}
