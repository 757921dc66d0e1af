/** A store without runs, and archives of one that it never had. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { Lease } from "../../src/Lease.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import type { RunId } from "../../src/RunId.ts"
import { RunStore } from "../../src/RunStore.ts"
import * as Archives from "./Archives.ts"
import { bundles, names } from "./CommandLine.ts"
import { everything } from "./Snapshot.ts"
import { inStore } from "./Stores.ts"
import { filled, type Store } from "./Trims.ts"

type Entry = Archives.Entry

const at = new Date(1_700_000_000_000)

export interface Place {
  readonly each: Store
  readonly id: RunId
  /** What a run of this id would have for its record. */
  readonly record: string
  /** A directory beside the store that has to stay as it is. */
  readonly outside: string
}

export const inPlace = <A, E>(test: (place: Place) => Effect.Effect<A, E, RunStore | Lease>) =>
  inStore(() =>
    Effect.gen(function*() {
      const each = yield* RunStore
      const { dir, id } = filled(each, 0)
      const record = NFS.readFileSync(`${dir}/run.json`, "utf8")
      NFS.rmSync(`${each.root}/runs`, { recursive: true })
      const outside = `${each.root}-outside`
      NFS.mkdirSync(outside)
      NFS.writeFileSync(`${outside}/canary`, "sings")
      const before = everything(outside)
      yield* test({ each, id, record, outside })
      assert.deepStrictEqual(everything(outside), before)
      NFS.rmSync(outside, { recursive: true })
    })
  )

export const directory = (name: string): Entry => ({ name, type: "directory", mode: 0o755, mtime: at })
export const file = (name: string, content: string | Buffer = "x"): Entry => ({
  name,
  type: "file",
  mode: 0o644,
  mtime: at,
  content
})
export const symlink = (name: string, linkname: string): Entry => ({
  name,
  type: "symlink",
  mode: 0o777,
  mtime: at,
  linkname
})
export const link = (name: string, linkname: string): Entry => ({
  name,
  type: "link",
  mode: 0o644,
  mtime: at,
  linkname
})

/** What every archive begins with, and a little more. */
export const base = ({ id, record }: Place): ReadonlyArray<Entry> => [
  directory(`${id}/`),
  file(`${id}/run.json`, record),
  directory(`${id}/a/`),
  file(`${id}/a/f`)
]

export const pack = (entries: ReadonlyArray<Entry>) =>
  Effect.map(Effect.promise(() => Archives.tarOf(entries)), Archives.compress)

/** It is refused, and nothing has become of it. */
export const isRefused = Effect.fnUntraced(
  function*({ each, id }: Place, bytes: Buffer, expected: RegExp, options?: { readonly linksOut: boolean }) {
    const path = Archives.put(each.root, id, bytes)
    assert.match(yield* Archives.refusal(RunArchive.restore(id, options)), expected)
    assert.isTrue(bytes.equals(NFS.readFileSync(path)))
    assert.deepStrictEqual([bundles(each.root), names(`${each.root}/staging`)], [[], []])
    for (const left of names(`${each.root}/trash`)) NFS.rmSync(`${each.root}/trash/${left}`, { recursive: true })
  }
)
