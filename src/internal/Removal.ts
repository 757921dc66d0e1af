/**
 * Takes a tree away, name by name, without ever following a link, leaving the mount, or waiting on a FIFO.
 *
 * There is no recursion: a stack of directories holds what is still to be done in each. Of a directory with very many
 * subdirectories only some are remembered at a time; it is read again when they are gone.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { Errno } from "./Errno.ts"
import { type ByteEntry, Files, type Info, type Listing } from "./Files.ts"
import { nonce } from "./io.ts"
import { key } from "./Mounts.ts"
import type { Pace } from "./Pace.ts"
import { Barred, type Walk } from "./Tree.ts"

/**
 * What one sweep may do, and has done, over all of its trees. All of it runs in an uninterruptible region.
 *
 * @internal
 */
export interface Work {
  readonly concurrency: number
  /** A safe point: others get their turn, interruption is let in, and time is looked at. */
  readonly breathe: Effect.Effect<void>
  /** The same, once in a number of times. */
  readonly step: Effect.Effect<void>
  readonly interruptible: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Whether the budget is used up. */
  readonly isSpent: () => boolean
  /** How long names take here. */
  readonly pace: Pace
  /** Whether the size of a directory tells how many names may be in it. */
  readonly sizesTell: () => boolean
  readonly tried: () => void
  readonly unlinked: (freedBytes: number) => void
}

/** @internal */
export interface Limits {
  /** After so many failures the tree is set aside, so that it cannot use up what is meant for others. */
  readonly allowance: number
  /** Whether to wait for things that are in use. */
  readonly patient: boolean
  readonly failed: (path: string, reason: string) => void
}

/**
 * `removed` by us, `vanished` by somebody else's hand, `left` in part because some of it cannot go, `set aside` after
 * too many failures, or `stopped` since the budget is used up.
 *
 * @internal
 */
export type Outcome = "removed" | "vanished" | "left" | "set aside" | "stopped"

interface Pending {
  readonly name: Buffer
  /** How often it was not found, in the end, to be what it had looked like. */
  readonly tries: number
}

interface Frame extends Pending {
  readonly allocated: number
  /** Whether all of its names may be had at once. */
  readonly isShort: boolean
  readonly pending: Array<Pending>
  readonly room: number
  /** What will not go and is not to be tried again. */
  readonly hopeless: Set<string>
  /** Whether it has to be read, for the first time or again. */
  due: boolean
  /** Whether something in it stays. */
  kept: boolean
}

/** Without descriptors, a directory is looked at again after so many names in it. */
const namesPerCheck = 16

/**
 * Giving back this many bytes is a thing for the thread pool. With less, the way there and back takes longer than the
 * call, where calls are quick: 20,000 small files took 0.6 s one by one, and 1.0 s and twice the processor four at a time.
 */
const largeBytes = 1024 * 1024

/** A directory of this size has some thousand names at most, where sizes tell. */
const shortBytes = 32 * 1024

const maxTries = 3

const inUse: ReadonlySet<string> = new Set(process.platform === "win32" ? ["EBUSY", "EPERM", "EACCES"] : ["EBUSY"])

/** Milliseconds between tries of something in use. */
const pauses = [10, 20, 40, 80]

/** Less than any limit of a system without descriptors to work through, by more than the longest name. */
const maxPathLength = process.platform === "linux" ? 3500 : 700

const isGone = (cause: Errno | Barred) => cause._tag === "Errno" && cause.code === "ENOENT"

const isNotEmpty = (errno: Errno) => errno.code === "ENOTEMPTY" || errno.code === "EEXIST"

const isDirectory = (name: Buffer) =>
  new Errno({ code: "EISDIR", call: "unlink", path: name.toString(), cause: undefined })

const mountPoint = new Barred({ why: "a mount point" })

/**
 * A failure in words, without the path.
 *
 * @internal
 */
export const explain = (cause: Errno | Barred): string => {
  if (cause._tag === "Barred") return cause.why === "a mount point" ? "a file system is mounted here" : "was moved away"
  const call = `(${cause.code} on ${cause.call})`
  if (inUse.has(cause.code)) return `in use ${call}`
  if (isNotEmpty(cause)) return `is not empty, something still writes there ${call}`
  return cause.message.slice(cause.path.length + 2)
}

const makeFrame = (depth: number, { name, tries }: Pending, info?: Info): Frame => ({
  name,
  tries,
  allocated: info?.allocated ?? 0,
  isShort: info !== undefined && info.size > 0 && info.size <= shortBytes,
  pending: [],
  // Halved at each level, so that the sum over a deep tree stays small too.
  room: Math.max(16, Math.floor(4096 / 2 ** depth)),
  hopeless: new Set(),
  due: true,
  kept: false
})

/**
 * Removes one name in the directory at the top of a walk, and all that lies below it. The walk is back at its top
 * afterwards.
 *
 * @internal
 */
export const remove = Effect.fnUntraced(function*(walk: Walk, name: Buffer, work: Work, limits: Limits) {
  const files = yield* Files
  const around: Frame = { ...makeFrame(0, { name, tries: 0 }), pending: [{ name, tries: 0 }], due: false }
  const stack = [around]
  const clock = yield* Clock.Clock
  let failures = 0
  let isPatient = limits.patient
  let isRemoved = false

  const fail = (frame: Frame, name: Buffer | undefined, cause: Errno | Barred) => {
    failures++
    limits.failed(walk.shown(name), explain(cause))
    frame.kept = true
    if (name !== undefined) frame.hopeless.add(key(name))
  }

  const mayGoOn = () => !work.isSpent() && failures <= limits.allowance

  const remember = (frame: Frame, name: Buffer) => {
    if (frame.pending.length < frame.room) frame.pending.push({ name, tries: 0 })
    else frame.due = true
  }

  /** For a name that has become something else, or a directory that was written to. Somebody may do so for ever. */
  const again = (frame: Frame, { name, tries }: Pending, cause: Errno | Barred) => {
    if (tries < maxTries) frame.pending.push({ name, tries: tries + 1 })
    else fail(frame, name, cause)
  }

  // == single names

  /** Tries a call on a name, for a bounded time if the name is in use. Says whether the name went, or why not. */
  const attempt = Effect.fnUntraced(function*(call: () => Effect.Effect<void, Errno>, freedBytes: number) {
    work.tried()
    let result = yield* Effect.result(call())
    for (const pause of pauses) {
      if (Result.isSuccess(result) || !inUse.has(result.failure.code) || !isPatient || work.isSpent()) break
      yield* Effect.andThen(work.interruptible(Effect.sleep(pause)), work.breathe)
      result = yield* Effect.result(call())
    }
    if (Result.isSuccess(result)) {
      work.unlinked(freedBytes)
      if (stack.length === 1) isRemoved = true
      return undefined
    }
    // One that stays in use is waited for. If each of a thousand were, nothing else would get done.
    if (inUse.has(result.failure.code)) isPatient = false
    return isGone(result.failure) ? undefined : result.failure
  })

  const unlink = Effect.fnUntraced(function*(frame: Frame, pending: Pending, info: Info, isLater: boolean) {
    const place = walk.place()
    const begun = clock.currentTimeNanosUnsafe()
    const call = () => isLater ? files.unlinkLaterAt(place, pending.name) : files.unlinkAt(place, pending.name)
    const cause = yield* attempt(call, info.nlink > 1 ? 0 : info.allocated)
    if (!isLater) work.pace.took(Number(clock.currentTimeNanosUnsafe() - begun) / 1e6)
    if (cause?.code === "EISDIR") again(frame, pending, cause)
    else if (cause !== undefined) fail(frame, pending.name, cause)
  })

  /** Removes what is no directory. What will take long is put off, if there is a list to put it on. */
  const removeLeaf = Effect.fnUntraced(function*(frame: Frame, pending: Pending, later?: Array<Effect.Effect<void>>) {
    if (walk.isMounted(pending.name)) return fail(frame, pending.name, mountPoint)
    const looked = yield* Effect.result(files.lstatAt(walk.place(), pending.name))
    if (Result.isFailure(looked)) {
      return isGone(looked.failure) ? undefined : fail(frame, pending.name, looked.failure)
    }
    const info = looked.success
    if (info.kind === "directory") return again(frame, pending, isDirectory(pending.name))
    // One name of several gives nothing back, so it is quick; and done at once, the next look sees one name less.
    const isLarge = info.allocated >= largeBytes
    const isLater = later !== undefined && info.nlink === 1 &&
      (isLarge || work.pace.isSlow())
    const unlinking = Effect.suspend(() => mayGoOn() ? unlink(frame, pending, info, isLater) : Effect.void)
    if (isLater) later.push(Effect.andThen(isLarge ? work.breathe : work.step, unlinking))
    else yield* unlinking
  })

  // == directories

  const removePiece = Effect.fnUntraced(function*(frame: Frame, piece: ReadonlyArray<ByteEntry>) {
    const later: Array<Effect.Effect<void>> = []
    for (const [index, { kind, name }] of piece.entries()) {
      yield* work.step
      if (index % namesPerCheck === 0) yield* walk.check
      if (!mayGoOn()) return
      if (frame.hopeless.has(key(name))) continue
      if (kind === "directory") remember(frame, name)
      else yield* removeLeaf(frame, { name, tries: 0 }, later)
    }
    if (later.length === 0) return
    const { concurrency } = work
    yield* work.interruptible(Effect.forEach(later, Effect.uninterruptible, { concurrency, discard: true }))
  })

  const readThrough = Effect.fnUntraced(function*(frame: Frame, listing: Listing) {
    // Once more directories are found than are remembered, the rest can wait until those are gone.
    while (mayGoOn() && !frame.due) {
      const piece = yield* listing.read
      if (piece.length === 0) return
      yield* removePiece(frame, piece)
    }
  })

  const scan = Effect.fnUntraced(function*(frame: Frame) {
    frame.due = false
    yield* walk.check
    const listing = yield* files.listAt(walk.place(), { isShort: frame.isShort && work.sizesTell() })
    yield* readThrough(frame, listing).pipe(Effect.ensuring(listing.close))
  })

  const failedScan = (frame: Frame, cause: Errno | Barred) => {
    frame.due = false
    // Where the way has changed, the names that were found belong to another place.
    if (cause._tag === "Barred") frame.pending.length = 0
    if (!isGone(cause)) fail(frame, undefined, cause)
  }

  /** A directory that its owner may not read or write keeps its owner from taking things out of it. */
  const makeWritable = Effect.fnUntraced(function*(info: Info) {
    if ((info.mode & 0o700) === 0o700) return
    // It may not be ours to change. What cannot be removed because of that will say so itself.
    yield* Effect.ignore(Effect.andThen(walk.check, files.chmodAt(walk.place(), info.mode | 0o700)))
  })

  /** Paths can get too long to be used. What lies so deep goes on near the top of the tree. */
  const lift = Effect.fnUntraced(
    function*(_frame: Frame, { name }: Pending) {
      const to = Buffer.from(`lifted-${yield* nonce}`)
      // To be moved to another parent, a directory must be writable itself.
      yield* makeWritable(yield* walk.enter(name))
      yield* walk.leave
      yield* files.renameAt(walk.place(), name, walk.placeAt(1)!, to)
      stack[1]!.pending.push({ name: to, tries: 0 })
    },
    (lifting, frame, { name }) =>
      Effect.catch(lifting, (cause) => Effect.sync(() => isGone(cause) ? undefined : fail(frame, name, cause)))
  )

  const descend = Effect.fnUntraced(function*(frame: Frame, pending: Pending) {
    if (stack.length > 2 && walk.pathLength(pending.name) > maxPathLength) return yield* lift(frame, pending)
    const entered = yield* Effect.result(walk.enter(pending.name))
    if (Result.isSuccess(entered)) {
      stack.push(makeFrame(stack.length, pending, entered.success))
      return yield* makeWritable(entered.success)
    }
    const cause = entered.failure
    if (isGone(cause)) return
    if (cause._tag === "Errno" && cause.code === "ENOTDIR") return yield* removeLeaf(frame, pending)
    fail(frame, pending.name, cause)
  })

  /** Out of a directory in which nothing is left to do, which goes if it is empty. */
  const ascend = Effect.fnUntraced(function*(done: Frame) {
    stack.pop()
    const frame = stack.at(-1)!
    const left = yield* Effect.result(walk.leave)
    if (Result.isFailure(left)) {
      // With the directory moved or gone, the way to what lies around it is lost. There is one from the top.
      const entry = stack[1] ?? done
      stack.length = 1
      yield* walk.surface
      return again(around, entry, left.failure)
    }
    if (done.kept) {
      frame.kept = true
      frame.hopeless.add(key(done.name))
      return
    }
    const cause = yield* attempt(() => files.rmdirAt(walk.place(), done.name), done.allocated)
    if (cause === undefined) return
    // Written to since, or the listing passed over names while others were removed, or it is a link by now.
    if (isNotEmpty(cause) || cause.code === "ENOTDIR") again(frame, done, cause)
    else fail(frame, done.name, cause)
  })

  while (stack.length > 1 || around.pending.length > 0) {
    yield* work.step
    if (!mayGoOn()) break
    const frame = stack.at(-1)!
    const next = frame.pending.pop()
    if (next !== undefined) yield* descend(frame, next)
    else if (frame.due) yield* Effect.catch(scan(frame), (cause) => Effect.sync(() => failedScan(frame, cause)))
    else yield* ascend(frame)
  }
  const isDone = stack.length === 1 && around.pending.length === 0
  yield* walk.surface
  const outcome: Outcome = !isDone
    ? (work.isSpent() ? "stopped" : "set aside")
    : around.kept
    ? "left"
    : isRemoved
    ? "removed"
    : "vanished"
  return outcome
})
