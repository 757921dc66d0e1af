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

/** Beginnings with their ends. */
const spans = (lines: ReadonlyArray<Line>, begin: Line["event"], end: Line["event"]): ReadonlyArray<Span> => {
  const open = new Map<string, Line>()
  return lines.flatMap((line) => {
    if (line.event === begin) open.set(keyOf(line), line)
    const from = line.event === end ? open.get(keyOf(line)) : undefined
    return from === undefined
      ? []
      : [{ process: line.process, verb: line.verb, id: line.id, from: from.at, to: line.at, outcome: line.detail }]
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
  pin: ["ok", ...away]
}

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

/** What was not to be. */
export const wrongs = (lines: ReadonlyArray<Line>): ReadonlyArray<string> => {
  const verbs = spans(lines, "begin", "end")
  const holds = byId(spans(lines, "in", "out"))
  const holdsOf = (id: string) => holds.get(id) ?? []
  const removed = byId(removals(lines))
  const begun = lines.filter(({ event }) => event === "begin").length
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
    if (answers[verb.verb]?.includes(outcome) !== true) found.push(`${show(verb)}: ${outcome}`)
    const isExclusive = outcome === "ok" && ["trim", "archive", "restore", "rm"].includes(verb.verb)
    const holder = isExclusive ? holdsOf(id).find((hold) => isWithin(verb, hold)) : undefined
    if (holder !== undefined) found.push(`${show(verb)} went well while it was held: ${show(holder)}`)
    const isExplained = (removed.get(id) ?? []).some(({ from }) => from < verb.to)
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
