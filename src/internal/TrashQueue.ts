/**
 * The order in which the entries of the trash have their turn: those that are fresh, and then, beginning anywhere, those
 * that would not go before.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import { Files } from "./Files.ts"
import { key } from "./Mounts.ts"
import type * as Removal from "./Removal.ts"
import type * as Tree from "./Tree.ts"

const stuckSuffix = ".stuck"

/**
 * Whether the name of an entry of the trash says that a sweep could not remove it in whole.
 *
 * @internal
 */
export const isStuck = (name: string): boolean => name.endsWith(stuckSuffix)

/**
 * An entry of the trash, and what a sweep has met in it.
 *
 * @internal
 */
export interface Item {
  /** As it was put there. */
  readonly label: string
  name: Buffer
  isStuck: boolean
  isGone: boolean
  failures: number
  readonly listed: Array<{ readonly below: string; readonly reason: string }>
}

const makeItem = (name: Buffer): Item => {
  const label = name.toString()
  return {
    label: isStuck(label) ? label.slice(0, -stuckSuffix.length) : label,
    name,
    isStuck: isStuck(label),
    isGone: false,
    failures: 0,
    listed: []
  }
}

/** So many entries are remembered at a time, of those that are fresh and of those that are stuck. */
const maxRemembered = 4096

/**
 * What is to be gone through, in order; and how many more were seen.
 *
 * @internal
 */
export interface Queue {
  readonly items: Array<Item>
  /** Whether there may be more that are fresh: then nothing that is stuck has its turn yet. */
  readonly isCut: boolean
  readonly stuckBeyond: number
}

/**
 * What is in the trash. There may be very many: as soon as enough are known they are gone through, and the rest is looked
 * for afterwards. What was `tried` in this sweep is not tried again.
 *
 * @internal
 */
export const queueOf = Effect.fnUntraced(function*(walk: Tree.Walk, work: Removal.Work, tried: ReadonlySet<string>) {
  const files = yield* Files
  const fresh: Array<Item> = []
  const stuck: Array<Item> = []
  let stuckBeyond = 0
  const listing = yield* files.listAt(walk.place())
  const isCut = yield* Effect.gen(function*() {
    for (let piece = yield* listing.read; piece.length > 0; piece = yield* listing.read) {
      for (const { name } of piece) {
        const item = makeItem(name)
        if (tried.has(key(name)) || (item.isStuck && stuck.length >= maxRemembered)) stuckBeyond++
        else if (item.isStuck) stuck.push(item)
        else fresh.push(item)
      }
      yield* work.step
      if (fresh.length >= maxRemembered || work.isSpent()) return true
    }
    return false
  }).pipe(Effect.ensuring(listing.close))
  const inOrder = (left: Item, right: Item) => Buffer.compare(left.name, right.name)
  fresh.sort(inOrder)
  if (isCut) return { items: fresh, isCut, stuckBeyond: stuckBeyond + stuck.length } satisfies Queue
  stuck.sort(inOrder)
  const first = stuck.length === 0 ? 0 : yield* Random.nextIntBetween(0, stuck.length, { halfOpen: true })
  return { items: [...fresh, ...stuck.slice(first), ...stuck.slice(0, first)], isCut, stuckBeyond } satisfies Queue
})

/**
 * Puts an entry behind all others, for this sweep and those to come.
 *
 * @internal
 */
export const setAside = Effect.fnUntraced(function*(walk: Tree.Walk, item: Item) {
  if (item.isStuck) return
  const files = yield* Files
  const name = Buffer.concat([item.name, Buffer.from(stuckSuffix)])
  const renamed = yield* Effect.result(files.renameAt(walk.place(), item.name, walk.place(), name))
  if (Result.isSuccess(renamed)) item.name = name
  item.isStuck = true
})
