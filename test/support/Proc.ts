/** What Linux tells of processes and of their locks, in `/proc`. */
import * as NFS from "node:fs"

const read = (path: string): string | undefined => {
  try {
    return NFS.readFileSync(path, "utf8")
  } catch {
    return undefined
  }
}

const hasProc = process.platform === "linux"

/** The fields behind the name of the program, which may have anything in it; the first is the state. */
const statOf = (pid: string | number): ReadonlyArray<string> | undefined => {
  const text = read(`/proc/${pid}/stat`)
  return text === undefined ? undefined : text.slice(text.lastIndexOf(")") + 2).split(" ")
}

/** A process by its pid and by when it was started: pids are used again. */
const nameOf = (pid: string | number) => `${pid} ${statOf(pid)?.[19]}`

export const selfOf = (): string => nameOf(process.pid)

const exiting = 0x4

/** Whether a process that was named so still runs: not one that has begun to end, whose locks may be gone already. */
export const isRunning = (name: string): boolean => {
  const [pid = ""] = name.split(" ")
  const stat = statOf(pid)
  return stat !== undefined && nameOf(pid) === name && !/[ZX]/.test(stat[0]!) && (Number(stat[6]) & exiting) === 0
}

/** Whether it is stopped by a signal, as far as can be told. */
export const isStopped = (pid: number): boolean => !hasProc || statOf(pid)?.[0] === "T"

/** What a process waits for, where Linux says so. */
export const whereabouts = (pid: number): string =>
  ["wchan", "syscall", "stack"].map((name) => `${name}: ${read(`/proc/${pid}/${name}`)?.trim()}`).join("\n")

/** The inodes of all files with locks, by how they are locked, as the kernel has them. */
export const locks = (): { readonly shared: ReadonlySet<bigint>; readonly exclusive: ReadonlySet<bigint> } => {
  const found = [...(read("/proc/locks") ?? "").matchAll(/ (READ|WRITE) +\S+ \w+:\w+:(\d+) /g)]
  const of = (mode: string) => new Set(found.filter(([, how]) => how === mode).map(([, , inode]) => BigInt(inode!)))
  return { shared: of("READ"), exclusive: of("WRITE") }
}

/** Whether there is a table of locks. */
export const hasLocks = hasProc && read("/proc/locks") !== undefined

/** All processes that have this word among their arguments. */
export const withArgument = (word: string): ReadonlyArray<number> =>
  NFS.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) =>
    read(`/proc/${pid}/cmdline`)?.split("\0").includes(word) === true ? [Number(pid)] : []
  )

/** The file that a descriptor of a process is of, as it is named now. */
export const fileOf = (pid: number, fd: number): string | undefined => {
  try {
    return NFS.readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return undefined
  }
}
