import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type * as Documents from "../Documents.ts"
import { countOf } from "../RetentionReason.ts"
import * as RunArchive from "../RunArchive.ts"
import { formatBytes } from "../Units.ts"
import { Store } from "./Context.ts"
import { giveBack, takeFromAll } from "./Freeing.ts"
import { runNames } from "./Several.ts"

const describe = ({ bytes, id, omitted, packedBytes }: RunArchive.Archived) => {
  const without = omitted === 0 ? "" : `, without ${countOf(omitted, "socket")}`
  return `archived ${id}: ${formatBytes(packedBytes)} in ${formatBytes(bytes)}${without}`
}

export const archive = Command.make("archive", { runs: runNames({ min: 1 }) }).pipe(
  Command.withDescription("Make one compressed file of each of these runs, out of the way until it is restored"),
  Command.withHandler(Effect.fn(function*({ runs }) {
    const outcome = yield* takeFromAll(runs, RunArchive.archive, describe)
    yield* giveBack(outcome, {
      tookAny: outcome.done.length > 0,
      document: (archived, rest) => ({ version: 1, archived, ...rest } satisfies typeof Documents.Archive.Type)
    })
  })),
  Command.provide(Store)
)
