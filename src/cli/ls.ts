import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import { DurationFromText } from "../Units.ts"
import { Json, Store } from "./Context.ts"
import { flagsOf } from "./Flags.ts"
import { list, options } from "./Listing.ts"

const age = (flag: string, description: string) =>
  Flag.String(flag).pipe(
    Flag.withMetavar("AGE"),
    Flag.withSchema(DurationFromText),
    Flag.withDescription(description),
    Flag.optional
  )
const since = age("since", "Only runs that started at most this long ago, as in \"2h\" or \"14 days\"")
const until = age("until", "Only runs that started at least this long ago")

const { archived, limit, name, status, tag, tree } = flagsOf(options)

export const ls = Command.make("ls", { limit, name, status, tag, since, until, tree, archived }).pipe(
  Command.withDescription("List runs, newest first"),
  Command.withHandler((given) => Effect.flatMap(Json, (json) => list(given, json))),
  Command.provide(Store)
)
