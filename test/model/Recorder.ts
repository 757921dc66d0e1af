/** Doors that write down which steps of the protocol an implementation makes, in the words of the model. */
import * as Effect from "effect/Effect"
import { Files, type FilesApi, Flags, node } from "../../src/internal/Files.ts"
import { Locks, type LocksApi, native } from "../../src/internal/Locks.ts"
import type { AtDoor } from "./Steps.ts"

const endsWith = (path: string, name: string) => path.endsWith(`/${name}`)

const isHolder = (path: string) => /\/holders\/[^/]+\.json$/.test(path)

/** The steps that an effect makes, in order. What did not succeed is none. */
export const record = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<ReadonlyArray<AtDoor>, E, R> =>
  Effect.suspend(() => {
    const steps: Array<AtDoor> = []
    const opened = new Map<number, string>()
    const locked = new Set<number>()
    const note = (step: AtDoor) => Effect.sync(() => void steps.push(step))
    const open: FilesApi["open"] = (path, flags, mode) =>
      Effect.tap(node.open(path, flags, mode), (fd) => {
        opened.set(fd, path)
        if (endsWith(path, "lease")) return note(flags === Flags.create ? "make lease" : "open lease")
        if (!endsWith(path, "run.json")) return Effect.void
        return flags === Flags.read ? note("read record") : flags === Flags.create ? note("write record") : Effect.void
      })
    const files: FilesApi = {
      ...node,
      open,
      close: (fd) => {
        const path = opened.get(fd) ?? ""
        opened.delete(fd)
        const letsGo = locked.delete(fd)
        return Effect.andThen(
          letsGo ? note(endsWith(path, "lease") ? "unlock" : "unlock record") : Effect.void,
          node.close(fd)
        )
      },
      lstat: (path) => Effect.tap(node.lstat(path), () => endsWith(path, "lease") ? note("check inode") : Effect.void),
      mkdir: (path, options) =>
        Effect.tap(
          node.mkdir(path, options),
          () => /\/staging\/[^/]+$/.test(path) ? note("make staging") : Effect.void
        ),
      rename: (from, to) => {
        const step = endsWith(to, "run.json")
          ? "write record"
          : isHolder(to)
          ? "write holder"
          : to.includes("/trash/")
          ? "trash"
          : from.includes("/staging/")
          ? "publish"
          : undefined
        return Effect.tap(node.rename(from, to), () => step === undefined ? Effect.void : note(step))
      },
      unlink: (path) => Effect.andThen(isHolder(path) ? note("remove holder") : Effect.void, node.unlink(path))
    }
    const lock = (mode: "lock shared" | "lock exclusive"): LocksApi["tryShared"] => (fd, path) =>
      Effect.tap((mode === "lock shared" ? native.tryShared : native.tryExclusive)(fd, path), (granted) => {
        if (!granted || !/\/(lease|run\.json)$/.test(path)) return Effect.void
        locked.add(fd)
        return note(endsWith(path, "lease") ? mode : "lock record")
      })
    const locks: LocksApi = {
      tryShared: lock("lock shared"),
      tryExclusive: lock("lock exclusive"),
      tryDowngrade: (fd, path) => Effect.andThen(note("downgrade"), native.tryDowngrade(fd, path))
    }
    return effect.pipe(
      Effect.provideService(Files, files),
      Effect.provideService(Locks, locks),
      Effect.map(() => steps)
    )
  })
