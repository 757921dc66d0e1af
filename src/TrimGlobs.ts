/**
 * Globs that say what to trim, before anything is matched: which of them make sense at all.
 *
 * @since 0.1.0
 */

/**
 * What is trimmed where nothing else is said.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaultPaths: readonly [string, ...Array<string>] = ["temp/**"]

const maxLength = 1000

/**
 * So many may be given at once.
 *
 * @internal
 */
export const maxGlobs = 100

/** @internal */
export const isOwn = (top: string): boolean => top.startsWith("run.json") || top === "lease" || top === "holders"

/**
 * What is wrong with a glob, if anything is.
 *
 * @category guards
 * @since 0.1.0
 */
export const problemOf = (glob: string): string | undefined => {
  if (glob === "") return "it is empty; write temp/** for all that is in temp"
  if (glob.includes("\0")) return "it has a NUL character in it"
  if (glob.length > maxLength) return `it is longer than ${maxLength} characters`
  if (glob.startsWith("/") || /^[A-Za-z]:/.test(glob)) return "it is an absolute path; give one within the bundle"
  if (/^!(?!\()/.test(glob)) return "it begins with \"!\", and nothing is taken out again; say what is to go"
  const parts = glob.split("/")
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    return "each part between slashes must be a name or a pattern, not empty, \".\" or \"..\""
  }
  return isOwn(parts[0] ?? "") ? "it is Leasehold's own, which is never trimmed" : undefined
}

/**
 * How a glob is refused.
 *
 * @internal
 */
export const refusalOf = (glob: string, problem: string): string => {
  const shown = glob.length > 60 ? `${glob.slice(0, 57)}...` : glob
  return `${JSON.stringify(shown)} cannot say what to trim: ${problem}`
}

/**
 * What a policy has of `trim` in one text: a length of time, and globs behind a colon if there are any.
 *
 * @internal
 */
export const splitTrim = (text: string): { readonly after: string; readonly paths?: string } => {
  const [after = "", ...paths] = text.split(":")
  return paths.length === 0 ? { after } : { after, paths: paths.join(":") }
}

/**
 * Globs in one text with commas between: none of those within the braces or brackets of a glob.
 *
 * @internal
 */
export const splitGlobs = (text: string): ReadonlyArray<string> => {
  const globs: Array<string> = []
  let depth = 0
  let start = 0
  for (let index = 0; index < text.length; index++) {
    const letter = text.charAt(index)
    if ("{([".includes(letter)) depth++
    else if ("})]".includes(letter)) depth--
    else if (letter === "," && depth <= 0) {
      globs.push(text.slice(start, index))
      start = index + 1
    }
  }
  return [...globs, text.slice(start)]
}
