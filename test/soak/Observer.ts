/**
 * Holds what those who work in runs say of themselves against the kernel's table of locks and against where the bundles
 * are: whoever is at work has the lease of a bundle that is in its place.
 */
import * as NFS from "node:fs"
import * as RunId from "../../src/RunId.ts"
import type { Line } from "../support/Journal.ts"
import { fileOf, hasLocks, locks, withArgument } from "../support/Proc.ts"
import { childName } from "../support/Verbs.ts"

const inodeOf = (path: string) => {
  try {
    return NFS.lstatSync(path, { bigint: true }).ino
  } catch {
    return undefined
  }
}

export class Observer {
  readonly #root: string
  readonly #onWrong: (what: string) => void
  /** Who is at work, by process: in which run, and as what. */
  readonly #holds = new Map<number, Line>()
  /** Leases that were found as they should be, in the table and in the hands of children. */
  seen = 0
  ofChildren = 0

  constructor(root: string, onWrong: (what: string) => void) {
    this.#root = root
    this.#onWrong = onWrong
  }

  take(lines: ReadonlyArray<Line>): void {
    for (const line of lines) {
      if (line.event === "in") this.#holds.set(line.process, line)
      if (line.event === "out" || line.event === "killed") this.#holds.delete(line.process)
    }
  }

  /** `follow` reads what was written meanwhile: only who was at work before and after has been so all the time. */
  look(follow: () => void): void {
    if (!hasLocks) return
    const held = [...this.#holds].map(([process, line]) => {
      const path = `${this.#root}/runs/${RunId.day(line.id as RunId.RunId)}/${line.id}/lease`
      return { process, line, path, inode: inodeOf(path) }
    })
    const { shared } = locks()
    follow()
    for (const { inode, line, path, process } of held) {
      if (this.#holds.get(process) !== line) continue
      const who = `${path}, in which process ${process} works as ${line.verb},`
      if (inode === undefined) this.#onWrong(`${who} is not in its place`)
      else if (!shared.has(inode)) this.#onWrong(`${who} is not locked`)
      else this.seen++
    }
  }

  /** Children have nothing to say: the descriptor that they were handed tells where their bundle is. */
  lookAtChildren(): void {
    if (!hasLocks) return
    for (const pid of withArgument(childName)) {
      const path = fileOf(pid, 3)
      if (path?.startsWith(`${this.#root}/`) !== true) continue
      if (!path.startsWith(`${this.#root}/runs/`) || !path.endsWith("/lease")) {
        this.#onWrong(`the child ${pid} works in ${path}`)
      } else this.ofChildren++
    }
  }

  /** Whether a child of anybody still works in the store. */
  get hasChildren(): boolean {
    return hasLocks && withArgument(childName).some((pid) => fileOf(pid, 3)?.startsWith(`${this.#root}/`) === true)
  }
}
