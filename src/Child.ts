/**
 * Any program, in any language, as a part of the current run.
 *
 * Guarantees. The child finds the run in its environment. Unless told otherwise it is handed a lease of its own as file
 * descriptor 3, opened and locked before it starts, so that the bundle is safe for as long as it works there, also when
 * this process is killed. What it writes goes through real pipes, is kept in the bundle and passed on, byte for byte.
 *
 * Limits. A child that closes the descriptor, as daemons do, gives its own lease up; it cannot give up anybody else's.
 * One that was not handed a lease holds nothing. What a background process writes after the child itself has ended is
 * not kept.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as ArtifactName from "./ArtifactName.ts"
import type { Errno } from "./internal/Errno.ts"
import { Files } from "./internal/Files.ts"
import * as Processes from "./internal/Processes.ts"
import * as Signals from "./internal/Signals.ts"
import { workingDirectory } from "./internal/WorkingDirectory.ts"
import type { LeaseError } from "./Lease.ts"
import { type Paths, Run } from "./Run.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  /** Else the working directory of this process. */
  readonly cwd?: string | undefined
  /** Added to the environment of this process. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** `pass`: kept in the bundle and passed on; `keep`: kept only; `terminal`: the child has the terminal itself. */
  readonly output?: "pass" | "keep" | "terminal" | undefined
  /** The files in `logs/` that keep standard output and standard error; `stdout.log` and `stderr.log`. */
  readonly logs?: { readonly stdout: string; readonly stderr: string } | undefined
  /** Hand the child a lease of its own; yes. */
  readonly inheritLease?: boolean | undefined
}

/**
 * How a child ended: by an exit code or by a signal.
 *
 * @category models
 * @since 0.1.0
 */
export interface Ended {
  readonly code: number | undefined
  readonly signal: NodeJS.Signals | undefined
  /** The exit code by which shells report either. */
  readonly exitCode: number
  /** Whether it was told to end by a signal that this process passed on. */
  readonly interrupted: boolean
  /** Whether some of its output could not be passed on. That nobody reads it any more is not counted. */
  readonly lost: boolean
  /** Whether some of its output could not be kept. */
  readonly unkept: boolean
}

/**
 * Why a child could not be started. `exitCode` is what shells answer: 127 not found, 126 not executable.
 *
 * @category errors
 * @since 0.1.0
 */
export class ChildError extends Data.TaggedError("ChildError")<{
  readonly command: string
  readonly exitCode: 126 | 127
  readonly problem: string
}> {
  override get message() {
    return `cannot start ${JSON.stringify(this.command)}: ${this.problem}`
  }
}

const classify = Effect.fnUntraced(function*(errno: Errno, command: string, cwd: string) {
  const files = yield* Files
  if (errno.code !== "ENOENT") {
    const problem = errno.code === "EACCES" ? "it is not executable (EACCES)" : `the system refused (${errno.code})`
    return new ChildError({ command, exitCode: 126, problem })
  }
  // The system says ENOENT of a missing directory to start in and of a missing interpreter, too.
  const isHome = yield* Effect.isSuccess(files.lstat(cwd))
  const problem = isHome
    ? "no such command, or the interpreter that its first line names is missing"
    : `the directory ${cwd} to start it in does not exist`
  return new ChildError({ command, exitCode: 127, problem })
})

const outputOf = ({ logs, temp }: Paths, options: Options): Processes.SpawnOptions["output"] => {
  if (options.output === "terminal") return "terminal"
  const { stderr, stdout } = options.logs ?? { stdout: "stdout.log", stderr: "stderr.log" }
  const passes = options.output !== "keep"
  return {
    stdout: { keep: `${logs}/${stdout}`, pass: passes ? 1 : undefined },
    stderr: { keep: `${logs}/${stderr}`, pass: passes ? 2 : undefined },
    scratch: temp
  }
}

const fromTerminal: ReadonlySet<NodeJS.Signals> = new Set(["SIGINT", "SIGQUIT", "SIGWINCH"])

/**
 * Runs a child to its end. SIGINT, SIGTERM, SIGHUP and SIGQUIT that come in the meantime go to the child and its group
 * and do not end this program; with the terminal they reach the child by themselves. SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH
 * and SIGCONT are passed on, too, and from the first child on neither end this process nor open node's inspector.
 * Interruption ends the child with SIGTERM and waits for it.
 *
 * @category running
 * @since 0.1.0
 */
export const run = Effect.fn("Child.run")(
  function*(options: Options): Effect.fn.Return<Ended, ChildError | LeaseError | ArtifactName.BadArtifactName, Run> {
    const current = yield* Run
    // They are joined to a path, as names of artifacts are.
    for (const name of Object.values(options.logs ?? {})) yield* Effect.fromResult(ArtifactName.parse(name))
    const [command] = options.argv
    const cwd = options.cwd ?? (yield* Effect.mapError(
      workingDirectory,
      ({ message }) => new ChildError({ command, exitCode: 127, problem: message })
    ))
    const output = outputOf(current.paths, options)
    const losses: Array<Processes.Loss> = []
    let interrupted = false
    let child: Processes.Child | undefined
    const waiting: Array<NodeJS.Signals> = []

    // A child that has been started is waited for, whatever comes.
    const ended = yield* Effect.uninterruptibleMask((restore) =>
      Effect.scoped(Effect.gen(function*() {
        // Heard from before the start, so that no signal falls between the two.
        yield* Signals.listenForChild((signal) => {
          interrupted ||= Signals.isEnding(signal)
          // The terminal sends these to everybody in its foreground group, which with the terminal the child is in.
          if (output === "terminal" && fromTerminal.has(signal)) return
          if (child === undefined) waiting.push(signal)
          else child.signal(signal)
        })
        // Ours is closed as soon as the child has its own, so that it ends with the child.
        const started = yield* Effect.scoped(Effect.gen(function*() {
          const lease = options.inheritLease === false ? undefined : yield* Effect.catchIf(
            current.share,
            // A run that goes unprotected has none to hand on.
            (error) => error.reason._tag === "NoLocks",
            () => Effect.undefined
          )
          const spawned = yield* Processes.spawn({
            argv: options.argv,
            cwd,
            env: { ...process.env, ...current.environment, ...options.env },
            leaseFd: lease?.fd,
            output,
            onLoss: (loss) => void losses.push(loss)
          }).pipe(Effect.catch((errno) => Effect.flatMap(classify(errno, command, cwd), Effect.fail)))
          return { spawned, lease }
        }))
        child = started.spawned
        for (const signal of waiting) child.signal(signal)
        if (started.lease !== undefined) yield* started.lease.name(child.pid).pipe(Effect.catch(unnamed))
        return yield* restore(child.ended).pipe(Effect.onInterrupt(() => endAndWait(started.spawned)))
      }))
    )
    for (const { errno, what } of losses) yield* Effect.logWarning(`output is not ${what} any more: ${errno.message}`)
    return {
      ...ended,
      interrupted,
      lost: losses.some(({ what }) => what === "passed on"),
      unkept: losses.some(({ what }) => what === "kept"),
      exitCode: ended.signal === undefined ? ended.code ?? 1 : Signals.exitCode(ended.signal)
    }
  }
)

/** The lease protects without its holder file, which tells people whose it is. */
const unnamed = (error: LeaseError) => Effect.logWarning(`the child's lease has no name: ${error.message}`)

const endAndWait = (child: Processes.Child) =>
  Effect.andThen(Effect.sync(() => child.signal("SIGTERM")), Effect.asVoid(child.ended))
