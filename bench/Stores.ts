/**
 * Stores of very many bundles, for benches. Making a million takes minutes, so with `LEASEHOLD_BENCH_STORES` stores are
 * kept in that directory, with the index that passes have made of them, and the next bench takes them as they are.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import { untilPaid } from "../src/RetentionRounds.ts"
import * as RunId from "../src/RunId.ts"
import * as RunStore from "../src/RunStore.ts"
import * as SqliteIndex from "../src/SqliteIndex.ts"
import { at, day, hour } from "../test/support/Time.ts"

/** Nothing of what is in such a store is to go. */
export const wide = { maxBundles: 10_000_000, maxAge: "36000 days", keepLast: 10 } as const

/** Everything at once. */
export const large = {
  maxLooked: 2_000_000,
  maxRemoved: 1_000_000,
  maxUnlinked: 10_000_000,
  maxTime: "3 hours"
} as const

export const bytesEach = 1000

export const layerOf = (root: string) =>
  SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer({ root, allowTemp: true })))

/** As few names as a finished bundle can have, with its size in its record. */
const lean = (dir: string, id: string, startedAt: string, isTorn: boolean): void => {
  NFS.mkdirSync(dir, { mode: 0o700 })
  NFS.closeSync(NFS.openSync(`${dir}/lease`, "wx", 0o600))
  const record = {
    version: 1,
    id,
    name: "made",
    status: "ok",
    startedAt,
    endedAt: startedAt,
    releasedAt: startedAt,
    attempts: [{ startedAt, status: "ok" }],
    tags: {},
    bytes: { value: bytesEach, at: startedAt }
  }
  const text = JSON.stringify(record)
  NFS.writeFileSync(`${dir}/run.json`, isTorn ? text.slice(0, 100) : text, { mode: 0o600 })
}

interface Kind {
  /** How many records in a hundred are torn. */
  readonly torn?: number
}

/** Three hundred a day, or as many as make five years, back from the day before yesterday: nobody writes there. */
const fill = (root: string, size: number, { torn = 0 }: Kind): void => {
  const perDay = Math.max(300, Math.ceil(size / 1800))
  const today = Math.floor(Date.now() / day) * day
  const then = new Date(Date.now() - hour)
  for (let made = 0, ago = 2; made < size; ago++) {
    const ids = Array.from({ length: Math.min(perDay, size - made) }, (_, index) => {
      const serial = made + index
      const digits = Array.from({ length: 8 }, (_, place) => Math.floor(serial / 36 ** (7 - place)) % 36)
      return RunId.fromParts(at(today - ago * day + index * (day / (perDay + 1))), digits)
    })
    const path = `${root}/runs/${RunId.day(ids[0]!)}`
    NFS.mkdirSync(path, { recursive: true })
    for (const [index, id] of ids.entries()) {
      lean(`${path}/${id}`, id, new Date(RunId.startedAt(id).epochMilliseconds).toISOString(), index % 100 < torn)
    }
    NFS.utimesSync(path, then, then)
    made += ids.length
  }
}

const kept = process.env["LEASEHOLD_BENCH_STORES"]

/** Everything that a bench makes lies here, and goes with it, unless it is to be kept. */
export const base = kept ?? NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-bench-`)

export const clear = (): void => {
  if (kept === undefined) NFS.rmSync(base, { recursive: true, force: true })
}

/** A store of so many bundles, all of which its index knows. */
export const make = Effect.fnUntraced(function*(size: number, kind: Kind = {}) {
  const name = `${size}${kind.torn === undefined ? "" : `-${kind.torn}-torn`}`
  const root = `${base}/${name}`
  // Only a store that was made to its end has the name that says so.
  if (NFS.existsSync(root)) return root
  const draft = `${root}.draft`
  NFS.rmSync(draft, { recursive: true, force: true })
  const began = performance.now()
  yield* Effect.provide(Effect.void, RunStore.layer({ root: draft, allowTemp: true }))
  fill(draft, size, kind)
  const filled = performance.now()
  yield* Effect.provide(untilPaid({ policy: wide, budget: large }), layerOf(draft))
  NFS.renameSync(draft, root)
  const [filling, indexing] = [filled - began, performance.now() - filled].map((millis) => (millis / 1000).toFixed(1))
  console.log(`a store of ${name}: made in ${filling} s, first passes in ${indexing} s`)
  return root
})
