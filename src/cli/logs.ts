import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { obstacle } from "../Bundle.ts"
import { Files } from "../internal/Files.ts"
import { openToRead } from "../internal/OwnFile.ts"
import { type Entry, RunStore } from "../RunStore.ts"
import { StoreError, StoreReason, unusable } from "../StoreError.ts"
import { findRun, runName, Store } from "./Context.ts"

const kept = {
  stdout: "logs/stdout.log",
  stderr: "logs/stderr.log",
  cleanup: "logs/cleanup.log",
  events: "logs/events.jsonl",
  spans: "telemetry/spans.jsonl"
} as const

type Name = keyof typeof kept

const stream = Flag.Literals("stream", Object.keys(kept) as ReadonlyArray<Name>).pipe(
  Flag.withDescription("What to print; else standard output and standard error, each to ours"),
  Flag.optional
)
const follow = Flag.Boolean("follow").pipe(
  Flag.withAlias("f"),
  Flag.withDescription("Go on printing until nobody works in the run any more"),
  Flag.withDefault(false)
)

const pollInterval = "100 millis"

const isLive = (entry: Entry) =>
  Effect.flatMap(RunStore, (store) => Effect.map(store.liveness(entry), (liveness) => liveness._tag === "Live"))

/** The bytes of a file that may still grow, or not be there yet. */
const print = Effect.fnUntraced(function*(entry: Entry, name: Name, following: boolean) {
  const files = yield* Files
  const stdio = yield* Stdio.Stdio
  const path = `${entry.dir}/${kept[name]}`
  const buffer = new Uint8Array(256 * 1024)
  const open = Effect.map(openToRead(path), ({ fd }) => fd).pipe(
    Effect.catchIf((error) => error._tag === "Errno" && error.code === "ENOENT", () => Effect.undefined)
  )
  yield* Effect.scoped(Effect.gen(function*() {
    let fd = yield* open
    yield* Effect.addFinalizer(() => fd === undefined ? Effect.void : files.close(fd))
    for (let wasLive = following;;) {
      const count = fd === undefined ? 0 : yield* files.read(fd, buffer, path)
      if (count > 0) {
        const sink = name === "stderr" ? stdio.stderr() : stdio.stdout()
        yield* Stream.run(Stream.make(buffer.slice(0, count)), sink)
        continue
      }
      // What was written before the last holder let go is read once more after that was seen.
      if (!wasLive) return
      wasLive = yield* isLive(entry)
      if (wasLive) yield* Effect.sleep(pollInterval)
      fd ??= yield* open
    }
  }))
})

export const logs = Command.make("logs", { run: runName, stream, follow }).pipe(
  Command.withDescription("Print what a run wrote"),
  Command.withHandler(Effect.fn(function*({ follow, run, stream }) {
    const entry = yield* findRun(run)
    const names: ReadonlyArray<Name> = stream._tag === "Some" ? [stream.value] : ["stdout", "stderr"]
    const error = obstacle(entry)
    if (error !== undefined) return yield* unusable(entry.id, error)
    yield* Effect.forEach(names, (name) => print(entry, name, follow), { concurrency: "unbounded", discard: true })
      .pipe(
        Effect.catchTag("Errno", (errno) => Effect.fail(new StoreError({ reason: StoreReason.System({ errno }) })))
      )
  })),
  Command.provide(Store)
)
