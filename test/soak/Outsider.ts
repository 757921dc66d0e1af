/**
 * Somebody who knows nothing of leases, and does what anybody may do in a store: to what is a cache, or rubbish, or is
 * on its way out, or his own.
 */
import * as NFS from "node:fs"
import { attempt } from "../fixtures/trees.ts"

const namesIn = (path: string): ReadonlyArray<string> => {
  try {
    return NFS.readdirSync(path)
  } catch {
    return []
  }
}

export class Outsider {
  readonly #root: string
  readonly #random: () => number
  acts = 0

  constructor(root: string, random: () => number) {
    this.#root = root
    this.#random = random
  }

  #below(limit: number) {
    return Math.floor(this.#random() * limit)
  }

  #one(all: ReadonlyArray<string>): string {
    return all[this.#below(all.length)] ?? "nothing"
  }

  #days() {
    return namesIn(`${this.#root}/runs`).map((day) => `${this.#root}/runs/${day}`)
  }

  #touch(path: string) {
    const now = new Date()
    NFS.utimesSync(path, now, now)
  }

  /** One thing or another, which may have gone by then. */
  act(): void {
    const root = this.#root
    const day = this.#one(this.#days())
    const bundle = `${day}/${this.#one(namesIn(day))}`
    const acts: ReadonlyArray<() => void> = [
      () => NFS.writeFileSync(`${bundle}/temp/held-by-an-outsider`, "x"),
      () => NFS.unlinkSync(`${bundle}/temp/held-by-an-outsider`),
      () => this.#touch(`${bundle}/${this.#one(["run.json", "lease", "holders", "temp", "."])}`),
      () => this.#touch(day),
      () => NFS.mkdirSync(`${root}/runs/2001-01-0${1 + this.#below(9)}`),
      () => NFS.rmdirSync(`${root}/runs/2001-01-0${1 + this.#below(9)}`),
      () => NFS.rmdirSync(day),
      () => NFS.writeFileSync(`${day}/stray-${this.#below(3)}`, "x"),
      () => NFS.unlinkSync(`${day}/stray-${this.#below(3)}`),
      () => NFS.rmSync(`${root}/trash/${this.#one(namesIn(`${root}/trash`))}`, { recursive: true }),
      () => NFS.unlinkSync(`${root}/index.db`),
      () => NFS.writeFileSync(`${root}/index.db`, "x".repeat(this.#below(5000))),
      () =>
        this.#touch(`${root}/${this.#one(["index.db", "retention.lock", "store.json", "runs", "trash", "staging"])}`)
    ]
    if (attempt(acts[this.#below(acts.length)]!)) this.acts++
  }

  /** Takes away what is his own. */
  leave(): void {
    for (const day of this.#days()) {
      for (const name of namesIn(day)) if (name.startsWith("stray-")) NFS.unlinkSync(`${day}/${name}`)
    }
  }
}
