/** What tests of the command line have in common: a root that goes with the test, and what is in it by the files. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import type { RunRecord } from "../../src/RunRecord.ts"
import * as RunStore from "../../src/RunStore.ts"
import { directory, run, type WorkerOptions } from "./Worker.ts"

/** Gives a test a root that is not there yet, in a directory that goes with it. */
export const withRoot = <A, E>(
  test: (root: string) => Effect.Effect<A, E, Scope.Scope>
): Effect.Effect<A, E> => Effect.scoped(Effect.flatMap(directory, (dir) => test(`${dir}/store`)))

/** What is in a directory of the store that may not have been made, or may have gone at this moment. */
export const names = (path: string): ReadonlyArray<string> => {
  try {
    return NFS.readdirSync(path)
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return []
    throw cause
  }
}

/** The directories of all bundles, oldest first, found without Leasehold. */
export const bundles = (root: string): ReadonlyArray<string> =>
  [...names(`${root}/runs`)].sort().flatMap((day) =>
    [...names(`${root}/runs/${day}`)].sort().map((id) => `${root}/runs/${day}/${id}`)
  )

export const recordAt = (bundle: string): RunRecord => JSON.parse(NFS.readFileSync(`${bundle}/run.json`, "utf8"))

export const records = (root: string): ReadonlyArray<RunRecord> => bundles(root).map(recordAt)

/** The record of the only run that there is. */
export const onlyRecord = (root: string): RunRecord => {
  const all = records(root)
  if (all[0] === undefined || all.length > 1) throw new Error(`${all.length} runs where there should be one`)
  return all[0]
}

/** What the only run kept of its output. */
export const kept = (root: string, name: string): Buffer => NFS.readFileSync(`${bundles(root)[0]}/logs/${name}`)

export const shell = (script: string): ReadonlyArray<string> => ["--", "sh", "-c", script]

/** The document that a command prints. */
export const json = (root: string, args: ReadonlyArray<string>, options?: WorkerOptions) =>
  Effect.map(run(root, [...args, "--json"], options), ({ stdout }) => JSON.parse(stdout))

const pad = (number: number, length: number) => String(number).padStart(length, "0")

/** A finished bundle as an earlier run would have left it: `ago` milliseconds ago, for a second. */
export const plant = (root: string, ago: number, change: Partial<RunRecord> = {}): string => {
  const startedAt = new Date(Date.now() - ago)
  const stamp = startedAt.toISOString()
  const id = `${stamp.replaceAll(/[-:.]/g, "")}-${pad(bundles(root).length, 8)}`
  const dir = `${root}/runs/${stamp.slice(0, 10)}/${id}`
  for (const part of ["logs", "telemetry", "temp", "artifacts", "holders"]) {
    NFS.mkdirSync(`${dir}/${part}`, { recursive: true, mode: 0o700 })
  }
  NFS.chmodSync(root, 0o700)
  NFS.writeFileSync(`${dir}/lease`, "", { mode: 0o600 })
  const endedAt = new Date(startedAt.getTime() + 1000).toISOString()
  const ended = { startedAt: stamp, endedAt, status: "ok" }
  const record = { version: 1, id, name: "old", tags: {}, attempts: [ended], exit: { code: 0 }, ...ended, ...change }
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify(record), { mode: 0o600 })
  return dir
}

/** A store without a run in it. */
export const makeStore = (root: string) => Effect.provide(Effect.void, RunStore.layer({ root, allowTemp: true }))
