/** Bundles as runs leave them, made without running anything: for stores of many. */
import * as NFS from "node:fs"
import * as RunId from "../../src/RunId.ts"
import type { RunRecord } from "../../src/RunRecord.ts"
import { at } from "./Time.ts"

export interface Made {
  readonly id: RunId.RunId
  readonly dir: string
}

export interface Spec {
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly endedAt?: number
  readonly status?: RunRecord["status"]
  readonly name?: string
  readonly tags?: RunRecord["tags"]
  readonly pin?: string
  /** As a record has it, of this program or of another. */
  readonly onRemove?: ReadonlyArray<object>
  /** Bytes in one artifact. */
  readonly size?: number
}

let made = 0

/** One bundle. Its lease is free. */
export const bundle = (root: string, spec: Spec): Made => {
  const serial = ++made
  const digits = Array.from({ length: 8 }, (_, index) => Math.floor(serial / 36 ** (7 - index)) % 36)
  const id = RunId.fromParts(at(spec.startedAt), digits)
  const dir = `${root}/runs/${RunId.day(id)}/${id}`
  NFS.mkdirSync(`${dir}/holders`, { recursive: true, mode: 0o700 })
  NFS.mkdirSync(`${dir}/artifacts`)
  NFS.writeFileSync(`${dir}/lease`, "", { mode: 0o600 })
  if (spec.size !== undefined) NFS.writeFileSync(`${dir}/artifacts/data`, Buffer.alloc(spec.size, 1))
  const status = spec.status ?? "ok"
  const startedAt = new Date(spec.startedAt).toISOString()
  const endedAt = new Date(spec.endedAt ?? spec.startedAt + 1000).toISOString()
  const record = {
    version: 1,
    id,
    name: spec.name ?? "made",
    status,
    startedAt,
    ...(status === "running" ? {} : { endedAt, releasedAt: endedAt }),
    attempts: [{ startedAt, status }],
    tags: spec.tags ?? {},
    ...(spec.onRemove === undefined ? {} : { onRemove: spec.onRemove }),
    ...(spec.pin === undefined ? {} : { pin: { reason: spec.pin, at: endedAt } })
  }
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify(record), { mode: 0o600 })
  return { id, dir }
}

/** So many finished bundles, a minute apart, the last of them a minute before `until`; oldest first. */
export const series = (root: string, count: number, until: number, spec: Partial<Spec> = {}): ReadonlyArray<Made> =>
  Array.from({ length: count }, (_, index) => bundle(root, { ...spec, startedAt: until - (count - index) * 60_000 }))
