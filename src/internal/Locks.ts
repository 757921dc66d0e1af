/**
 * The one door to native locks: open-file-description locks on Linux, flock on macOS, LockFileEx on Windows.
 *
 * A lock belongs to the open file description, so it survives the closing of another descriptor of the same file, is
 * shared with a child that was handed the descriptor, and ends when the last process that has it closes it or dies.
 * None of the calls waits. `false` means that somebody else's lock stands in the way; every other failure is an
 * {@link Errno}, because "cannot lock here" must never be read as "nobody holds it".
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { createRequire } from "node:module"
import { type Errno, fromUnknown } from "./Errno.ts"

/** @internal */
export interface LocksApi {
  readonly tryShared: (fd: number, path: string) => Effect.Effect<boolean, Errno>
  readonly tryExclusive: (fd: number, path: string) => Effect.Effect<boolean, Errno>
  /** Turns an exclusive lock into a shared one. In one step on Linux; elsewhere somebody may slip in: `false`. */
  readonly tryDowngrade: (fd: number, path: string) => Effect.Effect<boolean, Errno>
  /** How long an answer may take, of locks that stand in for the kernel's. The kernel's own call cannot be bounded. */
  readonly timeout?: Duration.Input | undefined
}

/** The native part of fs-native-extensions. A length of 0 is the whole file; a refusal is thrown as EAGAIN. */
interface Binding {
  readonly tryLock: (fd: number, offset: number, length: number, exclusive: boolean) => void
  readonly tryDowngradeLock: (fd: number, offset: number, length: number) => void
}

let loaded: Binding | undefined

/**
 * The package looks for its binary in every place where one may be, for longer than a whole run takes to start. Its
 * prebuilt one is where it is; where there is none the package's own search decides.
 */
const load = (): Binding => {
  const require = createRequire(import.meta.url)
  const name = "fs-native-extensions"
  try {
    return require(`${name}/prebuilds/${process.platform}-${process.arch}/${name}.node`) as Binding
  } catch {
    return require(`${name}/binding.js`) as Binding
  }
}

const attempt = (path: string, lock: (binding: Binding) => void): Effect.Effect<boolean, Errno> =>
  Effect.suspend(() => {
    try {
      loaded ??= load()
      lock(loaded)
      return Effect.succeed(true)
    } catch (cause) {
      const errno = fromUnknown("lock", path, cause)
      return errno.code === "EAGAIN" ? Effect.succeed(false) : Effect.fail(errno)
    }
  })

/** @internal */
export const native: LocksApi = {
  tryShared: (fd, path) => attempt(path, (binding) => binding.tryLock(fd, 0, 0, false)),
  tryExclusive: (fd, path) => attempt(path, (binding) => binding.tryLock(fd, 0, 0, true)),
  tryDowngrade: (fd, path) => attempt(path, (binding) => binding.tryDowngradeLock(fd, 0, 0))
}

/** @internal */
export const Locks: Context.Reference<LocksApi> = Context.Reference<LocksApi>("leasehold/internal/Locks", {
  defaultValue: () => native
})

const noLocks: ReadonlySet<string> = new Set(["ENOLCK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"])

/**
 * Whether the file system cannot lock at all, which is neither "held" nor "free".
 *
 * @internal
 */
export const cannotLock = (code: string): boolean => noLocks.has(code)
