/**
 * A command that has so much time and no more: told to end when that is over, and killed when it does not, with its
 * whole group. It reads nothing, and of what it writes only the end is kept.
 */
import * as Effect from "effect/Effect"
import type { Errno } from "./Errno.ts"
import { pause } from "./Pause.ts"
import * as Processes from "./Processes.ts"

/** @internal */
export interface Command {
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Handed on as the child's descriptor 3; of all others it gets none. */
  readonly descriptor: number | undefined
  /** A directory that only we write to. */
  readonly scratch: string
}

/**
 * How it ended. `inTime` is false where it was made to end, and `how` is nothing where not even that helped.
 *
 * @internal
 */
export interface Ended {
  readonly how: Processes.Ended | undefined
  readonly inTime: boolean
  /** The last of what it wrote, standard output and standard error as they came. */
  readonly output: string
}

/** So much of what it wrote is kept. */
const maxOutput = 64 * 1024

/** From one signal to the next, at most; what is in a system call that does not end cannot even be killed. */
const maxGrace = 1000

const tail = () => {
  let chunks: Array<Buffer> = []
  let bytes = 0
  return {
    take: (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes < 2 * maxOutput) return
      chunks = [Buffer.concat(chunks).subarray(-maxOutput)]
      bytes = maxOutput
    },
    text: () => Buffer.concat(chunks).subarray(-maxOutput).toString("utf8")
  }
}

/** Nothing, where the time was over first. Also where nobody may interrupt us. */
const within = <A>(effect: Effect.Effect<A>, millis: number) =>
  Effect.raceFirst(Effect.interruptible(effect), Effect.as(Effect.interruptible(pause(millis)), undefined))

/** Whoever leaves without waiting takes it along as far as can be. */
const endWithUs = (child: Processes.Child) => {
  const end = () => child.signal("SIGTERM")
  return Effect.acquireRelease(
    Effect.sync(() => void process.once("exit", end)),
    () => Effect.sync(() => void process.removeListener("exit", end))
  )
}

/**
 * Runs a command to its end, which comes in `millis` and half as long again; where it cannot be killed that has an end
 * after twice as long. Not to be interrupted: it would go on without anybody who waits for it.
 *
 * @internal
 */
export const run = Effect.fnUntraced(
  function*({ descriptor, scratch, ...command }: Command, millis: number): Effect.fn.Return<Ended, Errno> {
    const { take, text } = tail()
    return yield* Effect.scoped(Effect.gen(function*() {
      const child = yield* Processes.spawn({
        ...command,
        leaseFd: descriptor,
        output: { take, scratch },
        onLoss: () => {}
      })
      yield* endWithUs(child)
      const ended = yield* within(child.ended, millis)
      if (ended !== undefined) return { how: ended, inTime: true, output: text() }
      const grace = Math.min(maxGrace, millis / 2)
      child.signal("SIGTERM")
      const told = yield* within(child.ended, grace)
      // Its own end is not that of its group.
      child.signal("SIGKILL")
      const how = told ?? (yield* within(child.ended, grace))
      return { how, inTime: false, output: text() }
    }))
  },
  Effect.uninterruptible
)
