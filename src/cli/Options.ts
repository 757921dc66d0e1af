/**
 * Options of a command as data. The full parser of `effect/cli` and the front door are both made from it, so that names,
 * defaults and descriptions have one place.
 */
import * as Option from "effect/Option"

interface Kind<Name extends string> {
  readonly kind: Name
  readonly description: string
}

interface Text extends Kind<"text"> {
  readonly metavar?: string
  /** What to give, where the text may not be empty. */
  readonly nonEmpty?: string
}

/** An option that may be given again and again. */
interface Texts extends Kind<"texts"> {
  readonly metavar: string
}

interface Switch extends Kind<"switch"> {
  readonly alias?: string
}

interface Count extends Kind<"count"> {
  readonly alias?: string
  readonly fallback: number
}

interface Choice<A extends string> extends Kind<"choice"> {
  readonly choices: ReadonlyArray<A>
  readonly fallback: A
}

interface Choices<A extends string> extends Kind<"choices"> {
  readonly choices: ReadonlyArray<A>
}

export type AnyOption = Text | Texts | Switch | Count | Choice<string> | Choices<string>

/** By the names that they have in programs, as in `noInheritLease`. */
export type Options = { readonly [key: string]: AnyOption }

/** How often an option may be given. */
export const mostOf = (option: AnyOption): number =>
  option.kind === "texts" ? 1000 : option.kind === "choices" ? option.choices.length : 1

/** The name on a command line: `no-inherit-lease`. */
export const nameOf = (key: string): string => key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export type Value<O extends AnyOption> = O extends Text ? Option.Option<string>
  : O extends Texts ? ReadonlyArray<string>
  : O extends Switch ? boolean
  : O extends Count ? number
  : O extends Choice<infer A> ? A
  : O extends Choices<infer A> ? ReadonlyArray<A>
  : never

/** What a command is given. */
export type Given<O extends Options> = { readonly [Key in keyof O]: Value<O[Key]> }

const isOneOf = (choices: ReadonlyArray<string>) => (word: string) => choices.includes(word)

/** The value of an option from the words given for it, where there is nothing to say against them. */
export const read = (option: AnyOption, words: ReadonlyArray<string>): Value<AnyOption> | undefined => {
  const [first] = words
  // An empty word may be wrong in some places, which is for the full parser to say.
  if (words.length > mostOf(option) || words.includes("")) return undefined
  switch (option.kind) {
    case "text":
      return Option.fromUndefinedOr(first)
    case "texts":
      return words
    case "switch":
      return first !== undefined
    case "count":
      return first === undefined ? option.fallback : /^\d{1,9}$/.test(first) ? Number(first) : undefined
    case "choice":
      return first === undefined || isOneOf(option.choices)(first) ? first ?? option.fallback : undefined
    case "choices":
      return words.every(isOneOf(option.choices)) ? words : undefined
  }
}
