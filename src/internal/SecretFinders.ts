/** Where in a text the secrets stand: one finder for each way in which they are known. */
import {
  headerName,
  hint,
  isLongHeader,
  isPlainSecret,
  isSecretFlag,
  isSecretName,
  isSwitchValue,
  sentenceWords,
  wordsOf
} from "./SecretNames.ts"

/**
 * What stands where a secret was.
 *
 * @category constants
 * @since 0.1.0
 */
export const replacement = "[redacted]"

/** @internal */
export type Span = readonly [start: number, end: number]
/** @internal */
export type Finder = (text: string) => Array<Span>

/** Visits matches from left to right; the visitor says where to go on, so that no part is looked at twice. */
const each = (pattern: RegExp, text: string, visit: (match: RegExpExecArray, end: number) => number): void => {
  const own = new RegExp(pattern)
  for (let match = own.exec(text); match !== null; match = own.exec(text)) {
    own.lastIndex = visit(match, own.lastIndex)
  }
}

/**
 * The index of the first character of a class. The engine keeps a stack for `[a-z]+` and throws on some ten million
 * characters; a search for the first character that does not belong needs none.
 */
const search = (character: RegExp, text: string, from: number): number => {
  character.lastIndex = from
  return character.exec(text)?.index ?? text.length
}

const indexOrEnd = (text: string, part: string, from: number): number => {
  const index = text.indexOf(part, from)
  return index === -1 ? text.length : index
}

const matchesAt = (pattern: RegExp, text: string, at: number): boolean => {
  pattern.lastIndex = at
  return pattern.test(text)
}

const scheme = /(?:Bearer|Basic|Token|Negotiate)[ \t]{1,8}(?=[^\s"'])/iy

/** @internal */
export const afterScheme = (text: string, at: number): number => matchesAt(scheme, text, at) ? scheme.lastIndex : at

/** Whether a quote, read at this place, ends something that began before the value. */
const outerQuote = /[\s,;:.)\]}&|<>]|$/y

const stop = /[\s;&|<>"'`\\]/g

const quoteOrLineEnd = { "\"": /["\n]/g, "'": /['\n]/g, "`": /[`\n]/g }

const bareEnd = (text: string, start: number): number => {
  let at = start
  while (true) {
    const index = search(stop, text, at)
    const escaped = text[index] === "\\"
    const quote = text[escaped ? index + 1 : index]
    if (quote !== "\"" && quote !== "'" && quote !== "`") {
      if (!escaped || quote === undefined || quote === "\n" || quote === "\r") return index
      at = index + 2
      continue
    }
    const after = index + (escaped ? 2 : 1)
    if (escaped || matchesAt(outerQuote, text, after)) return index
    const close = search(quoteOrLineEnd[quote], text, after)
    at = text[close] === quote ? close + 1 : after
  }
}

const trimEnd = (text: string, start: number, end: number): number => {
  let at = end
  while (at > start && /[,.:)\]}]/.test(text[at - 1] ?? "") && !text.endsWith(replacement, at)) at--
  return at
}

const closing = (text: string, quote: string, from: number): number => {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\") at++
    else if (text[at] === quote) return at
  }
  return -1
}

const opening = /(\\{0,7})(["'`])/y

interface Value {
  readonly secret: Span
  readonly end: number
  readonly quoted: boolean
}

/** The value that begins here, without its quotes. One whose quote is never closed ends with the line. */
const valueAt = (text: string, at: number): Value => {
  opening.lastIndex = at
  const open = opening.exec(text)
  if (open === null) {
    const start = afterScheme(text, at)
    const end = bareEnd(text, start)
    return { secret: [start, trimEnd(text, start, end)], end, quoted: false }
  }
  const [all, escape = "", quote = ""] = open
  const inside = at + all.length
  const start = afterScheme(text, inside)
  let close = escape === "" ? closing(text, quote, start) : text.indexOf(quote, start)
  // A shell takes `'it'\''s'` for one word.
  while (close !== -1 && text.startsWith("\\''", close + 1) && text[close] === "'") {
    close = closing(text, "'", close + 4)
  }
  if (close === -1) {
    const end = indexOrEnd(text, "\n", start)
    return { secret: [start, end], end, quoted: true }
  }
  const after = close + 1
  if (escape !== "" || matchesAt(outerQuote, text, after)) {
    const end = Math.max(start, text.endsWith(escape, close) ? close - escape.length : close)
    return { secret: [start, end], end: after, quoted: true }
  }
  // And `"a"b` too.
  const end = bareEnd(text, after)
  return end === after ? { secret: [start, close], end, quoted: true } : { secret: [at, end], end, quoted: true }
}

/** A name, and what joins it to a value: a gap after a flag, `=`, or a colon. Runs are bounded and begin one by one. */
const heads = new RegExp(
  String.raw`(?<![\w.-])(?:` +
    String.raw`(?<flag>-{1,2}[A-Za-z][\w.-]{1,126})(?<gap>(?:[ \t]|\\\r?\n){1,40}(?:=[ \t]{1,8})?|` +
    String.raw`\\{0,7}["'],\s{0,40}(?=\\{0,7}["']))|` +
    String.raw`(?<name>[\w.-]{1,128})(?:` +
    String.raw`(?<equals>(?:\]|%5D)?(?:[ \t]{1,8}:?=(?:>(?=\s?["']))?[ \t]{0,8}|:?=(?:>(?=["']))?))|` +
    String.raw`(?<key>\\{0,7}["']\]?\s{0,8}(?::|=>?)\s{0,40})|` +
    String.raw`(?<colon>:[ \t]{0,8})))`,
  "g"
)

/** A colon after a name means a value where a line, an object or a quoted header begins; elsewhere it is prose. */
const fieldStart = /(?<=(?:^|[\n{,(>"'])[ \t]{0,80}(?:- )?)[\w-]/y

/** After a flag: another flag, standard input, or a remark. */
const notValue = /\\{0,7}["']?(?:-(?:-?[A-Za-z-]|[\s"']|$)|\()/y

const isSignature = (text: string, start: number, name: string): boolean =>
  /^(?:x-(?:amz|goog)-)?sig(?:nature)?$/i.test(name) && /[?&]/.test(text[start - 1] ?? "")

const named: Finder = (text) => {
  const spans: Array<Span> = []
  each(heads, text, (match, end) => {
    const { flag, gap, name = "", equals, key, colon } = match.groups ?? {}
    if (!hint.test(flag ?? name)) return end
    if (gap !== undefined && (!isSecretFlag(flag ?? "") || matchesAt(notValue, text, end))) return end
    if (equals !== undefined && !isSecretName(name) && !isSignature(text, match.index, name)) return end
    if (equals !== undefined && matchesAt(/[=>~]{1,2}\s/y, text, end)) return end
    if (key !== undefined && (!/["']/.test(text[match.index - 1] ?? "") || !isSecretName(name))) return end
    if (colon !== undefined) {
      if (!isLongHeader(name) && !isPlainSecret(wordsOf(name))) return end
      if (!headerName.test(name) && !matchesAt(fieldStart, text, match.index)) return end
      if (text[end] === ":") return end
    }
    // Nested values are looked at name by name.
    if ((key !== undefined || colon !== undefined) && /[{[]/.test(text[end] ?? "")) return end
    const inQuotes = colon !== undefined && /["']/.test(text[match.index - 1] ?? "")
    const value = inQuotes ? headerAt(text, end, match.index - 1) : valueAt(text, end)
    const content = text.slice(...value.secret)
    const loose = gap !== undefined || colon !== undefined || equals?.endsWith(" ") === true
    if (isSwitchValue(content) || (loose && !value.quoted && sentenceWords.has(content.toLowerCase()))) return value.end
    if (colon !== undefined && isLongHeader(name) && !value.quoted && afterScheme(text, end) === end) {
      const line = indexOrEnd(text, "\n", end)
      spans.push([end, line])
      return line
    }
    spans.push(value.secret)
    return value.end
  })
  return spans
}

/** A header inside quotes ends where they end. */
const headerAt = (text: string, at: number, quote: number): Value => {
  const start = afterScheme(text, at)
  const mark = text[quote] ?? ""
  const escaped = text[quote - 1] === "\\"
  const close = escaped ? text.indexOf(mark, start) : closing(text, mark, start)
  const end = close === -1 ? indexOrEnd(text, "\n", start) : close
  return { secret: [start, escaped && text[end - 1] === "\\" ? end - 1 : end], end, quoted: true }
}

const userInfo = /:\/\/[^\s:/?#@"'`<>\\[\]]{0,256}:(?!\/)(?!\d{1,5}(?:[/?#\s"'`<>),;\]]|$))/g

const passwords: Finder = (text) => {
  const spans: Array<Span> = []
  let at = -1
  let space = -1
  each(userInfo, text, (_, start) => {
    if (at < start) at = indexOrEnd(text, "@", start)
    if (space < start) space = search(/[\s"'`<>\\]/g, text, start)
    if (at > space || at === text.length) return start
    // The last @ before the path; a password with a slash in it was not encoded, and ends at the first.
    const path = search(/[/?#\s"'`<>\\]/g, text, start)
    const end = at < path ? text.lastIndexOf("@", path) : at
    spans.push([start, end])
    return end
  })
  return spans
}

const bearerProse = /^(?:tokens?|auth|authentication|authorization|credentials?|header|schemes?|format|realm=?)$/i

const bearers: Finder = (text) => {
  const spans: Array<Span> = []
  each(/(?<!\w)Bearer[ \t]{1,8}(?=[\w~+/.])/gi, text, (match, start) => {
    const end = trimEnd(text, start, search(/[^\w.~+/=-]/g, text, start))
    const token = text.slice(start, end)
    const word = bearerProse.test(token) || sentenceWords.has(token.toLowerCase()) ||
      (match[0].startsWith("b") && token.length < 20 && !/\d/.test(token))
    if (!word) spans.push([start, end])
    return end
  })
  return spans
}

const privateKeyBegin = /-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z0-9 ]{0,20}-{4,5}/g
const privateKeyEnd = /-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z0-9 ]{0,20}-{4,5}/g

/** A block that is cut off at either end is still a key: messages keep their last lines, or their first. */
const privateKeys: Finder = (text) => {
  const spans: Array<Span> = []
  let done = 0
  let begin = -1
  each(privateKeyEnd, text, (match, end) => {
    if (begin < done) begin = search(privateKeyBegin, text, done)
    let start = match.index
    if (begin < start) start = begin
    else while (start > done && /[\w+/=\s\\]/.test(text[start - 1] ?? "")) start--
    start = search(/\S/g, text, start)
    spans.push([start, end])
    return (done = end)
  })
  begin = search(privateKeyBegin, text, done)
  return begin < text.length ? [...spans, [begin, text.length]] : spans
}

/** How the tokens of well-known services begin. The rest of the run of letters and digits belongs to the token. */
const shapes = new RegExp(
  [
    String.raw`(?<dotted>gh[opsur]_[\w.-]{20}|(?<![\w-])eyJ[\w-]{8,16384}\.[\w-]{8,16384}\.)`,
    String.raw`github_pat_\w{20}`,
    String.raw`gl(?:pat|dt|rt|ptt|ft|soat|cbt|agent)-[\w-]{16}`,
    String.raw`(?:xox[a-z]|xapp)-[\w-]{10}`,
    String.raw`(?<path>(?<=hooks\.slack\.com/services/)\w)`,
    String.raw`(?<words>sk-[\w-]{16})`,
    String.raw`[rs]k_(?:live|test)_\w{10}`,
    String.raw`whsec_[\w+/]{16}`,
    String.raw`npm_[A-Za-z0-9]{30}`,
    String.raw`pypi-[\w-]{40}`,
    String.raw`hf_[A-Za-z0-9]{30}`,
    String.raw`do[opr]_v1_[a-f0-9]{40}`,
    String.raw`hv[sb]\.[\w-]{20}`,
    String.raw`ya29\.[\w-]{20}`,
    String.raw`AIza[\w-]{35}`,
    String.raw`SG\.[\w-]{16,64}\.[\w-]{16}`,
    String.raw`AGE-SECRET-KEY-1[A-Z0-9]{40}`,
    // An access key id, and the secret key where it follows.
    String.raw`A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])(?:[\s:;,|/"'=]{1,8}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?`
  ].map((shape) => `(?<![A-Za-z0-9])${shape}`).join("|"),
  "g"
)

const tokens: Finder = (text) => {
  const spans: Array<Span> = []
  each(shapes, text, (match, matched) => {
    const { dotted, path, words } = match.groups ?? {}
    const rest = dotted !== undefined ? /[^\w.-]/g : path !== undefined ? /[^\w/-]/g : /[^\w-]/g
    const end = trimEnd(text, matched, search(rest, text, matched))
    // sk-learn-contrib-estimators is a name.
    if (words === undefined || !/^sk(?:-[a-z]{1,15})+$/.test(text.slice(match.index, end))) {
      spans.push([match.index, end])
    }
    return end
  })
  return spans
}

const finders: ReadonlyArray<Finder> = [named, passwords, bearers, privateKeys, tokens]

/**
 * What most commands are made of: too short for a token, and nothing in it joins a name to a value. To compile the
 * patterns for it would take a start longer than to make the bundle.
 */
const plain = /^[\w./-]{0,14}$/

/** @internal */
export const standard: Finder = (text) => plain.test(text) ? [] : finders.flatMap((find) => find(text))

/** @internal */
export const custom = (pattern: RegExp): Finder => {
  const own = new RegExp(pattern.source, `${pattern.flags.replaceAll(/[dgy]/g, "")}dg`)
  return (text) =>
    Array.from(text.matchAll(own), (match): Span => {
      const groups = match.indices?.groups
      return groups !== undefined && "secret" in groups
        ? groups.secret ?? [0, 0]
        : [match.index, match.index + match[0].length]
    })
}
