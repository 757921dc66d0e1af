/** One pass at a time. A second one learns of the first at once; nothing ever waits here. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { Files, Flags } from "../internal/Files.ts"
import { writeNew } from "../internal/io.ts"
import { Locks } from "../internal/Locks.ts"

/** The seal of the index is written here, which must not end up in a file that has a name elsewhere. */
const giveUpShared = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(path))
  if (Result.isSuccess(there) && there.success.kind === "file" && there.success.nlink > 1) {
    yield* Effect.ignore(files.unlink(path))
  }
})

/**
 * Whether this pass may go on. The lock only saves two passes from doing the same work: what protects bundles is the
 * claim on each. So where it cannot be made or locked, on a full disk above all, the pass goes on without; so does a dry
 * run where there is none yet, since it makes nothing.
 *
 * @internal
 */
export const take = Effect.fnUntraced(function*(
  root: string,
  options: { readonly dryRun: boolean }
): Effect.fn.Return<boolean, never, Scope.Scope> {
  const files = yield* Files
  const locks = yield* Locks
  const path = `${root}/retention.lock`
  const open = Effect.acquireRelease(files.open(path, Flags.lock), files.close)
  if (!options.dryRun) yield* giveUpShared(path)
  const make = options.dryRun ? Effect.void : Effect.ignore(writeNew(path, ""))
  const fd = yield* open.pipe(
    Effect.catchIf((errno) => errno.code === "ENOENT", () => Effect.andThen(make, open)),
    Effect.result
  )
  if (Result.isFailure(fd)) return true
  return yield* Effect.orElseSucceed(locks.tryExclusive(fd.success, path), () => true)
})
