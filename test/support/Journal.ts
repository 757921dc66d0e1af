/** A history that several processes write together, line by line, by one clock. */
import * as NFS from "node:fs"

export interface Line {
  /** Nanoseconds by the clock that all processes of a machine share. */
  readonly at: bigint
  readonly process: number
  readonly nth: number
  /**
   * `begin` and `end` of a verb; `in` and `out` of the work that somebody does under a lease; `acts` before and `acted`
   * after something is moved out of a bundle, or a bundle away; `made`; `wrong`, where the work found something amiss;
   * `killed` and `stopped` just before a process is.
   */
  readonly event: "begin" | "end" | "in" | "out" | "acts" | "acted" | "made" | "wrong" | "killed" | "stopped"
  readonly verb: string
  readonly id: string
  readonly detail: string
}

export type Write = (event: Line["event"], verb: string, id: string, detail?: string) => void

/** For a process, by a descriptor that appends. */
export const writer = (fd: number, process: number, nth: () => number): Write => (event, verb, id, detail = "") => {
  const fields = [globalThis.process.hrtime.bigint(), process, nth(), event, verb, id, JSON.stringify(detail)]
  // Appending is one step as far as others are concerned.
  NFS.writeSync(fd, `${fields.join(" ")}\n`)
}

export const open = (path: string, process: number, nth: () => number): Write =>
  writer(NFS.openSync(path, "a"), process, nth)

export const parse = (text: string): Line => {
  const [at = "", process, nth, event, verb = "", id = "", ...detail] = text.split(" ")
  return {
    at: BigInt(at),
    process: Number(process),
    nth: Number(nth),
    event: event as Line["event"],
    verb,
    id,
    detail: JSON.parse(detail.join(" "))
  }
}

/** What has been written since the last call, as far as it is whole, in the order in which it was written. */
export const follow = (path: string): () => ReadonlyArray<Line> => {
  const fd = NFS.openSync(path, "r")
  const piece = Buffer.alloc(1 << 16)
  let rest = ""
  return () => {
    for (let length = 1; length > 0;) {
      length = NFS.readSync(fd, piece)
      rest += piece.toString("latin1", 0, length)
    }
    const lines = rest.split("\n")
    rest = lines.pop() ?? ""
    return lines.map((line) => parse(Buffer.from(line, "latin1").toString()))
  }
}

export const read = (path: string): ReadonlyArray<Line> =>
  NFS.readFileSync(path, "utf8").trim().split("\n").map(parse).sort((left, right) => left.at < right.at ? -1 : 1)
