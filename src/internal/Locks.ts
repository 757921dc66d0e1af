/**
 * The one door to native locks: open-file-description locks on Linux, flock on macOS, LockFileEx on Windows.
 *
 * A lock belongs to the open file description, so it survives the closing of another descriptor of the same file, is
 * shared with a child that was handed the descriptor, and ends when the last process that has it closes it or dies.
 * None of the calls waits. `false` means that somebody else's lock stands in the way; every other failure is an
 * {@link Errno}, because "cannot lock here" must never be read as "nobody holds it".
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Native from "fs-native-extensions"
import { type Errno, fromUnknown } from "./Errno.ts"

/** @internal */
export interface LocksApi {
  readonly tryShared: (fd: number, path: string) => Effect.Effect<boolean, Errno>
  readonly tryExclusive: (fd: number, path: string) => Effect.Effect<boolean, Errno>
  /** Turns an exclusive lock into a shared one. In one step on Linux; elsewhere somebody may slip in: `false`. */
  readonly tryDowngrade: (fd: number, path: string) => Effect.Effect<boolean, Errno>
}

const attempt = (path: string, lock: () => boolean): Effect.Effect<boolean, Errno> =>
  Effect.try({ try: lock, catch: (cause) => fromUnknown("lock", path, cause) })

/** @internal */
export const native: LocksApi = {
  tryShared: (fd, path) => attempt(path, () => Native.tryLock(fd, { shared: true })),
  tryExclusive: (fd, path) => attempt(path, () => Native.tryLock(fd)),
  tryDowngrade: (fd, path) => attempt(path, () => Native.tryDowngradeLock(fd))
}

/** @internal */
export const Locks: Context.Reference<LocksApi> = Context.Reference<LocksApi>("leasehold/internal/Locks", {
  defaultValue: () => native
})
