/**
 * Which parts of a bundle are to be trimmed: globs, matched against the ways to names from the top of the bundle.
 *
 * `*` and `?` match within a name, `**` any number of names, dotfiles as well; `{a,b}`, `[a-z]` and `!(a)` do as in a
 * shell. A directory that is matched goes with all that is in it, and so `temp/**` takes whatever is in `temp`. The
 * directories that every bundle has stay and are emptied: `temp` says the same as `temp/**`.
 *
 * What is Leasehold's own (`run.json` and what begins so, `lease`, `holders`) is never matched, whatever a glob says.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import picomatch from "picomatch"
import { TrimPathError } from "./TrimError.ts"
import { isOwn, maxGlobs, problemOf } from "./TrimGlobs.ts"

export { defaultPaths } from "./TrimGlobs.ts"

/**
 * Globs that were checked. The ways that are asked about have slashes between names and none at the ends.
 *
 * @category models
 * @since 0.1.0
 */
export interface TrimPaths {
  readonly globs: ReadonlyArray<string>
  readonly isMatch: (way: string) => boolean
  /** Whether anything below a directory may be matched; only then has it to be looked through. */
  readonly mayHold: (way: string) => boolean
}

/** Those of which each is there in every bundle, and whose files a program may expect to be able to make. */
const standing: ReadonlySet<string> = new Set(["logs", "telemetry", "temp", "artifacts"])

/** With dotfiles, in the way of POSIX whatever the system, and with line breaks in names like any character. */
const options = { dot: true, strictSlashes: true, nonegate: true, windows: false, flags: "s" } as const

/** The names that a glob begins with for certain. */
const baseOf = (glob: string): string => glob.includes("\\") ? "" : picomatch.scan(glob).base

const lead = (way: string, to: string) => way === "" || way === to || to.startsWith(`${way}/`)

const topOf = (way: string) => way.slice(0, (way.indexOf("/") + 1 || way.length + 1) - 1)

const parse = (glob: string): Result.Result<Omit<TrimPaths, "globs">, TrimPathError> => {
  const problem = problemOf(glob)
  if (problem !== undefined) return Result.fail(new TrimPathError({ path: glob, problem }))
  return Result.try({
    try: () => {
      const base = baseOf(glob)
      return { isMatch: picomatch(glob, options), mayHold: (way: string) => lead(base, way) || lead(way, base) }
    },
    catch: (cause) => new TrimPathError({ path: glob, problem: String(cause) })
  })
}

/**
 * Checks globs from outside.
 *
 * **Details**
 *
 * Refused are none at all, an empty one, an absolute one, one with a NUL character or with a part that is empty, `.` or
 * `..`, one that begins with `!`, and one that could match nothing but what is Leasehold's own.
 *
 * @category decoding
 * @since 0.1.0
 */
export const checkPaths = (globs: ReadonlyArray<string>): Result.Result<TrimPaths, TrimPathError> => {
  if (globs.length === 0 || globs.length > maxGlobs) {
    return Result.fail(new TrimPathError({ path: "", problem: `give 1 to ${maxGlobs} of them` }))
  }
  return Result.map(Result.all(globs.map(parse)), (parsed) => {
    const isAny = (way: string) => parsed.some(({ isMatch }) => isMatch(way))
    return {
      globs: [...new Set(globs)],
      isMatch: (way) => {
        const top = topOf(way)
        if (isOwn(top) || standing.has(way)) return false
        return isAny(way) || (standing.has(top) && isAny(top))
      },
      mayHold: (way) => !isOwn(topOf(way)) && parsed.some(({ mayHold }) => mayHold(way))
    }
  })
}
