import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type * as Documents from "../Documents.ts"
import { countOf } from "../RetentionReason.ts"
import { RunStore } from "../RunStore.ts"
import * as SqliteIndex from "../SqliteIndex.ts"
import * as Verification from "../Verification.ts"
import { describe, type Finding, mendOf, severityOf } from "../VerificationFinding.ts"
import { Json, Store } from "./Context.ts"
import { ExitWith } from "./ExitCode.ts"
import { harmless, paint, printJson } from "./Output.ts"

const camelCase = (tag: string) => `${tag.slice(0, 1).toLowerCase()}${tag.slice(1)}`

const documentOf = (finding: Finding): typeof Documents.FoundFault.Type => {
  const { fault, id, outcome, where } = finding
  return {
    kind: camelCase(fault._tag),
    severity: severityOf(fault),
    path: where,
    id: id ?? null,
    message: describe(fault),
    mend: mendOf(finding) ?? null,
    outcome: outcome._tag === "Left" ? "left" : outcome._tag === "Mended" ? "mended" : "failed",
    reason: outcome._tag === "Failed" ? outcome.reason : null
  }
}

const flags = {
  archives: Flag.Boolean("archives").pipe(
    Flag.withDescription("Read every archive whole, and hold what is in it against its manifest"),
    Flag.withDefault(false)
  ),
  repair: Flag.Boolean("repair").pipe(
    Flag.withDescription("Mend what is safe to mend"),
    Flag.withDefault(false)
  ),
  removeUnreadable: Flag.Boolean("remove-unreadable").pipe(
    Flag.withDescription(
      "Remove runs whose record nobody can read, if nobody works in them; what they made outside is not undone"
    ),
    Flag.withDefault(false)
  )
}

const colours = { problem: "red", note: "yellow" } as const

/** In a line what is wrong, and in the next what becomes of it. */
const lines = (root: string, finding: Finding): string => {
  const { fault, outcome, where } = finding
  const severity = severityOf(fault)
  const place = where.startsWith(`${root}/`) ? where.slice(root.length + 1) : where
  const mend = mendOf(finding)
  const text = `${paint(colours[severity], severity.padEnd(7))}  ${harmless(`${place}: ${describe(fault)}`)}`
  const below = outcome._tag === "Mended"
    ? paint("green", "mended")
    : outcome._tag === "Failed"
    ? harmless(`not mended: ${outcome.reason}`)
    : mend === undefined
    ? undefined
    : paint("dim", harmless(`to mend it: ${mend}`))
  return below === undefined ? text : `${text}\n         ${below}`
}

const makeTally = () => {
  const tally = { problems: 0, notes: 0, mended: 0 }
  const add = ({ fault, outcome }: Finding) => {
    if (outcome._tag === "Mended") tally.mended++
    else if (severityOf(fault) === "note") tally.notes++
    else tally.problems++
  }
  return { tally, add }
}

export const verify = Command.make("verify", flags).pipe(
  Command.withDescription("Check every run, every archive and the index, and say what is wrong and what would mend it"),
  Command.withHandler(Effect.fn(function*({ archives, removeUnreadable, repair }) {
    const { root } = yield* RunStore
    const isJson = yield* Json
    let checked = 0
    const onBundle = () => Effect.sync(() => void checked++)
    let archived = 0
    const onArchive = () => Effect.sync(() => void archived++)
    const options = { repair, removeUnreadable, archives, onBundle, onArchive }
    const { add, tally } = makeTally()
    const findings: Array<typeof Documents.FoundFault.Type> = []
    yield* Stream.runForEach(Verification.check(options), (finding) => {
      add(finding)
      // There may be very many.
      return isJson ? Effect.sync(() => void findings.push(documentOf(finding))) : Console.log(lines(root, finding))
    })
    const { mended, notes, problems } = tally
    yield* isJson
      ? printJson(
        {
          version: 1,
          root,
          checked,
          archives: archived,
          findings,
          ...tally
        } satisfies typeof Documents.Verify.Type
      )
      : Console.error(
        `${countOf(checked, "run")}${archived === 0 ? "" : ` and ${countOf(archived, "archive")}`} checked: ${
          countOf(problems, "problem")
        }, ${countOf(notes, "note")}, ${mended} mended`
      )
    if (problems > 0) return yield* Effect.fail(new ExitWith(1))
  })),
  Command.provide(Layer.provideMerge(SqliteIndex.layer, Store))
)
