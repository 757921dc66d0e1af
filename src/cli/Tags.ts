/** Tags as they are written on a command line. */
import * as Result from "effect/Result"
import { UsageError } from "./ExitCode.ts"

export const tagOption = {
  kind: "texts",
  metavar: "KEY=VALUE",
  description: "A tag; may be given more than once"
} as const

/** `key=value`, or a key alone where it may stand for any value. */
export const parseTag = (
  text: string,
  options?: { readonly valueOptional?: boolean }
): Result.Result<readonly [string, string | undefined], UsageError> => {
  const at = text.indexOf("=")
  if (at > 0) return Result.succeed([text.slice(0, at), text.slice(at + 1)])
  return options?.valueOptional === true && at === -1 && text !== ""
    ? Result.succeed([text, undefined])
    : Result.fail(new UsageError(`${JSON.stringify(text)} is not a tag: write KEY=VALUE`))
}
