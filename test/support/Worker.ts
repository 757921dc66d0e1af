/** Real processes for tests: synchronised by lines they print and files they wait for, never by time. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodePath from "node:path"

export const repository = NodePath.resolve(import.meta.dirname, "../..")

export const command = NodePath.join(repository, "dist/leasehold.js")

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Worker {
  readonly pid: number
  /** Waits until a line that begins so has been printed, and gives the rest of it. */
  readonly line: (beginning: string) => Effect.Effect<string>
  readonly exit: Effect.Effect<Exit>
  readonly kill: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Goes away as the reader of its output. */
  readonly leave: (stream: "stdout" | "stderr") => Effect.Effect<void>
}

export interface WorkerOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly input?: string
  /** Another user than that of the tests, who has to be root for it. */
  readonly uid?: number
}

/** The run that these tests may be in is not theirs, and a service that runs them says CI or NO_COLOR to itself alone. */
const foreign = /^(LEASEHOLD_|CI$|TF_BUILD$|NO_COLOR$|FORCE_COLOR$|NODE_DISABLE_COLORS$)/

const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)))

/** Starts a program; it is killed with the scope if it is still there. */
export const start = (
  argv: readonly [string, ...ReadonlyArray<string>],
  options: WorkerOptions = {}
): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const [file, ...args] = argv
      const child = NodeChildProcess.spawn(file, args, {
        cwd: options.cwd,
        env: { ...environment, ...options.env },
        uid: options.uid,
        stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"]
      })
      child.stdin?.end(options.input)
      const exit = Deferred.makeUnsafe<Exit>()
      const waiting: Array<{ readonly beginning: string; readonly found: Deferred.Deferred<string> }> = []
      let stdout = ""
      let stderr = ""
      let ended: Error | undefined
      const look = () => {
        for (const { beginning, found } of waiting) {
          const at = `\n${stdout}`.indexOf(`\n${beginning}`)
          const end = at === -1 ? -1 : stdout.indexOf("\n", at)
          if (end !== -1) Deferred.doneUnsafe(found, Effect.succeed(stdout.slice(at + beginning.length, end)))
          else if (ended !== undefined) Deferred.doneUnsafe(found, Effect.die(ended))
        }
      }
      child.stdout!.on("data", (chunk) => {
        stdout += String(chunk)
        look()
      })
      child.stderr!.on("data", (chunk) => void (stderr += String(chunk)))
      child.on("error", (cause) => Deferred.doneUnsafe(exit, Effect.die(cause)))
      child.on("close", (code, signal) => {
        Deferred.doneUnsafe(exit, Effect.succeed({ code, signal, stdout, stderr }))
        ended = new Error(`ended (${code ?? signal}) before the line came\n${stdout}\n${stderr}`)
        look()
      })
      const worker: Worker = {
        pid: child.pid ?? 0,
        exit: Deferred.await(exit),
        line: (beginning) => {
          const found = Deferred.makeUnsafe<string>()
          waiting.push({ beginning, found })
          look()
          return Deferred.await(found)
        },
        kill: (signal) => Effect.sync(() => void child.kill(signal)),
        leave: (stream) => Effect.sync(() => void child[stream]!.destroy())
      }
      return { worker, child }
    }),
    ({ child }) =>
      Effect.sync(() => {
        if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL")
      })
  ).pipe(Effect.map(({ worker }) => worker))

/** Words for the command, with a store of a test among them. */
export const wordsFor = (root: string, args: ReadonlyArray<string>): ReadonlyArray<string> => {
  const end = args.indexOf("--")
  const split = end === -1 ? args.length : end
  return [...args.slice(0, split), "--root", root, "--allow-temp", ...args.slice(split)]
}

/** Starts the command as users have it. */
export const leasehold = (
  root: string,
  args: ReadonlyArray<string>,
  options?: WorkerOptions
): Effect.Effect<Worker, never, Scope.Scope> => start([process.execPath, command, ...wordsFor(root, args)], options)

/** Runs the command to its end. */
export const run = (root: string, args: ReadonlyArray<string>, options?: WorkerOptions): Effect.Effect<Exit> =>
  Effect.scoped(Effect.flatMap(leasehold(root, args, options), (worker) => worker.exit))

/** A program of the folder `fixtures`, with the root and more words as arguments. */
export const fixture = (
  name: string,
  args: ReadonlyArray<string>,
  options?: WorkerOptions
): Effect.Effect<Worker, never, Scope.Scope> =>
  start([process.execPath, NodePath.join(repository, "test/processes/fixtures", name), ...args], options)

/** A directory that goes with the scope. */
export const directory: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => NFS.mkdtempSync("/tmp/leasehold-test-")),
  (path) => Effect.sync(() => NFS.rmSync(path, { recursive: true, force: true }))
)

/**
 * Something for a shell to wait at until the test lets it by: a FIFO, so that nobody has to look again and again. With
 * the scope it opens for everybody who still waits, so that no test leaves a process behind.
 */
export interface Gate {
  /** The shell command that waits. */
  readonly wait: string
  /** Waits until somebody is there and lets them by. */
  readonly open: Effect.Effect<void>
}

export const gate = (path: string): Effect.Effect<Gate, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      NodeChildProcess.execFileSync("mkfifo", [path])
      return {
        wait: `read _ < '${path}'`,
        open: Effect.promise(() => NFS.promises.writeFile(path, "\n"))
      }
    }),
    () =>
      Effect.sync(() => {
        NFS.closeSync(NFS.openSync(path, "r+"))
        NFS.unlinkSync(path)
      })
  )

/** Waits until a process has ended that is nobody's here to wait for. One that nobody has asked after is a zombie. */
export const untilGone = (pid: string | number): Effect.Effect<void> =>
  Effect.gen(function*() {
    const isThere = () => {
      try {
        return !/^\d+ \(.*\) Z/.test(NFS.readFileSync(`/proc/${pid}/stat`, "utf8"))
      } catch {
        return false
      }
    }
    while (isThere()) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  })
