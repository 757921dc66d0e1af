/** What a journal of verbs must not say, whatever the verbs themselves answered. */
import type { Line } from "./Journal.ts"

interface Span {
  readonly process: number
  readonly verb: string
  readonly id: string
  readonly from: bigint
  readonly to: bigint
  readonly outcome: string
}

const keyOf = ({ id, nth, process, verb }: Line) => `${process} ${nth} ${verb} ${id}`

/** What nobody has lived to tell the end of. */
const killed = "killed"

const spanOf = (from: Line, to: Line, outcome: string): Span => ({
  process: from.process,
  verb: from.verb,
  id: from.id,
  from: from.at,
  to: to.at,
  outcome
})

/** Beginnings with their ends. What was going on in a process that was killed lasted until then, if not longer. */
const spans = (lines: ReadonlyArray<Line>, begin: Line["event"], end: Line["event"]): ReadonlyArray<Span> => {
  const open = new Map<number, Map<string, Line>>()
  return lines.flatMap((line): ReadonlyArray<Span> => {
    const its = open.get(line.process) ?? new Map<string, Line>()
    open.set(line.process, its)
    if (line.event === begin) its.set(keyOf(line), line)
    if (line.event === killed) {
      open.delete(line.process)
      return [...its.values()].map((from) => spanOf(from, line, killed))
    }
    const from = line.event === end ? its.get(keyOf(line)) : undefined
    if (from === undefined) return []
    its.delete(keyOf(line))
    return [spanOf(from, line, line.detail)]
  })
}

const byId = <A extends { readonly id: string }>(all: ReadonlyArray<A>) => Map.groupBy(all, ({ id }) => id)

const isWithin = (inner: Span, outer: Span) => inner.from >= outer.from && inner.to <= outer.to

const show = ({ from, id, process, to, verb }: Span) => `${verb} of ${id} by ${process} (${from} to ${to})`

const lease = "LeaseError"
const gone: ReadonlyArray<string> = [`${lease}.RunGone`, "StoreError.NoSuchRun"]
const held = `${lease}.Held`
const archived = "StoreError.Archived"
const away: ReadonlyArray<string> = [archived, ...gone]

/** The answers that somebody who meets others may have. */
const answers: Readonly<Record<string, ReadonlyArray<string>>> = {
  resume: ["ok", held, "StoreError.Trimmed", "ArchiveError.Busy", ...gone],
  attach: ["ok", `${lease}.Claimed`, ...away],
  trim: ["ok", held, "TrimError.Pinned", ...away],
  archive: ["ok", held, "ArchiveError.Pinned", "ArchiveError.Changed", ...away],
  restore: ["ok", "ArchiveError.Busy", "ArchiveError.Present", ...gone],
  rm: ["ok", held, "RemovalError.Pinned", "ArchiveError.Busy", ...gone],
  prune: ["ok", "other pass"],
  pin: ["ok", ...away],
  unpin: ["ok", ...away],
  recover: ["ok", ...away],
  run: ["ok"],
  list: ["ok"],
  verify: ["ok"]
}

/** Those that may take a run out of the store for good. */
const removing: ReadonlySet<string> = new Set(["rm", "prune"])

export interface Removal {
  readonly id: string
  readonly from: bigint
}

/** Every removal that somebody has said to have made, by when it was begun. */
export const removals = (lines: ReadonlyArray<Line>): ReadonlyArray<Removal> => {
  const begun = new Map(
    lines.filter(({ event }) => event === "begin").map((line) => [`${line.process} ${line.nth}`, line.at])
  )
  return lines.flatMap(({ detail, event, id, nth, process, verb }) =>
    event === "end" && detail === "ok" && (verb === "rm" || verb === "expire")
      ? [{ id, from: begun.get(`${process} ${nth}`)! }]
      : []
  )
}

/** The runs that somebody was about to remove, and perhaps has, who was killed before he could say so. */
export const perhapsRemoved = (lines: ReadonlyArray<Line>): ReadonlyArray<Removal> => {
  const deaths = new Set(lines.flatMap(({ event, process }) => event === killed ? [process] : []))
  const ended = new Set(
    lines.flatMap(({ event, nth, process, verb }) => event === "end" && verb !== "expire" ? [`${process} ${nth}`] : [])
  )
  return lines.flatMap(({ at, event, id, nth, process, verb }) =>
    event === "acts" && removing.has(verb) && deaths.has(process) && !ended.has(`${process} ${nth}`)
      ? [{ id, from: at }]
      : []
  )
}

/** How many verbs were begun, but for those between the word that a process is killed and its end. */
const begunAlive = (lines: ReadonlyArray<Line>) => {
  const dead = new Set<number>()
  let count = 0
  for (const { event, process } of lines) {
    if (event === killed) dead.add(process)
    if (event === "begin" && !dead.has(process)) count++
  }
  return count
}

/** What was not to be. `also` are answers that some verbs may have beside the usual ones. */
export const wrongs = (
  lines: ReadonlyArray<Line>,
  also: Readonly<Record<string, ReadonlyArray<RegExp>>> = {}
): ReadonlyArray<string> => {
  const isAnswer = (verb: string, outcome: string) =>
    outcome === killed || answers[verb]?.includes(outcome) === true ||
    also[verb]?.some((pattern) => pattern.test(outcome)) === true
  const verbs = spans(lines, "begin", "end")
  const holds = byId(spans(lines, "in", "out"))
  const holdsOf = (id: string) => holds.get(id) ?? []
  const removed = byId(removals(lines))
  const perhaps = byId(perhapsRemoved(lines))
  const begun = begunAlive(lines)
  const found: Array<string> = begun === verbs.length ? [] : [`${begun} verbs were begun, and ${verbs.length} ended`]
  for (const { detail, event, id, process, verb } of lines) {
    if (event === "wrong") found.push(`${verb} of ${id} by ${process}: ${detail}`)
  }
  for (const [id, all] of holds) {
    const owners = all.filter(({ verb }) => verb === "owner")
    owners.forEach((owner, nth) => {
      const other = owners.slice(nth + 1).find(({ from, to }) => from < owner.to && to > owner.from)
      if (other !== undefined) found.push(`${id} had two owners: ${show(owner)}, ${show(other)}`)
    })
  }
  for (const act of spans(lines, "acts", "acted")) {
    const holder = holdsOf(act.id).find((hold) => isWithin(act, hold))
    if (holder !== undefined) found.push(`${show(act)} while it was held: ${show(holder)}`)
  }
  for (const verb of verbs) {
    const { id, outcome } = verb
    if (!isAnswer(verb.verb, outcome)) found.push(`${show(verb)}: ${outcome}`)
    const isExclusive = outcome === "ok" && ["trim", "archive", "restore", "rm"].includes(verb.verb)
    const holder = isExclusive ? holdsOf(id).find((hold) => isWithin(verb, hold)) : undefined
    if (holder !== undefined) found.push(`${show(verb)} went well while it was held: ${show(holder)}`)
    const isExplained = [removed, perhaps].some((all) => all.get(id)?.some(({ from }) => from < verb.to))
    if (gone.includes(outcome) && !isExplained) found.push(`${show(verb)}: ${outcome}, and nobody has removed it`)
  }
  for (const [id, all] of removed) if (all.length > 1) found.push(`${id} was removed ${all.length} times`)
  return found
}

/** How often each verb had which answer. */
export const counts = (lines: ReadonlyArray<Line>): string =>
  [...Map.groupBy(spans(lines, "begin", "end"), ({ verb }) => verb)].sort().map(([verb, all]) => {
    const byOutcome = [...Map.groupBy(all, ({ outcome }) => outcome)].sort(([, left], [, right]) =>
      right.length - left.length
    )
    return `${verb} ${all.length}: ${byOutcome.map(([outcome, of]) => `${outcome} ${of.length}`).join(", ")}`
  }).join("\n")
