/**
 * Opening and locking of a `lease` file: what the kernel says, as evidence for the decision in `Liveness`.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { LockEvidence } from "../Liveness.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags, type Info } from "./Files.ts"
import { sameFile } from "./io.ts"
import { Kernel } from "./Kernel.ts"
import { Locks } from "./Locks.ts"

/** @internal */
export type Mode = "shared" | "exclusive"

/**
 * What came of it. A descriptor is there only with a lock that was granted on the file that is still at the path.
 *
 * @internal
 */
export interface Attempt {
  readonly evidence: LockEvidence
  readonly locked: { readonly fd: number; readonly info: Info } | undefined
}

/** @internal */
export const pathOf = (bundle: string): string => `${bundle}/lease`

const without = (evidence: LockEvidence): Attempt => ({ evidence, locked: undefined })

const kindsByErrno: Record<string, string> = { ELOOP: "link", EISDIR: "directory", ENXIO: "socket" }

const failureToOpen = ({ code }: Errno): LockEvidence => {
  if (code === "ENOENT" || code === "ENOTDIR") return LockEvidence.Absent()
  const kind = kindsByErrno[code]
  return kind === undefined ? LockEvidence.Unusable({ code }) : LockEvidence.NotAFile({ kind })
}

/** A lock that does not answer is an answer of its own. */
const within = (duration: Duration.Input | undefined, path: string) => (lock: Effect.Effect<boolean, Errno>) =>
  duration === undefined ? lock : lock.pipe(
    Effect.interruptible,
    Effect.timeoutOrElse({
      duration,
      orElse: () => Effect.fail(new Errno({ code: "ETIMEDOUT", call: "lock", path, cause: new Error("no answer") }))
    })
  )

type Grant = "granted" | "held" | "claimed"

/**
 * A refusal alone does not tell a lease from another looker. A shared lock does: it is refused only while somebody has
 * the exclusive one, and then nobody holds a lease.
 */
const lock = Effect.fnUntraced(function*(fd: number, path: string, mode: Mode): Effect.fn.Return<Grant, Errno> {
  const { timeout, tryExclusive, tryShared } = yield* Locks
  const bounded = within(timeout, path)
  if (mode === "exclusive" && (yield* bounded(tryExclusive(fd, path)))) return "granted"
  if (!(yield* bounded(tryShared(fd, path)))) return "claimed"
  return mode === "shared" || (yield* bounded(tryExclusive(fd, path))) ? "granted" : "held"
})

const examine = Effect.fnUntraced(function*(fd: number, path: string, mode: Mode): Effect.fn.Return<Attempt, Errno> {
  const files = yield* Files
  const kernel = yield* Kernel
  const info = yield* files.fstat(fd, path)
  if (info.kind !== "file") return without(LockEvidence.NotAFile({ kind: info.kind }))
  if (info.uid !== kernel.uid) return without(LockEvidence.NotOurs())
  const grant = yield* lock(fd, path, mode)
  if (grant !== "granted") return without(LockEvidence.Refused({ by: grant === "held" ? "holder" : "claimant" }))
  // The file may have been replaced between the opening and the locking: then this lock keeps nobody out.
  const there = yield* Effect.result(files.lstat(path))
  if (Result.isFailure(there) || !sameFile(there.success, info)) return without(LockEvidence.Replaced())
  return { evidence: LockEvidence.Taken({ inode: info.ino }), locked: { fd, info } }
})

const attempt = Effect.fnUntraced(function*(bundle: string, mode: Mode, flags: number): Effect.fn.Return<Attempt> {
  const files = yield* Files
  const path = pathOf(bundle)
  const opened = yield* Effect.result(files.open(path, flags))
  if (Result.isFailure(opened)) return without(failureToOpen(opened.failure))
  const fd = opened.success
  const result = yield* examine(fd, path, mode).pipe(
    Effect.catch((errno) => Effect.succeed(without(LockEvidence.Unusable({ code: errno.code })))),
    Effect.onInterrupt(() => files.close(fd))
  )
  if (result.locked === undefined) yield* files.close(fd)
  return result
})

/**
 * Tries once. Never waits, neither for a lock nor for the other end of a FIFO. A lock that was granted ends with the
 * scope.
 *
 * @internal
 */
export const take = (
  bundle: string,
  mode: Mode,
  flags: number = Flags.lock
): Effect.Effect<Attempt, never, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(bundle, mode, flags),
    ({ locked }) => locked === undefined ? Effect.void : Effect.flatMap(Files, (files) => files.close(locked.fd))
  )
