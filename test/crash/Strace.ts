/** Learning which system calls a scenario makes on its store, and stepping in at one of them. */
import * as NodeChildProcess from "node:child_process"
import { once } from "node:events"
import * as NFS from "node:fs"
import { createInterface } from "node:readline"
import type { Made } from "../support/Fabricate.ts"

/** Those that make, change, lock or read what is on a disk. */
const traced = [
  "openat",
  "read",
  "pread64",
  "write",
  "pwrite64",
  "fsync",
  "fdatasync",
  "ftruncate",
  "rename",
  "link",
  "symlink",
  "unlink",
  "mkdir",
  "rmdir",
  "chmod",
  "fchmod",
  "utimensat",
  "statx",
  "fstat",
  "newfstatat",
  "getdents64",
  "fcntl",
  "readlink",
  "statfs"
]

export const canTrace = ((): boolean => {
  const probe = NodeChildProcess.spawnSync("strace", ["-e", "inject=getppid:error=EPERM:when=1", "true"])
  return process.platform === "linux" && probe.status === 0
})()

/** A call on the store: the n-th of its name in one of the threads of the process. */
export interface Call {
  readonly thread: "main" | "worker"
  readonly name: string
  readonly nth: number
  readonly text: string
}

interface Acted {
  /** Its calls at the doors. */
  readonly calls: ReadonlyArray<string>
  /** What of the store was open afterwards. */
  readonly open: ReadonlyArray<string>
}

export type Answer =
  | { readonly said: "ready" }
  | ({ readonly said: "done" } & Acted)
  | { readonly said: "prepared"; readonly made: ReadonlyArray<Made> }
  | ({ readonly said: "failed" | "defect"; readonly message: string } & Acted)
  | { readonly said: "killed" }

/**
 * Milliseconds until a process that does not answer is ended. Where a call of the event loop's own was met, such as the one
 * that reads of a child's end, it may wait for ever.
 */
const patience = 20_000

/** A process that acts scenarios. */
export class Actor {
  readonly #process: NodeChildProcess.ChildProcessWithoutNullStreams
  readonly #lines: AsyncIterator<string>
  readonly #closed: Promise<unknown>

  constructor(fixture: string, name: string, warm: string) {
    const env = { ...process.env, UV_THREADPOOL_SIZE: "1", LEASEHOLD_ALLOW_TEMP: "1" }
    this.#process = NodeChildProcess.spawn(process.execPath, ["--no-warnings", fixture, name, warm], { env })
    this.#process.stdin.on("error", () => {})
    this.#closed = once(this.#process, "close")
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]()
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  async answer(): Promise<Answer> {
    const next = await this.#lines.next()
    if (next.done !== true) return JSON.parse(next.value) as Answer
    await this.#closed
    return { said: "killed" }
  }

  async tell(words: string): Promise<Answer> {
    const limit = setTimeout(() => this.#process.kill("SIGKILL"), patience)
    this.#process.stdin.write(`${words}\n`)
    return await this.answer().finally(() => clearTimeout(limit))
  }

  async end(): Promise<void> {
    this.#process.kill("SIGKILL")
    await this.#closed
  }
}

const threads = (pid: number) =>
  NFS.readdirSync(`/proc/${pid}/task`).map((tid) => ({
    tid,
    role: tid === String(pid)
      ? "main" as const
      : NFS.readFileSync(`/proc/${pid}/task/${tid}/comm`, "utf8").trim() === "libuv-worker"
      ? "worker" as const
      : "other" as const
  }))

/** Has strace look on while something is done. */
const under = async <A>(args: ReadonlyArray<string>, act: () => Promise<A>): Promise<A> => {
  const strace = NodeChildProcess.spawn("strace", args, { stdio: ["ignore", "ignore", "pipe"] })
  const closed = once(strace, "close")
  await new Promise<void>((resolve) => {
    let text = ""
    strace.stderr.on("data", (chunk) => {
      text += String(chunk)
      if (text.includes("attached")) resolve()
    })
    strace.on("close", () => resolve())
  })
  try {
    return await act()
  } finally {
    strace.kill("SIGINT")
    await closed
  }
}

const lineGrammar = /^(\d+) +([a-z0-9_]+)\((.*)$/

const isOn = (root: string, text: string) => [`${root}/`, `${root}"`, `${root}>`].some((part) => text.includes(part))

const lineOf = (line: string) => line.replace(/^\d+ +/, "")

/** The calls on the store that a scenario makes, in order. */
export const learn = async (actor: Actor, root: string, log: string): Promise<ReadonlyArray<Call>> => {
  await actor.tell(`prepare ${root}`)
  const roles = new Map(threads(actor.pid).map(({ role, tid }) => [tid, role]))
  const trace = ["-f", "-y", "-s", "256", "-o", log, "-e", `trace=${traced.join()}`, "-p", String(actor.pid)]
  await under(trace, () => actor.tell("act"))
  const counts = new Map<string, number>()
  const calls: Array<Call> = []
  for (const line of NFS.readFileSync(log, "utf8").split("\n")) {
    const [, tid = "", name = "", rest = ""] = lineGrammar.exec(line) ?? []
    const role = roles.get(tid)
    if (role === undefined || role === "other" || name === "") continue
    const key = `${role} ${name}`
    const nth = (counts.get(key) ?? 0) + 1
    counts.set(key, nth)
    if (isOn(root, rest)) {
      calls.push({ thread: role, name, nth, text: `${name}(${rest}`.slice(0, 160) })
    }
  }
  return calls
}

/**
 * Acts a scenario, and has a call of it be the last, or fail. The event loop makes calls of its own, and not always as
 * many: `hit` says whether it was a call on the store that was met.
 */
export const stepIn = async (
  actor: Actor,
  root: string,
  { name, nth, thread }: Call,
  how: string
): Promise<{ readonly answer: Answer; readonly made: ReadonlyArray<Made>; readonly hit: boolean }> => {
  const prepared = await actor.tell(`prepare ${root}`)
  const made = prepared.said === "prepared" ? prepared.made : []
  const tid = threads(actor.pid).find(({ role }) => role === thread)?.tid ?? String(actor.pid)
  const log = `${root}.log`
  const args = ["-y", "-o", log, "-e", `trace=${name}`, "-e", `inject=${name}:${how}:when=${nth}`, "-p", tid]
  const answer = await under(args, () => actor.tell("act"))
  const struck = NFS.readFileSync(log, "utf8").split("\n").filter((line) => lineOf(line).startsWith(name))[nth - 1]
  NFS.rmSync(log)
  return { answer, made, hit: struck !== undefined && isOn(root, struck) }
}
