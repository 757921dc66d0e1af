/**
 * The deletion of what lies in `trash/`: bounded, resumable, and safe on any tree that a program may leave behind.
 *
 * **Guarantees.** Links are removed as links. What is mounted inside, bind mounts of the same file system included, is
 * neither entered nor emptied. Names are bytes. FIFOs, sockets and devices are unlinked unopened. Directories that are
 * not writable are made so, if they are ours. Trees may be of any depth and width; memory, open files (under ten) and
 * the time without giving way to the event loop are bounded. Something that cannot go is reported, and its siblings go;
 * no failure makes for a stronger tool. A sweep that was stopped, interrupted or killed is finished by the next.
 * Two at once do each other no harm, and each name is counted by the one that unlinked it.
 *
 * **Order.** Oldest first, by name. An entry that could not be removed in whole is renamed to end in `.stuck`, and from
 * then on comes after all that are not, from a place in their ring that differs each time. So neither one entry that
 * will never go nor ten thousand of them keep others waiting, whichever process sweeps next.
 *
 * **Limits.** While a sweep runs somebody may swap a directory for a link at any moment: on Linux with `/proc` this
 * changes nothing, since all work is done relative to open directories. Elsewhere, and in a program that gave up root's
 * rights without an exec, each directory is looked at again before every few names in it, and a swap between that look
 * and the next call is not caught; mounts are then known by the mount table (where there is one) and the device number
 * alone. A directory that somebody moves out of the trash while it is worked in is emptied all the same, and nothing
 * around its new place is touched. In a directory with more undeletable names than a sweep may try, a bounded sweep does not get to the names
 * behind them. Windows and macOS are by design only; Linux is tested.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Errno } from "./internal/Errno.ts"
import { Files } from "./internal/Files.ts"
import * as Kernel from "./internal/Kernel.ts"
import { key } from "./internal/Mounts.ts"
import * as Pace from "./internal/Pace.ts"
import * as Removal from "./internal/Removal.ts"
import { type Item, type Queue, queueOf, setAside } from "./internal/TrashQueue.ts"
import * as Tree from "./internal/Tree.ts"

/**
 * @category options
 * @since 0.1.0
 */
export interface SweepOptions {
  /** At most so many names are tried: files and directories, those that would not go as well. */
  readonly maxUnlinked: number
  /** When to stop, in milliseconds of the Clock. */
  readonly until?: number | undefined
  /**
   * How many files are removed side by side, 4 by default: large ones, and all where each takes long. Others go one by
   * one, which is faster.
   */
  readonly concurrency?: number | undefined
  /**
   * Called every now and then, and a last time when the sweep is interrupted. It cannot be interrupted itself, and the
   * sweep waits for it.
   */
  readonly onProgress?: ((soFar: SweepReport) => Effect.Effect<void>) | undefined
}

/**
 * @category models
 * @since 0.1.0
 */
export interface SweepFailure {
  readonly path: string
  /** In words, with the errno name where there is one. */
  readonly reason: string
}

/**
 * What a sweep did. In a report of progress the lists go on growing.
 *
 * @category models
 * @since 0.1.0
 */
export interface SweepReport {
  /** Names that this sweep unlinked, directories included. */
  readonly unlinked: number
  /** Blocks given back. A file with a further name outside gives none. */
  readonly freedBytes: number
  /** Entries of the trash that are gone by this sweep, by the names they were put there with. */
  readonly emptied: ReadonlyArray<string>
  /** What would not go: the first thousand of them. */
  readonly failed: ReadonlyArray<SweepFailure>
  /** How many would not go. */
  readonly failures: number
  /** Entries of the trash that are still there; of very many, at least so many. */
  readonly left: number
  /** So many of them are there because something in them would not go, in this sweep or an earlier one. */
  readonly stuck: number
  /** Whether everything was tried: what is left can only go once its reason is mended. */
  readonly finished: boolean
}

/** So many things may fail in an entry before it has to wait for the others. */
const allowance = 64

const maxListed = 1000

const namesPerBreath = 16

const breathsPerTelling = 16

const defaultConcurrency = 4

const visit = Effect.fnUntraced(function*(walk: Tree.Walk, item: Item, work: Removal.Work) {
  item.failures = 0
  item.listed.length = 0
  const above = item.name.toString().length
  return yield* Removal.remove(walk, item.name, work, {
    allowance: item.isStuck ? Number.POSITIVE_INFINITY : allowance,
    patient: !item.isStuck,
    failed: (path, reason) => {
      item.failures++
      if (item.listed.length < maxListed) item.listed.push({ below: path.slice(above), reason })
    }
  })
})

const directorySizesTell = Effect.fnUntraced(function*(path: string) {
  const files = yield* Files
  return Kernel.directorySizesTell(yield* Effect.orElseSucceed(files.fileSystemType(path), () => 0))
})

type Restore = Removal.Work["interruptible"]

const run = Effect.fnUntraced(function*(trash: string, walk: Tree.Walk, options: SweepOptions, restore: Restore) {
  const { concurrency = defaultConcurrency, maxUnlinked, onProgress, until } = options
  const emptied: Array<string> = []
  const failed: Array<SweepFailure> = []
  const tried = new Set<string>()
  let queue: Queue = { items: [], isCut: false, stuckBeyond: 0 }
  let failures = 0
  let unlinked = 0
  let freedBytes = 0
  let tries = 0
  let steps = 0
  let breaths = 0
  let isLate = false
  let sizesTell = false

  const failedOf = (items: Iterable<Item>) =>
    [...items].flatMap(({ listed, name }) =>
      listed.map(({ below, reason }) => ({ path: `${trash}/${name}${below}`, reason }))
    )
  const failuresOf = (items: Iterable<Item>) => [...items].reduce((sum, item) => sum + item.failures, 0)

  const report = (finished: boolean): SweepReport => {
    const items = new Set(queue.items)
    const remaining = [...items].filter((item) => !item.isGone)
    return {
      unlinked,
      freedBytes,
      emptied,
      failed: [...failed, ...failedOf(items)].slice(0, maxListed),
      failures: failures + failuresOf(items),
      left: remaining.length + queue.stuckBeyond,
      stuck: remaining.filter((item) => item.isStuck).length + queue.stuckBeyond,
      finished
    }
  }

  /** The next part is about to be looked for; what this one has left is known as stuck by then. */
  const conclude = () => {
    const items = new Set(queue.items)
    failed.push(...failedOf(items).slice(0, maxListed - failed.length))
    failures += failuresOf(items)
    for (const { isGone, name } of items) if (!isGone) tried.add(key(name))
  }
  const tell = Effect.suspend(() => onProgress === undefined ? Effect.void : onProgress(report(false)))

  const breathe = Effect.gen(function*() {
    yield* restore(Effect.yieldNow)
    if (until !== undefined && (yield* Clock.currentTimeMillis) >= until) isLate = true
    if (breaths++ % breathsPerTelling === 0) yield* tell
  })
  const work: Removal.Work = {
    concurrency,
    pace: Pace.make(),
    sizesTell: () => sizesTell,
    breathe,
    step: Effect.suspend(() => steps++ % namesPerBreath === 0 ? breathe : Effect.void),
    interruptible: restore,
    // Written so that what is not a number allows nothing.
    isSpent: () => isLate || !(tries < maxUnlinked),
    tried: () => void tries++,
    unlinked: (bytes) => {
      unlinked++
      freedBytes += bytes
    }
  }

  /** Grows while it is gone through, by what is set aside. */
  const goThroughPart = Effect.gen(function*() {
    for (const item of queue.items) {
      yield* work.step
      if (work.isSpent()) return false
      const outcome = yield* visit(walk, item, work)
      if (outcome === "stopped") return false
      if (outcome === "removed") emptied.push(item.label)
      if (outcome === "removed" || outcome === "vanished") item.isGone = true
      else yield* setAside(walk, item)
      if (outcome === "set aside") queue.items.push(item)
    }
    return true
  })

  const goThrough = Effect.gen(function*() {
    for (;;) {
      queue = yield* queueOf(walk, work, tried)
      if (queue.items.length > 0) sizesTell = yield* directorySizesTell(trash)
      const isDone = yield* goThroughPart
      if (!isDone || !queue.isCut) return isDone
      conclude()
    }
  })
  return report(yield* Effect.onInterrupt(goThrough, () => tell))
})

const nothing: SweepReport = {
  unlinked: 0,
  freedBytes: 0,
  emptied: [],
  failed: [],
  failures: 0,
  left: 0,
  stuck: 0,
  finished: true
}

const withoutTrash = (trash: string, errno: Errno): SweepReport =>
  errno.code === "ENOENT"
    ? nothing
    : { ...nothing, failed: [{ path: trash, reason: Removal.explain(errno) }], failures: 1 }

/**
 * Deletes what lies in the trash of a store, as far as the budget goes. It never fails.
 *
 * **Details**
 *
 * An interruption takes effect between two names, within a millisecond or after the removal of the large files that
 * are under way; `onProgress` then gets what was done so far. Whoever only wants to stop early gives `until`.
 *
 * **Example** (A bounded sweep)
 *
 * ```ts
 * import * as Clock from "effect/Clock"
 * import * as Effect from "effect/Effect"
 * import * as TrashSweep from "leasehold/TrashSweep"
 *
 * const program = Effect.gen(function*() {
 *   const now = yield* Clock.currentTimeMillis
 *   const report = yield* TrashSweep.sweep("/srv/builds", { maxUnlinked: 10_000, until: now + 500 })
 *   console.log(report.freedBytes, report.finished)
 * })
 * ```
 *
 * @category sweeping
 * @since 0.1.0
 */
export const sweep = (root: string, options: SweepOptions): Effect.Effect<SweepReport> =>
  Effect.uninterruptibleMask((restore) => {
    const trash = `${root}/trash`
    return Tree.open(trash).pipe(
      Effect.flatMap((walk) => Effect.ensuring(run(trash, walk, options, restore), walk.close)),
      Effect.catch((errno) => Effect.succeed(withoutTrash(trash, errno)))
    )
  })

/**
 * The same without a bound.
 *
 * @internal
 */
export const sweepAll = (root: string): Effect.Effect<SweepReport> =>
  sweep(root, { maxUnlinked: Number.POSITIVE_INFINITY })
