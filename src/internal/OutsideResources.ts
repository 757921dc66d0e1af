/**
 * Undoing what a run has made outside of its bundle, one thing at a time, under a claim that the caller has.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Claim } from "../Lease.ts"
import { describe, knownUndo, type NotUndone } from "../OnRemove.ts"
import * as Redaction from "../Redaction.ts"
import { type KnownUndo, type Registered, type RunRecord, timestamp } from "../RunRecord.ts"
import { formatDuration } from "../Units.ts"
import * as BoundedCommand from "./BoundedCommand.ts"
import { isThere } from "./io.ts"
import * as RecordFile from "./RecordFile.ts"

/** Where it is undone: the bundle in its store, and until when, in milliseconds since 1970. */
interface Place {
  readonly root: string
  readonly claim: Claim
  readonly until: number | undefined
}

/** What went wrong; nothing where it is undone. */
type Problem = string | undefined

const defaultMillis = 30_000

/** With less than that hardly anything can be undone, and what is stopped half-way may be worse than what is not begun. */
const leastMillis = 100

/** So much of the end of the output makes a message. */
const maxSaid = 1000

/** The last lines, in one. */
const saidIn = (output: string): string => {
  const lines = output.split(/[\r\n]+/).map((line) => line.trim()).filter((line) => line !== "")
  return Redaction.standard.text(lines.slice(-5).join(" | ").slice(-maxSaid))
}

const problemOf = ({ how, inTime, output }: BoundedCommand.Ended, millis: number): Problem => {
  if (inTime && how?.code === 0) return undefined
  const said = saidIn(output)
  const problem = how === undefined
    ? `did not end within ${formatDuration(millis)} and could not be killed`
    : !inTime
    ? `did not end within ${formatDuration(millis)} and was stopped`
    : how.signal === undefined
    ? `ended with ${how.code ?? 1}`
    : `was ended by ${how.signal}`
  return said === "" ? problem : `${problem}: ${said}`
}

const runIn = Effect.fnUntraced(
  function*(place: Place, command: Pick<BoundedCommand.Command, "argv" | "cwd" | "env">, millis: number) {
    const { descriptor, target: { dir, id } } = place.claim
    return yield* Effect.result(BoundedCommand.run({
      ...command,
      env: { ...command.env, LEASEHOLD_ROOT: place.root, LEASEHOLD_RUN_ID: id, LEASEHOLD_RUN_DIR: dir },
      // When we are killed the claim lasts for as long as the command does: nobody goes on with the run beside it.
      descriptor,
      scratch: dir
    }, millis))
  }
)

const runCommand = Effect.fnUntraced(
  function*(place: Place, { argv, cwd }: Extract<KnownUndo, { readonly type: "command" }>, millis: number) {
    // The system says ENOENT of it as it does of a command.
    if (!(yield* isThere(cwd))) return `the directory ${cwd} to start it in does not exist`
    const ended = yield* runIn(place, { argv, cwd, env: process.env }, millis)
    return Result.isFailure(ended) ? `cannot be started: ${ended.failure.message}` : problemOf(ended.success, millis)
  }
)

/** What git would take for the repository, whatever it was told, as when a hook of git has started us. */
const gitVariables =
  /^GIT_(?:DIR|WORK_TREE|COMMON_DIR|INDEX_FILE|OBJECT_DIRECTORY|NAMESPACE|PREFIX|CONFIG|CONFIG_COUNT|CONFIG_PARAMETERS)$/

const environmentOfGit = () => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !gitVariables.test(name))),
  GIT_TERMINAL_PROMPT: "0",
  LC_ALL: "C"
})

/** Not known as a worktree any more, so that there is nothing for `git worktree prune` to do, which would reach others. */
const isForgotten = (output: string) => /is not a working tree|not a git repository/.test(output)

const removeWorktree = Effect.fnUntraced(
  function*(
    place: Place,
    { path, repository }: Extract<KnownUndo, { readonly type: "git-worktree" }>,
    millis: number
  ) {
    if (!(yield* isThere(repository))) {
      const isLeft = yield* isThere(path)
      return isLeft ? `the repository is not there any more, and ${path} is: look what is in it` : undefined
    }
    const argv = ["git", "-C", repository, "worktree", "remove", path] as const
    const ended = yield* runIn(place, { argv, cwd: place.claim.target.dir, env: environmentOfGit() }, millis)
    if (Result.isFailure(ended)) return `git cannot be started: ${ended.failure.message}`
    const problem = problemOf(ended.success, millis)
    if (problem === undefined) return undefined
    const isLeft = yield* isThere(path)
    if (!isLeft && isForgotten(ended.success.output)) return undefined
    // What git has begun to delete looks to it as if somebody had, and only a person may say that nobody has.
    return isLeft && !ended.success.inTime
      ? `${problem}; if git now takes it for changed, see what is left of it`
      : problem
  }
)

const carryOut = (place: Place, undo: KnownUndo, millis: number): Effect.Effect<Problem> =>
  undo.type === "command" ? runCommand(place, undo, millis) : removeWorktree(place, undo, millis)

/** Half of what is left is for it; the rest is for its end, if it has to be made to end, and for others. */
const millisFor = Effect.fnUntraced(function*({ timeoutMs = defaultMillis }: Registered, until: number | undefined) {
  if (until === undefined) return timeoutMs
  return Math.min(timeoutMs, Math.floor((until - (yield* Clock.currentTimeMillis)) / 2))
})

const change = (record: RunRecord, id: string, f: (before: Registered) => Registered): RunRecord => ({
  ...record,
  onRemove: (record.onRemove ?? []).map((registered) => registered.id === id ? f(registered) : registered)
})

/** What cannot be written, on a full disk for one, stands in nobody's way: it is known for as long as the claim is had. */
const write = Effect.fnUntraced(
  function*({ claim, until }: Place, { id }: Registered, problem: Problem) {
    const at = timestamp(yield* DateTime.now)
    const written = (before: Registered): Registered => {
      const { failure, ...rest } = before
      return problem === undefined
        ? { ...rest, doneAt: at } as Registered
        : { ...before, failure: { ...failure, at, message: problem, count: (failure?.count ?? 0) + 1 } }
    }
    yield* Effect.ignore(
      RecordFile.update(claim.target.dir, (record) => change(record, id, written), {
        fsync: problem === undefined,
        brief: until !== undefined
      })
    )
  }
)

/**
 * What a program that does not know how something is undone says of it.
 *
 * @internal
 */
export const unknownKind = (registered: Registered): NotUndone | undefined =>
  knownUndo(registered) === undefined
    ? {
      id: registered.id,
      what: describe(registered),
      message: "cannot be undone by this program; use a newer leasehold"
    }
    : undefined

/**
 * Undoes one thing and writes down what came of it: nothing where it is undone, and `late` where it was not begun, since
 * no time is left for it.
 *
 * @internal
 */
export const undo = Effect.fnUntraced(
  function*(place: Place, registered: Registered): Effect.fn.Return<NotUndone | "late" | undefined> {
    const known = knownUndo(registered)
    if (known === undefined) return unknownKind(registered)
    const millis = yield* millisFor(registered, place.until)
    if (millis < Math.min(leastMillis, registered.timeoutMs ?? leastMillis)) return "late"
    const problem = yield* carryOut(place, known, millis)
    yield* write(place, registered, problem)
    return problem === undefined ? undefined : { id: registered.id, what: describe(registered), message: problem }
  },
  Effect.uninterruptible
)
