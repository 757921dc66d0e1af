/**
 * What a run has made outside of its bundle, and how it is undone when the bundle goes.
 *
 * A run registers it, best before it makes it: what is registered is on the disk by then, whatever happens afterwards.
 * When the bundle is to go, by a policy or by name, everything that is registered is undone first, under the claim, the
 * last one first. Only then does the bundle leave the store.
 *
 * Guarantees. Each has its time and no more, 30 seconds unless it says otherwise, and no longer than a pass may take.
 * What was undone is written down at once and not done again. When one fails the bundle stays whole, what was registered
 * before it is left alone, since it may rest on it, and it is tried again by later passes: the same command, and never a
 * stronger one. Nobody can go on with the run meanwhile.
 *
 * Limits. What is killed between an undo and the writing down of it runs again, so undoing twice must do no harm. A
 * process that a command has left behind in a session of its own is not known. Commands run as whoever removes the
 * bundle, with that environment. A record that nobody can read cannot say what is to be undone, so that
 * `leasehold verify --remove-unreadable` undoes nothing.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Formatter from "effect/Formatter"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as NodePath from "node:path"
import { commandLine, quoted } from "./internal/ShellWords.ts"
import type { Redactor } from "./Redaction.ts"
import { KnownUndo, maxBytes, type Registered, type RunRecord, type Timestamp } from "./RunRecord.ts"

/**
 * How something is undone: by a command, which runs in `cwd`, else where this process is; or, for a worktree of git, by
 * `git -C repository worktree remove path`. One that has changes git refuses to remove, and so it stays. One that is
 * there no more, or whose repository is not there either, counts as undone.
 *
 * @category models
 * @since 0.1.0
 */
export type Undo =
  | {
    readonly type: "command"
    readonly argv: readonly [string, ...ReadonlyArray<string>]
    readonly cwd?: string | undefined
  }
  | { readonly type: "git-worktree"; readonly repository: string; readonly path: string }

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long undoing it may take; 30 seconds. */
  readonly timeout?: Duration.Input | undefined
}

/**
 * Why something cannot be registered.
 *
 * @category errors
 * @since 0.1.0
 */
export type OnRemoveReason = Data.TaggedEnum<{
  /** It looks like a secret, which must not be written. `where` says in which part. */
  Secret: { readonly where: string }
  BadTimeout: { readonly value: unknown }
  /** The record would become so large that nobody could read it. */
  Full: {}
}>

/**
 * @category errors
 * @since 0.1.0
 */
export const OnRemoveReason = Data.taggedEnum<OnRemoveReason>()

const explain = OnRemoveReason.$match({
  Secret: ({ where }) =>
    `${where} seems to have a secret in it, which must not be written to the record; have the command read it from a ` +
    "file or from the environment",
  BadTimeout: ({ value }) => `the timeout cannot be ${Formatter.format(value)}: write a time such as "30 seconds"`,
  Full: () => "the record has no room for it; withdraw what the run has undone itself"
})

/**
 * @category errors
 * @since 0.1.0
 */
export class OnRemoveError extends Data.TaggedError("OnRemoveError")<{ readonly reason: OnRemoveReason }> {
  override get message() {
    return `cannot be registered for removal: ${explain(this.reason)}`
  }
}

const refuse = (reason: OnRemoveReason) => Result.fail(new OnRemoveError({ reason }))

/**
 * What of it is written.
 *
 * @internal
 */
export type Settled = Pick<Registered, "timeoutMs"> & { readonly undo: KnownUndo }

const settledUndo = (undo: Undo, cwd: string): KnownUndo =>
  undo.type === "command"
    ? { type: "command", argv: [...undo.argv], cwd: NodePath.resolve(cwd, undo.cwd ?? "") }
    : {
      type: "git-worktree",
      repository: NodePath.resolve(cwd, undo.repository),
      path: NodePath.resolve(cwd, undo.path)
    }

/** Where a redactor would change something: it cannot be written as it is, and otherwise it would not undo anything. */
const secretIn = (undo: KnownUndo, { argv, text }: Redactor): string | undefined => {
  const isChanged = (value: string) => text(value) !== value
  if (undo.type === "git-worktree") {
    if (isChanged(undo.repository)) return "the path of the repository"
    return isChanged(undo.path) ? "the path of the worktree" : undefined
  }
  const written = argv(undo.argv)
  const index = undo.argv.findIndex((word, nth) => word !== written[nth])
  if (index >= 0) return index === 0 ? "the command" : `argument ${index} of the command`
  return isChanged(undo.cwd) ? "the directory of the command" : undefined
}

/**
 * Checks what is to be registered, and makes its paths absolute.
 *
 * @internal
 */
export const settle = (
  undo: Undo,
  { timeout }: Options,
  redactor: Redactor,
  cwd: string
): Result.Result<Settled, OnRemoveError> => {
  const settled = settledUndo(undo, cwd)
  const where = secretIn(settled, redactor)
  if (where !== undefined) return refuse(OnRemoveReason.Secret({ where }))
  if (timeout === undefined) return Result.succeed({ undo: settled })
  const millis = Option.getOrElse(Option.map(Duration.fromInput(timeout), Duration.toMillis), () => Number.NaN)
  if (!(millis >= 1 && Number.isFinite(millis))) return refuse(OnRemoveReason.BadTimeout({ value: timeout }))
  return Result.succeed({ undo: settled, timeoutMs: Math.round(millis) })
}

/**
 * The record with one more, or why there is no room for it: a quarter of what is read, so that everything else has room.
 *
 * @internal
 */
export const register = (
  record: RunRecord,
  settled: Settled,
  id: string,
  at: Timestamp
): Result.Result<RunRecord, OnRemoveError> => {
  const next: RunRecord = { ...record, onRemove: [...record.onRemove ?? [], { id, at, ...settled }] }
  return JSON.stringify(next).length > maxBytes / 4 ? refuse(OnRemoveReason.Full()) : Result.succeed(next)
}

/**
 * The record without one.
 *
 * @internal
 */
export const withdraw = (record: RunRecord, id: string): RunRecord =>
  record.onRemove === undefined
    ? record
    : { ...record, onRemove: record.onRemove.filter((registered) => registered.id !== id) }

const isKnownUndo = Schema.is(KnownUndo)

/**
 * How something is undone, where this program knows it.
 *
 * @internal
 */
export const knownUndo = ({ undo }: Registered): KnownUndo | undefined => isKnownUndo(undo) ? undo : undefined

/**
 * Whether this program knows how it is undone.
 *
 * @category guards
 * @since 0.1.0
 */
export const isKnown = (registered: Registered): boolean => knownUndo(registered) !== undefined

/**
 * What is still to be undone, in the order in which that is done.
 *
 * @category getters
 * @since 0.1.0
 */
export const pending = ({ onRemove = [] }: RunRecord): ReadonlyArray<Registered> =>
  onRemove.filter(({ doneAt }) => doneAt === undefined).toReversed()

/**
 * In a line that can be copied to a shell, where this program knows how it is undone.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = (registered: Registered): string => {
  const undo = knownUndo(registered)
  if (undo === undefined) return `${registered.id}, of the kind ${JSON.stringify(registered.undo.type)}`
  return undo.type === "command"
    ? `cd ${quoted(undo.cwd)} && ${commandLine(undo.argv)}`
    : commandLine(["git", "-C", undo.repository, "worktree", "remove", undo.path])
}

/**
 * Something that could not be undone: what would undo it, and what came of that.
 *
 * @category models
 * @since 0.1.0
 */
export interface NotUndone {
  readonly id: string
  readonly what: string
  readonly message: string
}

/**
 * @category formatting
 * @since 0.1.0
 */
export const describeFailures = (failures: ReadonlyArray<NotUndone>): string =>
  failures.map(({ message, what }) => `${what}: ${message}`).join("; ")
