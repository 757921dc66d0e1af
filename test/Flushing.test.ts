/** Having many files on the disk: everything is flushed, nothing stays open, and a disk that refuses is heard. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import * as Flushing from "../src/archive/Flushing.ts"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"

/** Says which descriptors were flushed and closed, and refuses to flush one of them. */
const told = (refused?: number) => {
  const flushed: Array<number> = []
  const closed: Array<number> = []
  const files: FilesApi = {
    ...node,
    fsync: (fd, path) =>
      Effect.suspend(() => {
        assert.notInclude(closed, fd)
        flushed.push(fd)
        return fd === refused
          ? Effect.fail(new Errno({ code: "EIO", call: "fsync", path, cause: undefined }))
          : Effect.andThen(Effect.yieldNow, Effect.void)
      }),
    close: (fd) => Effect.sync(() => void closed.push(fd))
  }
  return { files, flushed, closed }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => 1000 + index)

const sorted = (fds: ReadonlyArray<number>) => fds.toSorted((left, right) => left - right)

const addAll = Effect.fnUntraced(function*(directory: string, count: number) {
  const flushing = yield* Flushing.make(directory)
  yield* Effect.gen(function*() {
    for (const fd of numbers(count)) yield* flushing.add(fd, `${fd}`)
    yield* flushing.finish
  }).pipe(Effect.ensuring(flushing.close))
})

const within = <A, E>(use: (directory: string) => Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-test-`)),
    use,
    (directory) => Effect.sync(() => NFS.rmSync(directory, { recursive: true }))
  )

describe("flushing", () => {
  it.live("of some files flushes and closes each of them once", () =>
    within((directory) =>
      Effect.gen(function*() {
        const { closed, files, flushed } = told()
        yield* Effect.provideService(addAll(directory, 100), Files, files)
        assert.deepStrictEqual(sorted(flushed), numbers(100))
        assert.deepStrictEqual(sorted(closed), numbers(100))
      })
    ))

  it.live("of very many closes each of them, and flushes one by one no longer than it must", () =>
    within((directory) =>
      Effect.gen(function*() {
        const { closed, files, flushed } = told()
        yield* Effect.provideService(addAll(directory, 2000), Files, files)
        assert.deepStrictEqual(sorted(closed), numbers(2000))
        assert.include([512, 2000], flushed.length)
      })
    ))

  it.live("goes on one by one where nothing is known of the file system", () =>
    within((directory) =>
      Effect.gen(function*() {
        const { closed, files, flushed } = told()
        const unknown: FilesApi = { ...files, fileSystemType: () => Effect.succeed(0x6969) }
        yield* Effect.provideService(addAll(directory, 2000), Files, unknown)
        assert.deepStrictEqual(sorted(flushed), numbers(2000))
        assert.deepStrictEqual(sorted(closed), numbers(2000))
      })
    ))

  it.live.each([1000, 1003, 1040])(
    "that is refused for %i is a failure, and leaves nothing open",
    (refused) =>
      within((directory) =>
        Effect.gen(function*() {
          const { closed, files } = told(refused)
          const error = yield* Effect.flip(Effect.provideService(addAll(directory, 60), Files, files))
          assert.strictEqual(error.code, "EIO")
          assert.strictEqual(new Set(closed).size, closed.length)
          assert.deepStrictEqual(sorted(closed), numbers(closed.length))
          assert.isAtLeast(closed.length, Math.min(60, (Math.floor((refused - 1000) / 16) + 1) * 16))
        })
      )
  )

  it.live("of a whole file system that fails at the end is a failure", () =>
    Effect.gen(function*() {
      const { files } = told()
      const directory = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-test-`)
      const gone = Effect.gen(function*() {
        const flushing = yield* Flushing.make(directory)
        for (const fd of numbers(600)) yield* flushing.add(fd, `${fd}`)
        NFS.rmSync(directory, { recursive: true })
        yield* flushing.finish
      })
      const known: FilesApi = { ...files, fileSystemType: () => Effect.succeed(0xef53) }
      const error = yield* Effect.flip(Effect.provideService(gone, Files, known))
      assert.strictEqual(error.call, "syncfs")
    }))
})
