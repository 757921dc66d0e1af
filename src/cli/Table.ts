/** Rows in columns, by columns of the terminal, of which a character may take two. */
import * as Effect from "effect/Effect"
import { type Format, harmless, paint } from "./Output.ts"

export interface Cell {
  readonly text: string
  readonly format?: Format | undefined
  /** Columns that it may take; what is longer is shortened. */
  readonly most?: number | undefined
}

type Rows = ReadonlyArray<ReadonlyArray<Cell>>

const isPlain = ({ text }: Cell): boolean => /^[ -~]*$/.test(text)

/** To cut other texts into characters node loads tables for longer than all the rest of a listing takes. */
const measure = (rows: Rows): Effect.Effect<(text: string) => number> =>
  rows.every((row) => row.every(isPlain))
    ? Effect.succeed((text) => text.length)
    : Effect.map(Effect.promise(() => import("effect/cli/CliOutput")), ({ displayWidth }) => displayWidth)

/** Never within a character. */
const shorten = (text: string, most: number, widthOf: (text: string) => number): string => {
  if (widthOf(text) <= most) return text
  let kept = ""
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (widthOf(kept + segment) >= most) break
    kept += segment
  }
  return `${kept}…`
}

/** Rows in columns, with two spaces between and nothing behind the last. */
export const table = Effect.fnUntraced(function*(given: Rows) {
  const widthOf = yield* measure(given)
  const rows = given.map((row) =>
    row.map((cell) => cell.most === undefined ? cell : { ...cell, text: shorten(cell.text, cell.most, widthOf) })
  )
  const widths: Array<number> = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, widthOf(cell.text))
    })
  }
  const render = (cell: Cell, column: number, row: ReadonlyArray<Cell>) => {
    const painted = cell.format === undefined ? cell.text : paint(cell.format, cell.text)
    const missing = (widths[column] ?? 0) - widthOf(cell.text)
    return column === row.length - 1 ? painted : painted + " ".repeat(missing)
  }
  return rows.map((row) => row.map(render).join("  ").trimEnd()).join("\n")
})

export type Facts = ReadonlyArray<readonly [name: string, value: string | undefined]>

/** What is known of one thing, a fact a line, without those that there are not. */
export const sheet = (facts: Facts): Effect.Effect<string> =>
  table(
    facts.flatMap(([name, value]) =>
      value === undefined || value === "" ? [] : [[{ text: name, format: "dim" }, { text: harmless(value) }]]
    )
  )
