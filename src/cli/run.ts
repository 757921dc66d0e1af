import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as NodePath from "node:path"
import { standard } from "../Redaction.ts"
import * as Run from "../Run.ts"
import { StoreOrNew } from "./Context.ts"
import { checkJob, commandAfterDashes, job, jobFlags, noTelemetry, retentionFlag, retentionOf } from "./Job.ts"
import { parseTag, tagFlag } from "./Tags.ts"

const flags = {
  name: Flag.String("name").pipe(
    Flag.withSchema(Schema.String.check(Schema.isNonEmpty({ expected: "a name of at least one character" }))),
    Flag.withDescription("What to call the run; else the name of its command"),
    Flag.optional
  ),
  tag: tagFlag,
  ...jobFlags,
  unprotected: Flag.Boolean("unprotected").pipe(
    Flag.withDescription("Go on where the file system has no locks"),
    Flag.withDefault(false)
  ),
  retention: retentionFlag,
  command: commandAfterDashes(1)
}

export const run = Command.make("run", flags).pipe(
  Command.withDescription("Run a command in a bundle of its own, and exit as it does"),
  Command.withHandler(Effect.fn(function*(given) {
    const tags = yield* Effect.forEach(given.tag, (text) => Effect.fromResult(parseTag(text)))
    const argv = yield* checkJob(given, given.command)
    yield* job(given, argv).pipe(Run.scoped({
      name: Option.getOrElse(given.name, () => NodePath.basename(standard.argv(argv)[0] ?? "")),
      tags: Object.fromEntries(tags.map(([key, value]) => [key, value ?? ""])),
      command: { argv, cwd: process.cwd(), ...(given.tty ? { tty: true } : {}) },
      unprotected: given.unprotected,
      retention: retentionOf(given.retention),
      telemetry: noTelemetry
    }))
  })),
  Command.provide(StoreOrNew)
)
