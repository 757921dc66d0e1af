/** How answers look. Text from records is made harmless first: a name may hold line breaks and escape codes. */
import * as Console from "effect/Console"
import type * as Effect from "effect/Effect"
import * as NodeUtil from "node:util"

export type Format = Parameters<typeof NodeUtil.styleText>[0]

/** Plain text unless standard output is a terminal that may be coloured (NO_COLOR, FORCE_COLOR, TERM, CI). */
export const paint = (format: Format, text: string): string =>
  NodeUtil.styleText(format, text, { stream: process.stdout })

const control = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

/** What of these JSON leaves as it is. */
const controlInJson = /[\u007f-\u009f\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/** Control characters, and those that turn the direction of writing, shown as escapes. */
export const harmless = (text: string): string => text.replaceAll(control, escaped)

/** It may be printed on a terminal, too. */
export const toJson = (document: unknown, indent?: number): string =>
  JSON.stringify(document, undefined, indent).replaceAll(controlInJson, escaped)

export const printJson = (document: unknown): Effect.Effect<void> => Console.log(toJson(document, 2))

/** Something that did not go well and does not end the command. */
export const warn = (text: string): Effect.Effect<void> => Console.error(`leasehold: ${harmless(text)}`)
