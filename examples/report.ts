/**
 * A report over files, kept with its run: `node examples/report.ts FILE…`
 *
 * The run's bundle holds the report as an artifact, the log events and the spans. What the program acquires in its scope
 * is given back under the lease, however it ends.
 */
import * as Console from "effect/Console"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Run from "leasehold/Run"
import * as NFS from "node:fs"

class Unreadable extends Data.TaggedError("Unreadable")<{ readonly file: string }> {
  override get message() {
    return `cannot read ${this.file}`
  }
}

const wordsOf = Effect.fn("wordsOf")(function*(file: string) {
  yield* Effect.annotateCurrentSpan({ file })
  const text = yield* Effect.tryPromise({
    try: () => NFS.promises.readFile(file, "utf8"),
    catch: () => new Unreadable({ file })
  })
  return text.split(/\s+/).filter((word) => word !== "").length
})

/** The report, written line by line; it is closed however the program ends. */
const openReport = Effect.gen(function*() {
  const run = yield* Run.Run
  const path = yield* run.artifact("report.txt")
  return yield* Effect.acquireRelease(
    Effect.sync(() => NFS.openSync(path, "w")),
    (fd) => Effect.andThen(Effect.log("closing the report"), Effect.sync(() => NFS.closeSync(fd)))
  )
})

const report = Effect.gen(function*() {
  const files = process.argv.slice(2)
  const run = yield* Run.Run
  yield* run.annotate({ files: String(files.length) })
  const fd = yield* openReport
  for (const file of files) {
    const words = yield* wordsOf(file)
    NFS.writeSync(fd, `${words} ${file}\n`)
  }
  yield* Console.log(`${run.dir}/artifacts/report.txt`)
})

const RunLayer = Run.layer({ name: "report" })

report.pipe(Effect.scoped, Effect.provide(RunLayer), Run.main)
