/** A run that is archived or restored by somebody else, in the moment in which somebody comes for it. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { remove } from "../src/cli/Removing.ts"
import * as Run from "../src/Run.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunStore from "../src/RunStore.ts"
import * as RunTrim from "../src/RunTrim.ts"
import { type Before, once, watch } from "./support/Doors.ts"
import { bundle, type Made } from "./support/Fabricate.ts"
import { inStore, present, type World } from "./support/Stores.ts"
import { day } from "./support/Time.ts"

const archiveOf = (root: string, { id }: Made) =>
  `${root}/archive/${new Date(Date.now() - day).toISOString().slice(0, 10)}/${id}.tar.zst`

const make = (root: string) => {
  const made = bundle(root, { startedAt: Date.now() - day, size: 100 })
  NFS.mkdirSync(`${made.dir}/temp`)
  NFS.writeFileSync(`${made.dir}/temp/file`, "x")
  return made
}

const telemetry = { events: false, spans: false, otlp: false }

interface Refusal {
  readonly _tag: string
  readonly reason?: { readonly _tag: string }
}

type Verb = (id: RunId) => Effect.Effect<unknown, Refusal, World>

const verbs: ReadonlyArray<readonly [name: string, verb: Verb]> = [
  ["resume", (id) => Run.resume(id, { retention: "off", telemetry })(Effect.void)],
  ["attach", (id) => Run.attach({ run: id, telemetry })(Effect.void)],
  ["fork", (id) => Run.scoped({ name: "fork", from: id, retention: "off", telemetry })(Effect.void)],
  ["trim", (id) => RunTrim.trim(id)],
  ["archive", RunArchive.archive],
  ["rm", remove],
  ["pin", (id) => Effect.flatMap(RunStore.RunStore, (store) => store.pin(id, "kept"))]
]

const inWorld = <R>(step: Effect.Effect<unknown, unknown, R>) =>
  Effect.map(Effect.context<R>(), (context) => Effect.asVoid(Effect.orDie(Effect.provideContext(step, context))))

const answerOf = (verb: ReturnType<Verb>) =>
  Effect.match(verb, { onFailure: ({ _tag, reason }) => `${_tag}.${reason?._tag}`, onSuccess: () => "ok" })

/** The call that each of them opens the bundle with when it has been found: who pins needs no lease. */
const opening = (name: string, { dir }: Made) => (call: string, [path]: ReadonlyArray<string>) =>
  call === "open" && path === `${dir}/${name === "pin" ? "run.json" : "lease"}`

describe("who comes for a run that", () => {
  it.live.each(verbs)(
    "has been archived since it was found (%s) is told so, or has it from there",
    ([name, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          const step = yield* inWorld(RunArchive.archive(made.id))
          const answer = yield* answerOf(watch(once(opening(name, made), step))(verb(made.id)))
          const isServed = name === "resume" || name === "rm"
          assert.strictEqual(answer, isServed ? "ok" : "StoreError.Archived")
          assert.strictEqual(NFS.existsSync(archiveOf(root, made)), !isServed)
          assert.deepStrictEqual(present(root), name === "resume" ? [made.id] : [])
        })
      )
  )

  it.live.each(verbs)(
    "has been archived and restored since it was found (%s) never learns of it",
    ([name, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          const step = yield* inWorld(Effect.andThen(RunArchive.archive(made.id), RunArchive.restore(made.id)))
          assert.strictEqual(yield* answerOf(watch(once(opening(name, made), step))(verb(made.id))), "ok")
        })
      )
  )

  it.live.each(verbs)(
    "comes back after the first look for it (%s) finds it",
    ([, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          yield* RunArchive.archive(made.id)
          const step = yield* inWorld(RunArchive.restore(made.id))
          const isLookInArchive = (call: string, [path]: ReadonlyArray<string>) =>
            call === "lstat" && path === `${root}/archive`
          assert.strictEqual(yield* answerOf(watch(once(isLookInArchive, step))(verb(made.id))), "ok")
        })
      )
  )

  it.live.each(["resume", "rm"] as const)(
    "is restored before its archive could be opened (%s) has it",
    (name) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          yield* RunArchive.archive(made.id)
          const step = yield* inWorld(RunArchive.restore(made.id))
          const isOpeningArchive = (call: string, [path]: ReadonlyArray<string>) =>
            call === "open" && path === archiveOf(root, made)
          const verb = new Map(verbs).get(name)!
          assert.strictEqual(yield* answerOf(watch(once(isOpeningArchive, step))(verb(made.id))), "ok")
          assert.isFalse(NFS.existsSync(archiveOf(root, made)))
          assert.deepStrictEqual(present(root), name === "resume" ? [made.id] : [])
        })
      )
  )

  it.live.each(verbs)(
    "is archived and restored under its open lease (%s) never shows that",
    ([name, verb]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          const step = yield* inWorld(Effect.andThen(RunArchive.archive(made.id), RunArchive.restore(made.id)))
          const file = name === "pin" ? "run.json" : "lease"
          const isLocking = (call: string, [path]: ReadonlyArray<string>) =>
            call.startsWith("try") && path === `${made.dir}/${file}`
          assert.strictEqual(yield* answerOf(watch(once(isLocking, step))(verb(made.id))), "ok")
        })
      )
  )

  it.live.each(["trim", "archive", "resume", "rm"] as const)(
    "is archived, and gone on with by somebody else, before its lease is opened (%s) is held",
    (name) =>
      inStore((root) =>
        Effect.gen(function*() {
          const made = make(root)
          const away = yield* inWorld(RunArchive.archive(made.id))
          const back = yield* inWorld(RunArchive.resume(made.id))
          const leaving = once((call, [path]) => call === "open" && path === `${made.dir}/lease`, away)
          const coming = once((call, [path]) => call === "lstat" && path === `${made.dir}/holders`, back)
          const both: Before = (call, paths) => Effect.andThen(leaving(call, paths), coming(call, paths))
          assert.strictEqual(yield* answerOf(watch(both)(new Map(verbs).get(name)!(made.id))), "LeaseError.Held")
        })
      )
  )

  it.live("is archived before its archive was looked for is restored", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = make(root)
        const step = yield* inWorld(RunArchive.archive(made.id))
        const isLookInStore = (call: string, [path]: ReadonlyArray<string>) => call === "lstat" && path === made.dir
        assert.strictEqual(yield* answerOf(watch(once(isLookInStore, step))(RunArchive.restore(made.id))), "ok")
        assert.deepStrictEqual(present(root), [made.id])
      })
    ))

  it.live("is named by the beginning of its id, and comes back between two looks, finds it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = make(root)
        const store = yield* RunStore.RunStore
        yield* RunArchive.archive(made.id)
        const step = yield* inWorld(RunArchive.restore(made.id))
        const isLookInArchive = (call: string, [path]: ReadonlyArray<string>) =>
          call === "lstat" && path === `${root}/archive`
        const { id } = yield* watch(once(isLookInArchive, step))(store.find(made.id.slice(0, 20)))
        assert.strictEqual(id, made.id)
      })
    ))
})
