/**
 * Names of artifacts: relative paths with forward slashes that stay where they are put, on every platform.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/**
 * @category errors
 * @since 0.1.0
 */
export class BadArtifactName extends Schema.TaggedError<BadArtifactName>()("BadArtifactName", {
  artifact: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    const shown = this.artifact.length > 60 ? `${this.artifact.slice(0, 57)}...` : this.artifact
    return `${JSON.stringify(shown)} cannot name an artifact: ${this.problem}`
  }
}

const problemOf = (name: string): string | undefined => {
  if (name === "") return "it is empty"
  if (name.includes("\0")) return "it has a NUL character in it"
  if (name.startsWith("/") || /^[A-Za-z]:/.test(name)) return "it is an absolute path; give one within artifacts/"
  if (name.includes("\\")) return "it has a backslash in it; use forward slashes"
  const parts = name.split("/")
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    return "each part between slashes must be a name, not empty, \".\" or \"..\""
  }
  return parts.some((part) => new TextEncoder().encode(part).length > 255) ? "a part is over 255 bytes" : undefined
}

/**
 * Checks a name from outside before it comes near a path.
 *
 * @category decoding
 * @since 0.1.0
 */
export const parse = (name: string): Result.Result<string, BadArtifactName> => {
  const problem = problemOf(name)
  return problem === undefined ? Result.succeed(name) : Result.fail(new BadArtifactName({ artifact: name, problem }))
}
