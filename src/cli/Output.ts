/** How answers look. Text from records is made harmless first: a name may hold line breaks and escape codes. */
import * as CliOutput from "effect/cli/CliOutput"
import * as Console from "effect/Console"
import type * as Effect from "effect/Effect"
import * as NodeUtil from "node:util"

type Format = Parameters<typeof NodeUtil.styleText>[0]

/** Plain text unless standard output is a terminal that may be coloured (NO_COLOR, FORCE_COLOR, TERM, CI). */
export const paint = (format: Format, text: string): string =>
  NodeUtil.styleText(format, text, { stream: process.stdout })

const control = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu

/** Control characters, and those that turn the direction of writing, shown as escapes. */
export const harmless = (text: string): string =>
  text.replaceAll(control, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** By columns of the terminal, of which a character may take two, and never within a character. */
export const shorten = (text: string, width: number): string => {
  if (CliOutput.displayWidth(text) <= width) return text
  let kept = ""
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (CliOutput.displayWidth(kept + segment) >= width) break
    kept += segment
  }
  return `${kept}…`
}

export interface Cell {
  readonly text: string
  readonly format?: Format | undefined
}

/** Rows in columns, with two spaces between and nothing behind the last. */
export const table = (rows: ReadonlyArray<ReadonlyArray<Cell>>): string => {
  const widths: Array<number> = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, CliOutput.displayWidth(cell.text))
    })
  }
  const render = (cell: Cell, column: number, row: ReadonlyArray<Cell>) => {
    const painted = cell.format === undefined ? cell.text : paint(cell.format, cell.text)
    const missing = (widths[column] ?? 0) - CliOutput.displayWidth(cell.text)
    return column === row.length - 1 ? painted : painted + " ".repeat(missing)
  }
  return rows.map((row) => row.map(render).join("  ").trimEnd()).join("\n")
}

export const printJson = (document: unknown): Effect.Effect<void> => Console.log(JSON.stringify(document, undefined, 2))

/** Something that did not go well and does not end the command. */
export const warn = (text: string): Effect.Effect<void> => Console.error(`leasehold: ${text}`)
