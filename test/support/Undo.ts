/** Runs that have registered what is to be undone, and what became of that. */
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import type { RunRecord } from "../../src/RunRecord.ts"
import * as RunRemoval from "../../src/RunRemoval.ts"
import { bundle, type Made } from "./Fabricate.ts"
import { day } from "./Time.ts"

export const at = "2026-11-01T00:00:00.000Z"

/** As a run would have registered them. Each is named by its place. */
export const made = (root: string, undos: ReadonlyArray<object>, more: object = {}, ago = day): Made =>
  bundle(root, {
    startedAt: Date.now() - ago,
    size: 100,
    onRemove: undos.map((undo, index) => ({ id: "abcdef".charAt(index), at, undo, ...more }))
  })

export const shell = (script: string, cwd = "/") => ({ type: "command", argv: ["/bin/sh", "-c", script], cwd })

export const recordOf = ({ dir }: Made): RunRecord => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

export const registeredIn = (one: Made) =>
  recordOf(one).onRemove!.map(({ doneAt, failure, id }) =>
    `${id} ${doneAt !== undefined ? "done" : failure === undefined ? "untried" : `failed ${failure.count}`}`
  )

export const messageIn = (one: Made) =>
  recordOf(one).onRemove!.find(({ failure }) => failure !== undefined)!.failure!.message

export const lines = (path: string) => NFS.existsSync(path) ? NFS.readFileSync(path, "utf8").trim().split("\n") : []

/** Why a run was not removed. */
export const refusal = ({ id }: Made) =>
  Effect.map(Effect.flip(RunRemoval.remove(id)), ({ message, reason }) => `${reason._tag}: ${message}`)
