/**
 * Pipes for what a child writes. Those that node makes are socket pairs: a child cannot open them as `/dev/stdout` or
 * `/dev/stderr`, which shell scripts do, and is not told by SIGPIPE that its reader has gone. A FIFO whose name goes as
 * soon as both its ends are open is a pipe like any other.
 */
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeNet from "node:net"
import { type Errno, fromUnknown } from "./Errno.ts"

/** @internal */
export interface Pipe {
  readonly reader: NodeNet.Socket
  /** The end for the child, to be closed here as soon as the child has it. */
  readonly writer: number
}

const mkfifo = (mode: number, ...paths: ReadonlyArray<string>) =>
  NodeChildProcess.execFileSync("mkfifo", ["-m", mode.toString(8), ...paths], { stdio: "ignore" })

/**
 * Makes a FIFO that has a name.
 *
 * @internal
 */
export const makeFifo = (path: string, mode: number): Effect.Effect<void, Errno> =>
  Effect.try({ try: () => mkfifo(mode, path), catch: (cause) => fromUnknown("mkfifo", path, cause) })

/** A name that stays behind is in nobody's way, and goes with the run's scratch files. */
const forget = (path: string) => {
  try {
    NFS.unlinkSync(path)
  } catch {}
}

const open = (path: string): Pipe => {
  const opened: Array<number> = []
  const openEnd = (flags: number) => {
    const fd = NFS.openSync(path, flags)
    opened.push(fd)
    return fd
  }
  try {
    // The reader comes first and does not wait for a writer, so that the writer need not wait for it.
    const fd = openEnd(NFS.constants.O_RDONLY | NFS.constants.O_NONBLOCK)
    const writer = openEnd(NFS.constants.O_WRONLY)
    return { writer, reader: new NodeNet.Socket({ fd, readable: true, writable: false }) }
  } catch (error) {
    opened.forEach((fd) => NFS.closeSync(fd))
    throw error
  }
}

/** Behind a link they would be somebody else's. */
const isDirectory = (path: string) => {
  try {
    return NFS.lstatSync(path).isDirectory()
  } catch {
    return false
  }
}

/**
 * Two pipes, by way of a directory that nobody else writes to; or none, where there are no FIFOs to be had.
 *
 * @internal
 */
export const makePair = (directory: string): readonly [Pipe, Pipe] | undefined => {
  if (process.platform === "win32" || !isDirectory(directory)) return undefined
  const place = `${directory}/.pipes-${process.pid}-${process.hrtime.bigint()}`
  const paths = [`${place}-1`, `${place}-2`] as const
  let first: Pipe | undefined
  try {
    mkfifo(0o600, ...paths)
    first = open(paths[0])
    return [first, open(paths[1])]
  } catch {
    if (first !== undefined) {
      NFS.closeSync(first.writer)
      first.reader.destroy()
    }
    return undefined
  } finally {
    paths.forEach(forget)
  }
}
