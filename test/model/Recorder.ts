/** Doors that write down which steps of the protocol an implementation makes, in the words of the model. */
import * as Effect from "effect/Effect"
import { Files, type FilesApi, Flags, node } from "../../src/internal/Files.ts"
import { Locks, type LocksApi, native } from "../../src/internal/Locks.ts"
import type { AtDoor } from "./Steps.ts"

const endsWith = (path: string, name: string) => path.endsWith(`/${name}`)

const isHolder = (path: string) => /\/holders\/[^/]+\.json$/.test(path)

const isDraft = (path: string) => /\/staging\/[^/]+\.tar\.zst$/.test(path)

const isArchive = (path: string) => /\/archive\/.*\.tar\.zst$/.test(path)

const isBundle = (path: string) => /\/runs\/[^/]+\/[^/]+$/.test(path)

const isStaged = (path: string) => /\/staging\/[^/.]+$/.test(path)

/** The steps that an effect makes, in order. What did not succeed is none. */
export const record = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<ReadonlyArray<AtDoor>, E, R> =>
  Effect.suspend(() => {
    const steps: Array<AtDoor> = []
    const opened = new Map<number, string>()
    const locked = new Set<number>()
    const note = (step: AtDoor) => Effect.sync(() => void steps.push(step))
    /** For what takes many calls, or is done again at once. */
    const noteOnce = (step: AtDoor) => Effect.suspend(() => steps.at(-1) === step ? nothing : note(step))
    const nothing = Effect.void
    const isLockedNow = (path: string) => [...locked].some((fd) => opened.get(fd) === path)
    const open: FilesApi["open"] = (path, flags, mode) =>
      Effect.tap(
        Effect.andThen(
          isDraft(path) && flags === Flags.lock ? note("clear draft") : nothing,
          node.open(path, flags, mode)
        ),
        (fd) => {
          opened.set(fd, path)
          if (endsWith(path, "lease")) return note(flags === Flags.create ? "make lease" : "open lease")
          if (isDraft(path)) return flags === Flags.create ? note("make draft") : nothing
          if (isArchive(path)) return flags === Flags.lock ? note("open archive") : nothing
          return endsWith(path, "run.json") && flags === Flags.create ? note("write record") : nothing
        }
      )
    const files: FilesApi = {
      ...node,
      open,
      close: (fd) => {
        const path = opened.get(fd) ?? ""
        opened.delete(fd)
        const letsGo = locked.delete(fd)
        const of = endsWith(path, "lease") ? "unlock" : endsWith(path, "run.json") ? "unlock record" : "unlock archive"
        return Effect.andThen(letsGo ? note(of) : nothing, node.close(fd))
      },
      read: (fd, buffer, path, position) =>
        Effect.andThen(
          isArchive(path) ? noteOnce("read archive") : endsWith(path, "run.json") ? noteOnce("read record") : nothing,
          node.read(fd, buffer, path, position)
        ),
      lstat: (path) =>
        node.lstat(path).pipe(
          Effect.tap(() => {
            if (endsWith(path, "lease")) return note("check inode")
            // Whether there is one at all is asked as well, and decides nothing.
            if (isArchive(path)) return isLockedNow(path) ? note("check archive") : nothing
            return isDraft(path) ? note("check draft") : nothing
          }),
          Effect.onExit(() => isStaged(path) ? note("clear staging") : nothing),
          Effect.tapError(() => isBundle(path) ? noteOnce("look for bundle") : nothing)
        ),
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
          : isArchive(to)
          ? "publish archive"
          : to.endsWith(".restored")
          ? "write mark"
          : from.includes("/staging/")
          ? "publish"
          : undefined
        return Effect.tap(node.rename(from, to), () => step === undefined ? Effect.void : note(step))
      },
      unlink: (path) =>
        Effect.andThen(
          isHolder(path) ? note("remove holder") : isArchive(path) ? note("drop archive") : nothing,
          node.unlink(path)
        )
    }
    const lock = (mode: "lock shared" | "lock exclusive"): LocksApi["tryShared"] => (fd, path) =>
      Effect.tap((mode === "lock shared" ? native.tryShared : native.tryExclusive)(fd, path), (granted) => {
        if (!granted || !/\/(lease|run\.json|[^/]+\.tar\.zst)$/.test(path)) return nothing
        locked.add(fd)
        if (endsWith(path, "lease")) return note(mode)
        return note(isDraft(path) ? "lock draft" : isArchive(path) ? "lock archive" : "lock record")
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
