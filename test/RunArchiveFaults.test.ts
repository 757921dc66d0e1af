import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import type { Lease } from "../src/Lease.ts"
import * as RunArchive from "../src/RunArchive.ts"
import * as RunStore from "../src/RunStore.ts"
import * as Archives from "./support/Archives.ts"
import { names } from "./support/CommandLine.ts"
import { type Fault, withFault } from "./support/Faults.ts"
import * as Stores from "./support/Stores.ts"
import { filled, type Store } from "./support/Trims.ts"

const writing = ["open", "openAt", "write", "fsync", "mkdir", "mkdirAt", "rename", "futimes", "symlinkAt", "linkAt"]

/** Ways in which a disk fails. */
const faults: ReadonlyArray<readonly [string, Omit<Fault, "nth">, boolean]> = [
  ["every single call", { code: "EIO" }, true],
  ["every call to write something", { code: "ENOSPC", calls: writing }, true],
  [
    "a write, and all after it as on a full disk",
    { code: "ENOSPC", calls: ["write", "fsync", "mkdir"], forGood: true },
    true
  ],
  ["a call, and all after it", { code: "EIO", forGood: true }, false]
]

const listed = Effect.map(Stream.runCollect(RunArchive.list), (entries) => entries.map(({ id }) => id))

/** A small bundle with something of every kind. */
const made = (each: Store) => {
  const one = filled(each, 1, { size: 100 })
  NFS.symlinkSync("0", `${one.dir}/temp/link`)
  NFS.linkSync(`${one.dir}/temp/0`, `${one.dir}/temp/again`)
  NFS.mkdirSync(`${one.dir}/temp/dir`)
  return one
}

/** In memory, since it is done again and again. */
const inStore = <A, E>(test: (store: Store) => Effect.Effect<A, E, RunStore.RunStore | Lease>) =>
  Stores.inStore(() => Effect.flatMap(RunStore.RunStore, test))

/** Runs a test, after which as many files are open as before. */
const closing = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const open = () => names("/proc/self/fd").length
    const before = open()
    yield* test
    assert.strictEqual(open(), before)
  })

const nothingIsLeft = (root: string, told: string) => {
  assert.deepStrictEqual(names(`${root}/staging`), [], told)
  assert.deepStrictEqual(Archives.archives(root), [], told)
}

type Attempt<E> = (
  each: Store,
  fault: Fault,
  isClean: boolean
) => Effect.Effect<boolean, E, RunStore.RunStore | Lease>

/** The first call fails, then the second, until there is none left to fail. */
const atEachCall = <E>(attempt: Attempt<E>) => ([_, fault, isClean]: (typeof faults)[number]) =>
  inStore((each) =>
    Effect.gen(function*() {
      let nth = 1
      while (yield* attempt(each, { ...fault, nth }, isClean)) nth++
      assert.isAbove(nth, 5)
    }).pipe(closing)
  )

describe("on a disk that fails", () => {
  it.live.each(faults)(
    "an archive is whole, or the bundle: %s",
    atEachCall(Effect.fnUntraced(function*(each, fault, isClean) {
      const { dir, id } = made(each)
      const before = Archives.treeOf(dir)
      const { exit, hit } = yield* withFault(fault)(RunArchive.archive(id))
      const told = `call ${fault.nth}: ${Exit.isFailure(exit) ? String(exit.cause) : "archived"}`
      if (NFS.existsSync(dir)) {
        assert.isTrue(Exit.isFailure(exit), told)
        Archives.sameTree(Archives.treeOf(dir), before)
        assert.deepStrictEqual(yield* listed, [], told)
        if (isClean) nothingIsLeft(each.root, told)
        // What is left stands in nobody's way.
        yield* RunArchive.archive(id)
      }
      assert.deepStrictEqual(yield* listed, [id], told)
      yield* RunArchive.restore(id)
      Archives.sameTree(Archives.treeOf(dir), before)
      nothingIsLeft(each.root, told)
      NFS.rmSync(dir, { recursive: true })
      return hit
    }))
  )

  it.live.each(faults)(
    "the bundle is whole, or its archive: %s",
    atEachCall(Effect.fnUntraced(function*(each, fault, isClean) {
      const { dir, id } = made(each)
      const before = Archives.treeOf(dir)
      yield* RunArchive.archive(id)
      const { exit, hit } = yield* withFault(fault)(RunArchive.restore(id))
      const told = `call ${fault.nth}: ${Exit.isFailure(exit) ? String(exit.cause) : "restored"}`
      if (!NFS.existsSync(dir)) {
        assert.isTrue(Exit.isFailure(exit), told)
        assert.deepStrictEqual(yield* listed, [id], told)
        if (isClean) {
          const left = [names(`${each.root}/staging`), Stores.filed(each.root, ".restored")]
          assert.deepStrictEqual(left, [[], []], told)
        }
        yield* RunArchive.restore(id)
      }
      Archives.sameTree(Archives.treeOf(dir), before)
      assert.deepStrictEqual(yield* listed, [], told)
      assert.strictEqual((yield* each.liveness(yield* each.get(id)))._tag, "Dead")
      NFS.rmSync(dir, { recursive: true })
      NFS.rmSync(`${each.root}/archive`, { recursive: true, force: true })
      return hit
    }))
  )
})
