/**
 * Archiving and restoring that are killed: at the first of their calls to the disk, at the last, and between them at
 * random, in 6 places each, or in as many as `LEASEHOLD_POINTS` says:
 *
 *     LEASEHOLD_POINTS=50 npx vitest run test/processes/ArchiveCrashes.test.ts
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as Retention from "../../src/Retention.ts"
import * as RunArchive from "../../src/RunArchive.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as Verification from "../../src/Verification.ts"
import { isOpenProblem } from "../../src/VerificationFinding.ts"
import { fill } from "../support/Contents.ts"
import { bundle, type Made } from "../support/Fabricate.ts"
import { filed, inStore, isSwept, present, type World } from "../support/Stores.ts"
import { day } from "../support/Time.ts"
import { fixture } from "../support/Worker.ts"

const points = Number(process.env["LEASEHOLD_POINTS"] ?? 6)

type Verb = "archive" | "restore"

/** A bundle with some of everything, so that there are many different calls to be killed at. */
const stage = (root: string): Made => {
  const made = bundle(root, { startedAt: Date.now() - day })
  fill(made.dir, made.id)
  NFS.writeFileSync(`${made.dir}/artifacts/random`, NodeCrypto.randomBytes(900_000), { mode: 0o640 })
  NFS.linkSync(`${made.dir}/artifacts/random`, `${made.dir}/artifacts/second name`)
  NFS.symlinkSync("random", `${made.dir}/artifacts/link`)
  NFS.mkdirSync(`${made.dir}/artifacts/empty`, { mode: 0o500 })
  // Restored times are exact to a quarter of a microsecond.
  for (const path of ["artifacts", "artifacts/random", "artifacts/empty"]) NFS.utimesSync(`${made.dir}/${path}`, 1, 2)
  return made
}

/** All that an archive has to give back. */
const contents = ({ dir }: Made): ReadonlyArray<string> =>
  NFS.readdirSync(dir, { recursive: true }).map(String).sort().flatMap((path) => {
    if (/^(lease|holders)(\/|$)|^run\.json\./.test(path)) return []
    const info = NFS.lstatSync(`${dir}/${path}`)
    const content = info.isFile()
      ? NodeCrypto.hash("sha256", NFS.readFileSync(`${dir}/${path}`))
      : info.isSymbolicLink()
      ? NFS.readlinkSync(`${dir}/${path}`)
      : "directory"
    return [`${path} ${info.mode.toString(8)} ${info.nlink} ${Math.floor(info.mtimeMs)} ${content}`]
  })

const perform = Effect.fnUntraced(function*(root: string, verb: Verb, { id }: Made, at = 0) {
  const worker = yield* fixture("archiving.ts", [root, verb, id, String(at)])
  return yield* worker.exit
}, Effect.scoped)

/** Where the run is, as listings say. */
const places = Effect.gen(function*() {
  const store = yield* RunStore.RunStore
  const inStore = yield* Stream.runCollect(store.list)
  const inArchive = yield* Stream.runCollect(RunArchive.list)
  return [...inStore.map(() => "store"), ...inArchive.map(() => "archive")]
})

const problems = Effect.map(Stream.runCollect(Verification.check()), (all) => all.filter(isOpenProblem))

const prepare: Readonly<Record<Verb, (made: Made) => Effect.Effect<void, unknown, World>>> = {
  archive: () => Effect.void,
  restore: ({ id }) => Effect.asVoid(RunArchive.archive(id))
}

/** What somebody is told who comes after one who had done it, but for the last step. */
const done: Readonly<Record<Verb, ReadonlyArray<string>>> = {
  archive: ["ok", "StoreError.Archived"],
  restore: ["ok", "ArchiveError.Present"]
}

const pass = Effect.andThen(
  Retention.run({ policy: { maxBundles: 100 }, budget: { maxTime: "1 minute" } }),
  Effect.sync(() => {})
)

const killAt = (verb: Verb, at: number, passFirst: boolean) =>
  inStore((root) =>
    Effect.gen(function*() {
      const made = stage(root)
      const before = contents(made)
      yield* prepare[verb](made)
      const killed = yield* perform(root, verb, made, at)
      const where = `killed at call ${at} of ${verb}: ${killed.stdout}${killed.stderr}`
      assert.strictEqual(killed.signal, "SIGKILL", where)

      const [place, ...others] = yield* places
      assert.deepStrictEqual([place !== undefined, others], [true, []], where)
      assert.deepStrictEqual([present(root).length, place], [place === "store" ? 1 : 0, place], where)
      if (place === "store") assert.deepStrictEqual(contents(made), before, where)
      assert.deepStrictEqual(yield* problems, [], where)

      if (passFirst) yield* pass
      const again = yield* perform(root, verb, made)
      const answer = /^answer (.*)$/m.exec(again.stdout)?.[1] ?? again.stderr
      assert.include(done[verb], answer, where)
      assert.deepStrictEqual(yield* places, [verb === "archive" ? "archive" : "store"], where)
      yield* pass
      isSwept(root)
      assert.deepStrictEqual(yield* problems, [], where)

      // The other way, and there and back once more.
      if (verb === "archive") yield* RunArchive.restore(made.id)
      assert.deepStrictEqual(contents(made), before, where)
      yield* RunArchive.archive(made.id)
      assert.deepStrictEqual([yield* places, present(root)], [["archive"], []], where)
      yield* RunArchive.restore(made.id)
      assert.deepStrictEqual([contents(made), filed(root, ".tar.zst")], [before, []], where)
      return place
    })
  )

const countCalls = (verb: Verb) =>
  inStore((root) =>
    Effect.gen(function*() {
      const made = stage(root)
      yield* prepare[verb](made)
      const { stdout } = yield* perform(root, verb, made)
      assert.include(stdout, "answer ok")
      return Number(/^calls (\d+)$/m.exec(stdout)![1])
    })
  )

describe(`at ${points} points, the first and the last among them`, () => {
  it.live.each(["archive", "restore"] as const)(
    "%s that is killed leaves the run whole, in one place, and can be done again",
    (verb) =>
      Effect.gen(function*() {
        const calls = yield* countCalls(verb)
        assert.isAbove(calls, 100)
        const seen = new Map<string, number>()
        for (let point = 0; point < points; point++) {
          const inside = 1 + Math.floor(((point + (yield* Random.next)) / points) * calls)
          // Every third of them where the run changes places, which is near the end.
          const at = point === 0
            ? 1
            : point === points - 1
            ? calls
            : point % 3 === 2
            ? calls - (yield* Random.nextIntBetween(0, 24))
            : inside
          const place = yield* killAt(verb, at, point % 2 === 0)
          seen.set(place!, (seen.get(place!) ?? 0) + 1)
        }
        console.log(`${verb}: ${calls} calls, killed at ${points}: ${JSON.stringify([...seen])}`)
        assert.strictEqual(seen.size, 2)
      }),
    60_000 + points * 20_000
  )
})
