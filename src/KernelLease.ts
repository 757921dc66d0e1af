/**
 * Leases by kernel locks: the default, and the only layer here that protects anything.
 *
 * Open-file-description locks on Linux, flock on macOS, LockFileEx on Windows. Linux is tested; the other two are by
 * design only.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Holder from "./Holder.ts"
import { Errno } from "./internal/Errno.ts"
import { Files, Flags } from "./internal/Files.ts"
import { sameFile, writeNew } from "./internal/io.ts"
import { isLocalFileSystem, Kernel, type KernelApi } from "./internal/Kernel.ts"
import { type Attempt, pathOf, take } from "./internal/LeaseFile.ts"
import { cannotLock, Locks } from "./internal/Locks.ts"
import { pause } from "./internal/Pause.ts"
import * as RecordFile from "./internal/RecordFile.ts"
import { tentatively } from "./internal/Tentative.ts"
import { type Held, Lease, LeaseError, LeaseReason, makeClaim, type Target } from "./Lease.ts"
import { decide, doubtOfLock, type Liveness, type LockEvidence } from "./Liveness.ts"

const defaultPatience = Duration.seconds(5)

const refuse = (target: Target, reason: LeaseReason) => Effect.fail(new LeaseError({ id: target.id, reason }))

const orSystem = (target: Target) =>
  Effect.mapError((errno: Errno) => new LeaseError({ id: target.id, reason: LeaseReason.System({ errno }) }))

const isGone = Effect.fnUntraced(function*(dir: string) {
  const files = yield* Files
  const there = yield* Effect.result(files.lstat(dir))
  return Result.isFailure(there) && there.failure.code === "ENOENT"
})

// == holding

const claimants = Effect.fnUntraced(function*(dir: string) {
  const traces = yield* Holder.list(dir)
  return traces.flatMap((trace) => trace._tag === "Named" && trace.holder.role === "claim" ? [trace.holder] : [])
})

/** Why a shared lock was not to be had. */
const reasonNotHeld = Effect.fnUntraced(
  function*(target: Target, lock: Exclude<LockEvidence, { readonly _tag: "Taken" }>) {
    if (yield* isGone(target.dir)) return LeaseReason.RunGone()
    if (lock._tag === "Refused") return LeaseReason.Claimed({ holders: yield* claimants(target.dir) })
    if (lock._tag !== "Unusable") return LeaseReason.Undecided({ doubt: doubtOfLock(lock) })
    const { code } = lock
    return cannotLock(code)
      ? LeaseReason.NoLocks({ code })
      : LeaseReason.System({ errno: new Errno({ code, call: "lock", path: pathOf(target.dir), cause: undefined }) })
  }
)

/** A lock that was granted becomes a lease once its holder file is written. Both go, in reverse, with the scope. */
const asHeld = Effect.fnUntraced(function*(target: Target, { locked }: Attempt, role: Holder.Role) {
  let dir = target.dir
  const dirNow = () => dir
  const inode = locked?.info.ino ?? 0n
  yield* orSystem(target)(Holder.announce(dirNow, { role, inode }))
  const lost = Effect.suspend(() => refuse(target, LeaseReason.LeaseLost()))
  const held: Held = {
    protected: locked !== undefined,
    check: Effect.gen(function*() {
      const files = yield* Files
      const there = yield* Effect.result(files.lstat(pathOf(dir)))
      if (locked === undefined) return
      if (Result.isFailure(there)) {
        if (there.failure.code === "ENOENT") return yield* lost
        return yield* refuse(target, LeaseReason.System({ errno: there.failure }))
      }
      if (!sameFile(there.success, locked.info)) return yield* lost
    }),
    share: tentatively(Effect.gen(function*() {
      if (locked === undefined) return yield* refuse(target, LeaseReason.NoLocks({ code: "ENOLCK" }))
      const { evidence, locked: second } = yield* take(dir, "shared")
      if (evidence._tag === "Unusable") return yield* refuse(target, yield* reasonNotHeld({ ...target, dir }, evidence))
      if (second === undefined || !sameFile(second.info, locked.info)) return yield* lost
      return {
        fd: second.fd,
        name: (pid: number) => orSystem(target)(Holder.announce(dirNow, { role: "child", inode, pid }))
      }
    })),
    moved: (to) => Effect.sync(() => void (dir = to))
  }
  return held
})

const create: Lease["Service"]["create"] = Effect.fnUntraced(function*(target, options) {
  const files = yield* Files
  const attempt = yield* take(target.dir, "shared", Flags.create)
  if (attempt.evidence._tag !== "Taken") {
    const reason = yield* reasonNotHeld(target, attempt.evidence)
    if (reason._tag !== "NoLocks" || options.unprotected !== true) return yield* refuse(target, reason)
  }
  yield* orSystem(target)(files.mkdir(`${target.dir}/holders`))
  return yield* asHeld(target, attempt, options.role)
})

/** A claim ends, and a file that was replaced before our lock may be the right one at the next look. */
const mayPass = (reason: LeaseReason) =>
  reason._tag === "Claimed" || (reason._tag === "Undecided" && reason.doubt._tag === "LeaseReplaced")

const hold: Lease["Service"]["hold"] = Effect.fnUntraced(function*(target, options) {
  const patience = Duration.toMillis(options.patience ?? defaultPatience)
  let waited = 0
  for (let millis = 1;; millis = Math.min(millis * 2, 100)) {
    const attempt = yield* take(target.dir, "shared")
    if (attempt.evidence._tag === "Taken") return yield* asHeld(target, attempt, options.role)
    const reason = yield* reasonNotHeld(target, attempt.evidence)
    if (!mayPass(reason) || waited >= patience) return yield* refuse(target, reason)
    yield* pause(millis)
    waited += millis
  }
})

// == claiming

/**
 * How often a refusal is looked at again, which takes a seventh of a second in all, or half a second. Other lookers are in
 * the way for a moment, by a shared lock that looks like a lease or, longer and more often, by an exclusive one; on a busy
 * machine they may be kept from going on with it. A claimant without a name is always about to let go. Whoever is seen to
 * be there is not waited for.
 */
const looksAgain = { holder: 20, claimant: 40 }

/** Milliseconds before the next look, at random, so that lookers who met once do not meet again; longer each time. */
const pauseBriefly = (looks: number) => Effect.flatMap(Random.nextBetween(0.5, 5 + looks), pause)

/** Pids are used again, so one may speak for keeping a bundle and never against it. */
const isSurelyThere = Effect.fnUntraced(
  function*(by: "holder" | "claimant", traces: ReadonlyArray<Holder.HolderTrace>) {
    const kernel = yield* Kernel
    return traces.some((trace) =>
      trace._tag === "Named" && trace.holder.boot === kernel.boot && kernel.isAlive(trace.holder.pid) &&
      (by === "holder" || trace.holder.role === "claim")
    )
  }
)

interface Examined {
  readonly answer: Liveness
  readonly attempt: Attempt
}

/**
 * Who is named: a process that was killed has left its file, while a child of it holds on. In a container none of them
 * may be seen.
 */
const stillThere = (kernel: KernelApi, holders: ReadonlyArray<Holder.Holder>) => {
  const there = holders.filter(({ boot, pid }) => boot !== kernel.boot || kernel.isAlive(pid))
  return there.length === 0 ? holders : there
}

/** Takes the exclusive lock if it is to be had, and draws the answer from all the evidence while it is held. */
const look = Effect.fnUntraced(function*(target: Target): Effect.fn.Return<Examined, never, Scope.Scope> {
  const files = yield* Files
  const kernel = yield* Kernel
  let attempt = yield* take(target.dir, "exclusive")
  let holders = yield* Holder.list(target.dir)
  for (let looks = 0; attempt.evidence._tag === "Refused" && looks < looksAgain[attempt.evidence.by]; looks++) {
    if (yield* isSurelyThere(attempt.evidence.by, holders)) break
    yield* pauseBriefly(looks)
    attempt = yield* take(target.dir, "exclusive")
    holders = yield* Holder.list(target.dir)
  }
  const isForeign = holders.some((trace) => trace._tag === "Named" && trace.holder.boot !== kernel.boot)
  const fileSystem = isForeign ? yield* Effect.option(files.fileSystemType(target.dir)) : Option.none()
  const decided = decide({
    lock: attempt.evidence,
    holders,
    record: yield* RecordFile.read(target.dir),
    boot: kernel.boot,
    machine: kernel.machine,
    localFileSystem: Option.isSome(fileSystem) && isLocalFileSystem(fileSystem.value)
  })
  const answer = decided._tag === "Live" ? { ...decided, holders: stillThere(kernel, decided.holders) } : decided
  return { answer, attempt }
})

/** How often something is looked at again that looks like a bundle on its way to the archive and back. */
const looksOnTheWay = 3

/**
 * The same of where the bundle is now. A lease that is not where it was when it was opened, or was not there to be
 * opened, may be that of a bundle which has been archived and restored since; then it is another lease.
 */
const examine = Effect.fnUntraced(function*(
  target: Target
): Effect.fn.Return<Examined & { readonly gone: boolean }, never, Scope.Scope> {
  for (let looks = 1;; looks++) {
    const examined = yield* look(target)
    const { answer, attempt: { evidence } } = examined
    const gone = answer._tag === "Unknown" && (yield* isGone(target.dir))
    const mayHaveMoved = answer._tag === "Unknown" && (evidence._tag === "Absent" || evidence._tag === "Replaced")
    if (!mayHaveMoved || gone || looks === looksOnTheWay) return { ...examined, gone }
  }
})

const probe: Lease["Service"]["probe"] = (target) => Effect.scoped(Effect.map(examine(target), ({ answer }) => answer))

/** A bundle of the older layout, or half of one, gets a lease, so that this claim keeps others out as any claim does. */
const makeLease = (target: Target) =>
  writeNew(pathOf(target.dir), "").pipe(
    Effect.catchIf(isThere, () => Effect.void),
    Effect.catch((errno) =>
      refuse(target, errno.code === "ENOENT" ? LeaseReason.RunGone() : LeaseReason.System({ errno }))
    )
  )

const isThere = (errno: Errno) => errno.code === "EEXIST"

const refuseAnswer = Effect.fnUntraced(
  function*(target: Target, answer: Exclude<Liveness, { readonly _tag: "Dead" }>, gone: boolean) {
    if (answer._tag === "Live") return yield* refuse(target, LeaseReason.Held({ holders: answer.holders }))
    if (gone) return yield* refuse(target, LeaseReason.RunGone())
    return yield* refuse(target, LeaseReason.Undecided({ doubt: answer.doubt }))
  }
)

const claim: Lease["Service"]["claim"] = Effect.fnUntraced(function*(target, options) {
  const { answer, attempt, gone } = yield* examine(target)
  if (answer._tag !== "Dead") return yield* refuseAnswer(target, answer, gone)
  if (answer.proof !== "lease free") {
    yield* makeLease(target)
    return yield* claim(target, options)
  }
  const announced = options?.announce === true
  if (announced) yield* orSystem(target)(Holder.announceClaim(target.dir))
  return makeClaim(target, answer.record, { descriptor: attempt.locked?.fd, announced })
})

const claimBare: Lease["Service"]["claimBare"] = Effect.fnUntraced(function*(target) {
  const { answer, attempt, gone } = yield* examine(target)
  const onlyRecord = answer._tag === "Unknown" && answer.doubt._tag === "RecordUnusable"
  if (answer._tag !== "Dead" && !onlyRecord) return yield* refuseAnswer(target, answer, gone)
  if (attempt.evidence._tag === "Absent") {
    yield* makeLease(target)
    return yield* claimBare(target)
  }
  return { target, record: yield* RecordFile.read(target.dir) }
})

const resume: Lease["Service"]["resume"] = Effect.fnUntraced(function*(target) {
  const locks = yield* Locks
  const { answer, attempt, gone } = yield* examine(target)
  if (answer._tag !== "Dead") return yield* refuseAnswer(target, answer, gone)
  if (attempt.locked === undefined) {
    yield* makeLease(target)
    return yield* resume(target)
  }
  // Named first, so that whoever is refused from now on can say by whom.
  const held = yield* asHeld(target, attempt, "owner")
  const kept = yield* orSystem(target)(locks.tryDowngrade(attempt.locked.fd, pathOf(target.dir)))
  // Where this takes two steps somebody may have come in between, and has it now.
  if (!kept) return yield* refuse(target, LeaseReason.Held({ holders: [] }))
  return { held, record: answer.record }
})

/**
 * Leases by locks of this kernel.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<Lease> = Layer.succeed(Lease, {
  create: (target, options) => tentatively(create(target, options)),
  hold: (target, options) => tentatively(hold(target, options)),
  claim: (target, options) => tentatively(claim(target, options)),
  claimBare: (target) => tentatively(claimBare(target)),
  resume: (target) => tentatively(resume(target)),
  probe
})
