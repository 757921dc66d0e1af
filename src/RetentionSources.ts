/**
 * Where a policy is stated: in a file, in the environment, on a command line. Each gives what the same fields in code
 * give, and is refused in the same words, after the name of the file or the variable.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import { policyPrefix } from "./internal/Environment.ts"
import { decode, encode, type Field, fieldNames, type PolicyError, type RetentionPolicy } from "./RetentionPolicy.ts"
import { from, isSizeField, noObject } from "./RetentionPolicyError.ts"
import { evenSize } from "./RetentionReason.ts"

/**
 * Reads the text of a policy file: one JSON object.
 *
 * @category decoding
 * @since 0.1.0
 */
export const fromJson = (text: string): Result.Result<RetentionPolicy, PolicyError> =>
  Result.flatMap(
    Result.try({
      try: (): unknown => JSON.parse(text),
      catch: (cause) => noObject(text, `it is no JSON (${cause instanceof Error ? cause.message : cause}); `)
    }),
    decode
  )

const words = (field: Field) => field.replaceAll(/[A-Z]/g, (letter) => `_${letter}`)

/**
 * The environment variable of a field: `LEASEHOLD_RETENTION_MAX_AGE`.
 *
 * @category getters
 * @since 0.1.0
 */
export const variableOf = (field: Field): string => policyPrefix + words(field).toUpperCase()

/**
 * The flag of a field on the command line: `--max-age`.
 *
 * @category getters
 * @since 0.1.0
 */
export const flagOf = (field: Field): string => `--${words(field).replaceAll("_", "-").toLowerCase()}`

/** The variable that an error is about, as it is written there. */
const originOf = ({ field }: PolicyError, env: { readonly [name: string]: string | undefined }) => {
  const known = fieldNames.find((name) => name === field)
  const variable = known === undefined ? policyPrefix + field : variableOf(known)
  return env[variable] === undefined ? `${policyPrefix}…` : variable
}

/**
 * Reads a policy from environment variables; lists have commas between. A variable with our prefix that names no field
 * is refused as a misspelt field is, and so is an empty one. `undefined` when there is none, so that a default can
 * stand.
 *
 * @category decoding
 * @since 0.1.0
 */
export const fromEnv = (
  env: { readonly [name: string]: string | undefined }
): Result.Result<RetentionPolicy | undefined, PolicyError> => {
  const given = Object.entries(env).flatMap(([name, value]) => {
    if (!name.startsWith(policyPrefix) || value === undefined) return []
    return [
      [fieldNames.find((field) => variableOf(field) === name) ?? name.slice(policyPrefix.length), value] as const
    ]
  })
  if (given.length === 0) return Result.succeed(undefined)
  return Result.mapError(
    decode(Object.fromEntries(given)),
    (error) => from(originOf(error, env), error, `${variableOf("all")}=true`)
  )
}

/** A tier in one word, as a flag and a variable have it. */
const textOf = (value: unknown): string => {
  if (typeof value !== "object" || value === null || !("after" in value)) return String(value)
  return "paths" in value ? `${String(value.after)}:${String(value.paths)}` : String(value.after)
}

/**
 * The arguments of a command line that states the policy: `["--max-bundles", "200"]`. Not quoted for a shell.
 *
 * @category rendering
 * @since 0.1.0
 */
export const toArgs = (policy: RetentionPolicy): ReadonlyArray<string> => {
  const encoded = encode(policy)
  return fieldNames.flatMap((field) => {
    const value = encoded[field]
    if (value === undefined || value === false) return []
    if (value === true) return [flagOf(field)]
    return (Array.isArray(value) ? value : [value])
      .flatMap((member) => [flagOf(field), isSizeField(field) ? evenSize(Number(member)).join("") : textOf(member)])
  })
}
