/**
 * Takes secrets out of argument lists and messages before they are written to a record.
 *
 * A secret is known by its name (`--password x`, `DB_PASSWORD=x`, `"apiKey": "x"`, `X-Auth-Token: x`), by where it
 * stands (a password in a URL, what follows `Bearer`) or by its shape (private keys, JSON web tokens, the tokens of
 * well-known services). It is replaced by `[redacted]`; everything around it stays. Where a text can be read in two
 * ways, too much goes rather than too little.
 *
 * Redacting twice gives the same as redacting once, and the time it takes grows with the length of the text.
 *
 * **Gotchas**
 *
 * This is a net, not a wall. It does not see a secret behind a single-letter flag (`mysql -phunter2`), one that stands
 * alone and looks like any word, the user part of a URL without a password, or one that was encoded by somebody else.
 * Give a pattern for those, or better, hand secrets over in files or in the environment.
 *
 * @since 0.1.0
 */
import {
  afterScheme,
  custom,
  type Finder,
  replacement,
  type Span,
  standard as standardFinder
} from "./internal/SecretFinders.ts"
import { isSecretFlag, isSecretName, isSwitchValue } from "./internal/SecretNames.ts"

export { replacement }

/**
 * Two total functions. `argv` knows that a secret may be the argument after a flag, `text` is for messages and scripts.
 *
 * @category models
 * @since 0.1.0
 */
export interface Redactor {
  readonly argv: (argv: ReadonlyArray<string>) => Array<string>
  readonly text: (text: string) => string
}

/**
 * A redactor, with further patterns of the caller's own.
 *
 * **Details**
 *
 * Of a match of a caller's pattern all is replaced, or only the group named `secret` where the pattern has one. A
 * pattern is used everywhere in the text, whether or not it has the flags `g` or `y`, and is never changed.
 *
 * **Gotchas**
 *
 * Patterns see one argument at a time. How long a caller's pattern takes is in the caller's hands.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options?: { readonly patterns?: ReadonlyArray<RegExp> | undefined }): Redactor => {
  const finders = [standardFinder, ...(options?.patterns ?? []).map(custom)]
  const text = (text: string) => redact(text, finders)
  return { text, argv: (argv) => argv.map((arg, index) => text(hideArgument(arg, argv[index - 1]))) }
}

// == replacing

/** A pattern that cuts into a replacement takes all of it, so that none is ever found half eaten. */
const widen = (text: string, [start, end]: Span): Span => {
  let [from, to] = [start, end]
  for (let offset = 1; offset < replacement.length; offset++) {
    if (text.startsWith(replacement, start - offset) && start >= offset) from = start - offset
    if (text.startsWith(replacement, end - offset) && end >= offset) to = end - offset + replacement.length
  }
  return [from, to]
}

const hide = (text: string, spans: ReadonlyArray<Span>): string => {
  const sorted = spans.filter(([start, end]) => start < end).map((span) => widen(text, span)).sort((a, b) =>
    a[0] - b[0]
  )
  const parts: Array<string> = []
  let done = 0
  for (let index = 0; index < sorted.length;) {
    let [start, end] = sorted[index++] ?? [0, 0]
    for (let next = sorted[index]; next !== undefined && next[0] <= end; next = sorted[++index]) {
      end = Math.max(end, next[1])
    }
    const hidden = text.slice(start, end)
    parts.push(text.slice(done, start), hidden.replaceAll(replacement, "") === "" ? hidden : replacement)
    done = end
  }
  return parts.length === 0 ? text : parts.join("") + text.slice(done)
}

/**
 * What is left after a replacement may read differently, so it is read again until nothing changes. Two rounds are the
 * rule; the limit is for callers' patterns that feed on the replacement.
 */
const maxRounds = 16

const redact = (text: string, finders: ReadonlyArray<Finder>): string => {
  let current = text
  for (let round = 0; round < maxRounds; round++) {
    const next = hide(current, finders.flatMap((find) => find(current)))
    if (next === current) break
    current = next
  }
  return current
}

// == arguments

const isFlag = (arg: string): boolean => /^--?[A-Za-z][\w.-]{0,126}(?:=|$)/.test(arg) || arg === "-" || arg === "--"

const longFlag = /^--?[A-Za-z][\w.-]{1,126}$/

const hideFrom = (arg: string, start: number): string =>
  isSwitchValue(arg.slice(start)) ? arg : arg.slice(0, afterScheme(arg, start)) + replacement

/** In an argument of its own a value needs no quotes: all of it is the secret, with its spaces, `&` and `;`. */
const hideArgument = (arg: string, before = ""): string => {
  if (longFlag.test(before) && isSecretFlag(before) && !isFlag(arg)) return hideFrom(arg, 0)
  // The script of a shell may begin with an assignment, and more than the value follows.
  if (/^(?:-[A-Za-z]*c|--command)$/.test(before)) return arg
  const name = /^([\w.-]{1,128})=/.exec(arg)?.[1]
  if (name !== undefined && isSecretName(name)) return hideFrom(arg, name.length + 1)
  const header = /^(?:-H|--(?:proxy-)?headers?)$/.test(before) ? /^([\w-]{1,128}):[ \t]{0,80}/.exec(arg) : null
  return header !== null && isSecretName(header[1] ?? "") ? hideFrom(arg, header[0].length) : arg
}

/**
 * The redactor that is used where nothing else is asked for.
 *
 * @category constructors
 * @since 0.1.0
 */
export const standard: Redactor = make()
