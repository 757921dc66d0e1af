/**
 * Which kernel this is, and which of its processes are there: what a holder file must say for others to judge it.
 */
import * as Context from "effect/Context"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"

/** @internal */
export const unknown = "unknown"

/** @internal */
export interface KernelApi {
  /** One per boot of one kernel, `unknown` where the platform has none. Containers of one host share it. */
  readonly boot: string
  /** One per installed system, `unknown` where there is none. */
  readonly machine: string
  readonly host: string
  readonly pid: number
  readonly uid: number
  /** Whether a process is there. May only ever be used to keep something: pids are used again. */
  readonly isAlive: (pid: number) => boolean
}

const readFirst = (...paths: ReadonlyArray<string>): string => {
  for (const path of paths) {
    try {
      const text = NFS.readFileSync(path, "utf8").trim()
      if (text !== "") return text
    } catch {}
  }
  return unknown
}

const sysctl = (name: string): string => {
  try {
    return NodeChildProcess.execFileSync("/usr/sbin/sysctl", ["-n", name], { encoding: "utf8" }).trim() || unknown
  } catch {
    return unknown
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    // A process of another user is there too, though we may not signal it.
    return typeof cause === "object" && cause !== null && "code" in cause && cause.code === "EPERM"
  }
}

const make = (): KernelApi => ({
  boot: process.platform === "linux"
    ? readFirst("/proc/sys/kernel/random/boot_id")
    : process.platform === "darwin"
    ? sysctl("kern.bootsessionuuid")
    : unknown,
  machine: process.platform === "linux"
    ? readFirst("/etc/machine-id", "/var/lib/dbus/machine-id")
    : process.platform === "darwin"
    ? sysctl("kern.uuid")
    : unknown,
  host: NodeOs.hostname(),
  pid: process.pid,
  uid: process.geteuid?.() ?? 0,
  isAlive
})

/** @internal */
export const Kernel: Context.Reference<KernelApi> = Context.Reference<KernelApi>("leasehold/internal/Kernel", {
  defaultValue: make
})

/**
 * File systems that one kernel alone can have mounted, by the magic number of statfs. Everything not named here may be
 * shared between machines, and is treated so.
 *
 * @internal
 */
export const isLocalFileSystem = (type: number): boolean => local.has(type)

const local: ReadonlySet<number> = process.platform === "darwin"
  // The file system types of macOS are small numbers given out at run time; only APFS and HFS have kept theirs.
  ? new Set([0x11, 0x1a])
  : new Set([
    0xef53, // ext2, ext3, ext4
    0x58465342, // xfs
    0x9123683e, // btrfs
    0x01021994, // tmpfs
    0x858458f6, // ramfs
    0x794c7630, // overlayfs
    0xf2f52010, // f2fs
    0x2fc12fc1, // zfs
    0xca451a4e, // bcachefs
    0x3153464a, // jfs
    0x52654973 // reiserfs
  ])

/**
 * File systems on which the size of a directory grows with the names in it. Others say what they like, as zero, or speak
 * for one layer of several.
 *
 * @internal
 */
export const directorySizesTell = (type: number): boolean => telling.has(type)

const telling: ReadonlySet<number> = process.platform !== "linux" ? new Set() : new Set([
  0xef53, // ext2, ext3, ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0x01021994, // tmpfs
  0xf2f52010, // f2fs
  0x2fc12fc1 // zfs
])
