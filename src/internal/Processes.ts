/**
 * The one door to `node:child_process`: a child with its output copied to where it is kept and to where it would have
 * gone, byte for byte, no faster than the slower of the two takes it.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { type Readable, Writable } from "node:stream"
import { type Errno, fromUnknown } from "./Errno.ts"
import { openToAppend } from "./OwnFile.ts"
import * as Pipes from "./Pipes.ts"

/**
 * A descriptor to write to without ever holding up the event loop: the streams of `process` write to pipes
 * synchronously, and a reader that stalls would keep this process from passing signals on.
 */
class Descriptor extends Writable {
  readonly #fd: number
  readonly #owned: boolean

  constructor(fd: number, options: { readonly owned: boolean }) {
    super({ highWaterMark: 1024 * 1024, decodeStrings: true })
    this.#fd = fd
    this.#owned = options.owned
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    NFS.write(this.#fd, chunk, 0, chunk.length, null, (error, written) => {
      // Somebody may have made the descriptor non-blocking; its reader will come round.
      if (error?.code === "EAGAIN") setTimeout(() => this._write(chunk, _encoding, done), 5)
      else if (error) done(error)
      else if (written < chunk.length) this._write(chunk.subarray(written), _encoding, done)
      else done()
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#owned) NFS.close(this.#fd, () => done(error))
    else done(error)
  }
}

/** @internal */
export interface OutputRoute {
  /** The file that keeps a copy. */
  readonly keep: string
  /** The descriptor of ours that the output also goes to. */
  readonly pass: 1 | 2 | undefined
}

/** @internal */
export interface Copied {
  readonly stdout: OutputRoute
  readonly stderr: OutputRoute
  /** A directory that only we write to. */
  readonly scratch: string
}

/**
 * Output that nobody is to see as it comes. Such a child has no standard input either.
 *
 * @internal
 */
export interface Taken {
  readonly take: (chunk: Buffer) => void
  /** A directory that only we write to. */
  readonly scratch: string
}

/**
 * What does not happen any more to the output of a child.
 *
 * @internal
 */
export interface Loss {
  readonly what: "kept" | "passed on"
  readonly errno: Errno
}

/** @internal */
export interface SpawnOptions {
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Handed on as the child's descriptor 3. */
  readonly leaseFd: number | undefined
  /** `terminal`: the child has this process's terminal and group; else it leads a session of its own. */
  readonly output: "terminal" | Copied | Taken
  /** A copy could not be written on. Where that is the one that is kept, the child goes on, and its output passes on. */
  readonly onLoss: (loss: Loss) => void
}

/** @internal */
export interface Ended {
  readonly code: number | undefined
  readonly signal: NodeJS.Signals | undefined
}

/** @internal */
export interface Child {
  readonly pid: number
  /** Ends when the child has ended and everything it had written by then has been copied. */
  readonly ended: Effect.Effect<Ended>
  /** To the child and, unless it shares ours, to its whole group. */
  readonly signal: (signal: NodeJS.Signals) => void
}

interface Copying {
  readonly flushed: () => Promise<void>
}

/** More than a kernel keeps in a pipe: what comes after so much was written when the child had gone already. */
const mostInFlight = 8 * 1024 * 1024

/**
 * A background process may keep the pipe open long after the child has gone, and write to it, so its end is not
 * waited for. Turns of the event loop in which the pipe was read and gave nothing show that it is empty.
 */
const drainOf = (source: Readable) => {
  let bytes = 0
  source.on("data", (chunk: Buffer) => void (bytes += chunk.length))
  source.on("error", () => source.destroy())
  return async () => {
    const enough = bytes + mostInFlight
    const isOver = () => bytes >= enough || source.destroyed || source.readableEnded
    for (let quiet = 0; quiet < 2 && !isOver();) {
      const before = bytes
      const isReading = source.readableFlowing === true
      await new Promise((resolve) => isReading ? setImmediate(resolve) : setTimeout(resolve, 5))
      quiet = bytes === before && isReading && source.readableFlowing && source.readableLength === 0 ? quiet + 1 : 0
    }
    source.destroy()
  }
}

const hand = (source: Readable, take: (chunk: Buffer) => void): Copying => {
  const drained = drainOf(source)
  source.on("data", take)
  return { flushed: drained }
}

/** Where nothing can be kept the output passes on all the same. */
const openKept = ({ keep }: OutputRoute, onLoss: (loss: Loss) => void): Effect.Effect<number | undefined> =>
  Effect.match(openToAppend(keep), {
    onSuccess: ({ fd }) => fd,
    onFailure: (errno) => void onLoss({ what: "kept", errno })
  })

const copy = (
  source: Readable,
  route: OutputRoute,
  kept: number | undefined,
  onLoss: (loss: Loss) => void
): Copying => {
  const drained = drainOf(source)
  const sinks: Array<Writable> = []
  const add = (sink: Writable, onError: (error: Error) => void) => {
    sink.on("error", onError)
    source.pipe(sink, { end: false })
    sinks.push(sink)
  }
  if (kept !== undefined) {
    add(new Descriptor(kept, { owned: true }), (error) => {
      onLoss({ what: "kept", errno: fromUnknown("write", route.keep, error) })
      // It may have been the only one, and then nothing would read on.
      source.resume()
    })
  }
  if (route.pass !== undefined) {
    const name = route.pass === 1 ? "standard output" : "standard error"
    add(new Descriptor(route.pass, { owned: false }), (error) => {
      const errno = fromUnknown("write", name, error)
      // That nobody reads it any more is no loss.
      if (errno.code !== "EPIPE") onLoss({ what: "passed on", errno })
      // The child is to learn of it as it would have without us, by its next write.
      source.destroy()
    })
  }
  if (sinks.length === 0) source.resume()
  return {
    flushed: async () => {
      await drained()
      await Promise.all(sinks.map((sink) =>
        new Promise<void>((resolve) => {
          if (sink.destroyed) return resolve()
          sink.once("close", () => resolve())
          sink.end()
        })
      ))
    }
  }
}

const copyBoth = (routes: ReadonlyArray<readonly [Readable, OutputRoute]>, onLoss: (loss: Loss) => void) =>
  Effect.forEach(
    routes,
    ([source, route]) => Effect.map(openKept(route, onLoss), (kept) => copy(source, route, kept, onLoss))
  )

const send = (pid: number, signal: NodeJS.Signals) => {
  try {
    process.kill(pid, signal)
  } catch {
    // It has gone already, which is what the signal was for.
  }
}

/**
 * Starts a child. Fails with the errno of the system when it cannot be started. Nothing ends a child but itself and
 * its signals.
 *
 * @internal
 */
export const spawn = (options: SpawnOptions): Effect.Effect<Child, Errno> =>
  Effect.callback<Child, Errno>((resume) => {
    const [command, ...args] = options.argv
    const { output } = options
    const pipes = output === "terminal" ? undefined : Pipes.makePair(output.scratch)
    const fail = (cause: unknown) => {
      for (const { reader } of pipes ?? []) reader.destroy()
      resume(Effect.fail(fromUnknown("spawn", command, cause)))
    }
    let child: NodeChildProcess.ChildProcess
    try {
      child = NodeChildProcess.spawn(command, args, {
        cwd: options.cwd,
        env: options.env,
        detached: output !== "terminal",
        stdio: [
          output !== "terminal" && "take" in output ? "ignore" : "inherit",
          ...(output === "terminal"
            ? ["inherit", "inherit"] as const
            : pipes?.map((pipe) => pipe.writer) ?? ["pipe", "pipe"] as const),
          ...(options.leaseFd === undefined ? [] : [options.leaseFd])
        ]
      })
    } catch (cause) {
      // Some refusals of the system are thrown, others come as an event.
      return fail(cause)
    } finally {
      for (const { writer } of pipes ?? []) NFS.closeSync(writer)
    }
    const ended = new Promise<Ended>((resolve) =>
      child.once("exit", (code, signal) => resolve({ code: code ?? undefined, signal: signal ?? undefined }))
    )
    child.once("error", fail)
    child.once("spawn", () => {
      const pid = child.pid!
      const [stdout, stderr] = pipes?.map((pipe) => pipe.reader) ?? [child.stdout, child.stderr]
      const copying = output === "terminal"
        ? Effect.succeed([])
        : "take" in output
        ? Effect.sync(() => [hand(stdout!, output.take), hand(stderr!, output.take)])
        : copyBoth([[stdout!, output.stdout], [stderr!, output.stderr]], options.onLoss)
      resume(Effect.map(copying, (copies) => ({
        pid,
        ended: Effect.promise(async () => {
          const outcome = await ended
          await Promise.all(copies.map((each) => each.flushed()))
          return outcome
        }),
        signal: (signal) => send(output === "terminal" ? pid : -pid, signal)
      })))
    })
  })
