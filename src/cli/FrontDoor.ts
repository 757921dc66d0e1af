/**
 * The door for what people wait for most often, in the words in which they mostly ask for it. It understands a part of
 * what the full parser does, and that part alike, without loading it; whoever asks for anything else is sent on.
 */
import * as Effect from "effect/Effect"
import { parseArgs } from "node:util"
import * as Listing from "./Listing.ts"
import { type AnyOption, type Given, nameOf, type Options, read } from "./Options.ts"
import * as Report from "./Report.ts"
import { settings, storeOf } from "./Settings.ts"
import * as Starting from "./Starting.ts"

interface Understood<O extends Options> {
  readonly given: Given<O>
  /** What follows `--`. */
  readonly operands: ReadonlyArray<string>
}

const wordedAs = (option: AnyOption) => ({
  type: option.kind === "switch" ? "boolean" as const : "string" as const,
  multiple: true,
  ...("alias" in option && option.alias !== undefined ? { short: option.alias } : {})
})

const tokensOf = (options: Options, words: ReadonlyArray<string>) => {
  const known = Object.fromEntries(Object.entries(options).map(([key, option]) => [nameOf(key), wordedAs(option)]))
  try {
    return parseArgs({ args: [...words], options: known, allowPositionals: true, tokens: true }).tokens
  } catch {
    return undefined
  }
}

/** What the words after the name of a command say, if nothing in them is new, twice, empty or out of place. */
export const understand = <O extends Options>(
  options: O,
  words: ReadonlyArray<string>
): Understood<O> | undefined => {
  const tokens = tokensOf(options, words)
  if (tokens === undefined) return undefined
  const end = tokens.find(({ kind }) => kind === "option-terminator")?.index ?? words.length
  const said: Record<string, Array<string>> = {}
  for (const token of tokens) {
    if (token.index >= end) break
    // Of `-n5` the full parser thinks otherwise.
    if (token.kind !== "option" || (token.inlineValue === true && !token.rawName.startsWith("--"))) return undefined
    ;(said[token.name] ??= []).push(token.value ?? token.name)
  }
  const values = Object.entries(options).map(([key, option]) => [key, read(option, said[nameOf(key)] ?? [])] as const)
  if (values.some(([, value]) => value === undefined)) return undefined
  return { given: Object.fromEntries(values) as Given<O>, operands: words.slice(end + 1) }
}

type Door = (words: ReadonlyArray<string>) => Effect.Effect<void, unknown> | undefined

const doors: Readonly<Record<string, Door>> = {
  run: (words) => {
    const said = understand({ ...Starting.options, ...settings }, words)
    return said === undefined || said.operands.length === 0
      ? undefined
      : Effect.provide(Starting.start(said.given, said.operands), storeOf(said.given, true))
  },
  ls: (words) => {
    const said = understand({ ...Listing.options, ...settings }, words)
    if (said === undefined || said.operands.length > 0) return undefined
    Report.endWithOutput()
    return Effect.provide(Listing.list(said.given, said.given.json), storeOf(said.given, false))
  }
}

/** The command that is asked for, if this is the door for it. */
export const enter: Door = ([word = "", ...rest]) => Object.hasOwn(doors, word) ? doors[word]!(rest) : undefined
