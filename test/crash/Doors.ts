/**
 * The same as with strace, where there is none: a scenario is stepped in at the doors of the program, which count their
 * calls. What is not seen so is what others do in between, such as SQLite and the pipes of children.
 */
import type { Made } from "../support/Fabricate.ts"
import type { Actor, Answer, Call } from "./Strace.ts"

/** The system calls that the calls at the doors come to. */
const systemCalls: Readonly<Record<string, string>> = {
  open: "openat",
  openAt: "openat",
  read: "read",
  write: "write",
  fsync: "fsync",
  fstat: "fstat",
  lstat: "statx",
  lstatAt: "statx",
  mkdir: "mkdir",
  mkdirAt: "mkdir",
  rename: "rename",
  renameAt: "rename",
  link: "link",
  linkAt: "link",
  symlinkAt: "symlink",
  unlink: "unlink",
  unlinkAt: "unlink",
  unlinkLaterAt: "unlink",
  rmdir: "rmdir",
  rmdirAt: "rmdir",
  readdir: "getdents64",
  listAt: "getdents64",
  fchmod: "fchmod",
  chmodAt: "chmod",
  futimes: "utimensat",
  utimesAt: "utimensat",
  lutimesAt: "utimensat",
  tryShared: "fcntl",
  tryExclusive: "fcntl",
  tryDowngrade: "fcntl"
}

/** The calls that a scenario makes at its doors, in order. */
export const learn = async (actor: Actor, root: string): Promise<ReadonlyArray<Call>> => {
  await actor.tell(`prepare ${root}`)
  const answer = await actor.tell("act")
  const calls = answer.said === "done" ? answer.calls ?? [] : []
  return calls.flatMap((text, index) => {
    const name = systemCalls[text.slice(0, text.indexOf(" "))]
    return name === undefined ? [] : [{ thread: "main", name, nth: index + 1, text }]
  })
}

/** Acts a scenario, and has a call of it be the last, or fail. */
export const stepIn = async (
  actor: Actor,
  root: string,
  { nth }: Call,
  how: string
): Promise<{ readonly answer: Answer; readonly made: ReadonlyArray<Made>; readonly hit: boolean }> => {
  const prepared = await actor.tell(`prepare ${root}`)
  const made = prepared.said === "prepared" ? prepared.made : []
  const answer = await actor.tell(`act ${nth} ${how}`)
  const count = "calls" in answer ? answer.calls?.length ?? 0 : 0
  return { answer, made, hit: answer.said === "killed" || count >= nth }
}
