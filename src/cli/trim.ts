import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import type * as Documents from "../Documents.ts"
import * as RunTrim from "../RunTrim.ts"
import { formatBytes } from "../Units.ts"
import { Store } from "./Context.ts"
import { giveBack, takeFromAll } from "./Freeing.ts"
import { harmless } from "./Output.ts"
import { type Failed, runNames } from "./Several.ts"

const path = Flag.String("path").pipe(
  Flag.withMetavar("GLOB"),
  Flag.withDescription("What is to go, within the bundle (default temp/**); may be given more than once"),
  Flag.between(0, 100)
)

const describe = ({ bytes, entries, id, paths }: RunTrim.Trimmed) =>
  entries === 0
    ? `nothing to trim in ${id}: ${harmless(paths.join(", "))}`
    : `trimmed ${id}: ${formatBytes(bytes)} of ${harmless(paths.join(", "))}`

const tookPart = (error: Failed) =>
  error instanceof RunTrim.TrimError && error.reason._tag === "Partial" && error.reason.moved > 0

export const trim = Command.make("trim", { runs: runNames({ min: 1 }), path }).pipe(
  Command.withDescription("Take heavy parts out of finished runs, which stay listed, and give their space back"),
  Command.withHandler(Effect.fn(function*({ path, runs }) {
    const paths = path.length === 0 ? RunTrim.defaultPaths : path
    // Globs that make no sense are refused before anything is done to a run.
    yield* Effect.fromResult(RunTrim.checkPaths(paths))
    const outcome = yield* takeFromAll(runs, (id) => RunTrim.trim(id, { paths }), describe)
    yield* giveBack(outcome, {
      tookAny: outcome.done.some(({ entries }) => entries > 0) || outcome.failures.some(({ error }) => tookPart(error)),
      document: (trimmed, rest) => ({ version: 1, trimmed, ...rest } satisfies typeof Documents.Trim.Type)
    })
  })),
  Command.provide(Store)
)
