/** What `run` does: a command in a bundle of its own. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as NodePath from "node:path"
import { workingDirectory } from "../internal/WorkingDirectory.ts"
import { standard } from "../Redaction.ts"
import * as Run from "../Run.ts"
import { checkJob, jobOptions, noTelemetry, ownJob, retentionOf, retentionOption } from "./Job.ts"
import type { Given, Options } from "./Options.ts"
import { parseTag, tagOption } from "./Tags.ts"

export const options = {
  name: {
    kind: "text",
    nonEmpty: "a name of at least one character",
    description: "What to call the run; else the name of its command"
  },
  tag: tagOption,
  ...jobOptions,
  unprotected: { kind: "switch", description: "Go on where the file system has no locks" },
  retention: retentionOption
} as const satisfies Options

export const start = Effect.fn(function*(given: Given<typeof options>, command: ReadonlyArray<string>) {
  const tags = yield* Effect.forEach(given.tag, (text) => Effect.fromResult(parseTag(text)))
  const argv = yield* checkJob(given, command)
  yield* ownJob(given, argv).pipe(Run.scoped({
    name: Option.getOrElse(given.name, () => NodePath.basename(standard.argv(argv)[0] ?? "")),
    tags: Object.fromEntries(tags.map(([key, value]) => [key, value ?? ""])),
    command: { argv, cwd: yield* workingDirectory },
    unprotected: given.unprotected,
    retention: retentionOf(given.retention),
    telemetry: noTelemetry
  }))
})
