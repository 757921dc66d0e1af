/**
 * Runs that each work in a git worktree of their own, which lies in their bundle and goes with it.
 *
 * The worktree is registered before it is made, so that no crash leaves one that nobody knows of. `clean` and `resume`
 * may come at any moment, in any number: of those that come for the same run exactly one has it.
 */
import * as Console from "effect/Console"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Child from "leasehold/Child"
import * as Retention from "leasehold/Retention"
import type { PassEvent } from "leasehold/RetentionReport"
import * as Run from "leasehold/Run"
import * as RunStore from "leasehold/RunStore"
import * as NFS from "node:fs"
import * as NodePath from "node:path"

export type Command = readonly [string, ...ReadonlyArray<string>]

/** Ends the program with an exit code that says more than 1 does. */
export class Ended extends Data.TaggedError("Ended")<{ readonly code: number; readonly message: string }> {
  override get [Runtime.errorExitCode]() {
    return this.code
  }
}

const call = Effect.fn("call")(function*(options: Child.Options) {
  const { exitCode } = yield* Child.run(options)
  if (exitCode !== 0) return yield* new Ended({ code: exitCode, message: `${options.argv[0]} ended with ${exitCode}` })
})

/**
 * The worktree of the current run. It is there already when the run is gone on with, unless a `clean` had begun on it;
 * then it is registered and made again.
 */
const worktreeOf = Effect.fn("worktreeOf")(function*(repository: string) {
  const run = yield* Run.Run
  const path = `${run.dir}/worktree`
  if (NFS.existsSync(path)) return path
  const registered = yield* run.registered
  if (registered.every(({ doneAt }) => doneAt !== undefined)) {
    yield* run.onRemove({ type: "git-worktree", repository, path }, { timeout: "5 minutes" })
  }
  yield* call({ argv: ["git", "-C", repository, "worktree", "add", "--quiet", "--detach", path], output: "keep" })
  return path
})

const work = Effect.fn("work")(function*(repository: string, command: Command) {
  const run = yield* Run.Run
  yield* run.annotate({ repository })
  const cwd = yield* worktreeOf(repository)
  yield* Console.log(`working ${run.id}`)
  yield* call({ argv: command, cwd })
})

/** Runs a command in a new worktree of a repository. */
export const start = (repository: string, command: Command) =>
  work(NodePath.resolve(repository), command).pipe(Run.scoped({ name: "worktree", retention: "off" }))

/** Runs another one in the worktree of an earlier run, unless somebody works in it, or on it. */
export const resume = Effect.fn("resume")(function*(name: string, command: Command) {
  const store = yield* RunStore.RunStore
  const { id, record } = yield* store.find(name)
  const { tags } = yield* Effect.fromResult(record)
  const repository = tags["repository"]
  if (repository === undefined) return yield* new Ended({ code: 2, message: `${id} has no worktree` })
  yield* work(repository, command).pipe(
    Run.resume(id, { retention: "off" }),
    Effect.catchReason("LeaseError", "Held", (_, error) => new Ended({ code: 4, message: error.message }))
  )
})

const tell = (event: PassEvent): Effect.Effect<void> => {
  switch (event._tag) {
    case "Removed":
      return Console.log(`removed ${event.id}`)
    case "Kept":
      return Console.log(`kept ${event.id} ${event.reason._tag}`)
    case "Failed":
      return Console.log(`failed ${event.id} ${event.reason}`)
    default:
      return Effect.void
  }
}

/** Removes every run that nobody works in, its worktree first. One with changes in its worktree stays, which is debt. */
export const clean = Effect.gen(function*() {
  const { debt } = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "10 minutes" }, onEvent: tell })
  if (debt !== null) return yield* new Ended({ code: 3, message: `left over: ${JSON.stringify(debt.reasons)}` })
})

/** What the words on a command line ask for. */
export const program = Effect.fnUntraced(function*(words: ReadonlyArray<string>) {
  const [verb, subject = "", first, ...rest] = words
  if (verb === "clean" && words.length === 1) return yield* clean
  if (first !== undefined && verb === "start") return yield* start(subject, [first, ...rest])
  if (first !== undefined && verb === "resume") return yield* resume(subject, [first, ...rest])
  return yield* new Ended({ code: 2, message: "usage: start REPOSITORY CMD… | resume RUN CMD… | clean" })
})
