import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { Files, node } from "../../src/internal/Files.ts"
import { Locks, native } from "../../src/internal/Locks.ts"
import { Lease } from "../../src/Lease.ts"
import * as Recovery from "../../src/Recovery.ts"
import * as Retention from "../../src/Retention.ts"
import * as Run from "../../src/Run.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import * as RunId from "../../src/RunId.ts"
import * as RunRemoval from "../../src/RunRemoval.ts"
import * as RunStore from "../../src/RunStore.ts"
import { bundle } from "../support/Fabricate.ts"
import { inStore, type World } from "../support/Stores.ts"
import { hour } from "../support/Time.ts"
import { record } from "./Recorder.ts"
import { atDoors, type VerbName, verbs } from "./Steps.ts"

const telemetry = { events: false, spans: false, otlp: false }

const quiet = { retention: "off", telemetry } as const

const withHook = Effect.addFinalizer(() => Effect.void)

/** What a crash has left of an archive beside its bundle: of what is in it nobody takes notice. */
const leaveArchive = (root: string, id: RunId.RunId) => {
  const day = `${root}/archive/${RunId.day(id)}`
  NFS.mkdirSync(day, { recursive: true })
  NFS.writeFileSync(`${day}/${id}.tar.zst`, "left")
}

/** What has to be so before. */
const unrecorded = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.provideService(Files, node), Effect.provideService(Locks, native))

/** Each verb as people call it, with nobody else about. */
const walks: Readonly<Record<VerbName, (root: string) => Effect.Effect<unknown, unknown, World>>> = {
  start: () => withHook.pipe(Run.scoped({ name: "walk", ...quiet })),
  resume: (root) => withHook.pipe(Run.resume(bundle(root, { startedAt: Date.now() - hour }).id, quiet)),
  attach: (root) => withHook.pipe(Run.attach({ run: bundle(root, { startedAt: Date.now() - hour }).id, telemetry })),
  remove: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour })
    leaveArchive(root, id)
    return RunRemoval.remove(id)
  },
  recover: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour, status: "running" })
    return Effect.flatMap(RunStore.RunStore, (store) => Effect.flatMap(store.get(id), Recovery.recoverEntry))
  },
  archive: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour, status: "running" })
    leaveArchive(root, id)
    return RunArchive.archive(id)
  },
  restore: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour })
    return Effect.andThen(unrecorded(RunArchive.archive(id)), RunArchive.restore(id))
  },
  revive: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour })
    return Effect.andThen(unrecorded(RunArchive.archive(id)), withHook.pipe(Run.resume(id, quiet)))
  },
  expire: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour })
    const policy = { maxBundles: 1000, archiveMaxAge: "1 milli" } as const
    return Effect.andThen(unrecorded(RunArchive.archive(id)), Retention.run({ policy }))
  },
  pin: (root) => {
    const { id } = bundle(root, { startedAt: Date.now() - hour })
    return Effect.flatMap(RunStore.RunStore, (store) => store.pin(id, "walk"))
  },
  probe: (root) => {
    const made = bundle(root, { startedAt: Date.now() - hour })
    return Effect.flatMap(Lease, (lease) => lease.probe(made))
  }
}

describe("what is done at the doors is what the model walks", () => {
  it.live("remove, by a pass", () =>
    inStore((root) =>
      Effect.gen(function*() {
        bundle(root, { startedAt: Date.now() - hour })
        const withoutLeftover = atDoors(verbs.remove).filter((step) => !step.endsWith("archive"))
        assert.deepStrictEqual(yield* record(Retention.run({ policy: { all: true } })), withoutLeftover)
      })
    ))

  it.live.each(Object.entries(walks) as ReadonlyArray<[VerbName, (typeof walks)[VerbName]]>)(
    "%s",
    ([verb, walk]) =>
      inStore((root) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* record(walk(root)), atDoors(verbs[verb]))
        })
      )
  )
})
