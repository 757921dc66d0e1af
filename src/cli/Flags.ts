/** Options for the full parser. */
import * as Flag from "effect/cli/Flag"
import * as Schema from "effect/Schema"
import { type AnyOption, mostOf, nameOf, type Options, type Value } from "./Options.ts"

type Flags<O extends Options> = { readonly [Key in keyof O]: Flag.Flag<Value<O[Key]>> }

const withMetavar = (metavar: string | undefined) => <A>(flag: Flag.Flag<A>) =>
  metavar === undefined ? flag : Flag.withMetavar(flag, metavar)

const withAlias = (alias: string | undefined) => <A>(flag: Flag.Flag<A>) =>
  alias === undefined ? flag : Flag.withAlias(flag, alias)

const withoutEmpty = (expected: string | undefined) => (flag: Flag.Flag<string>) =>
  expected === undefined ? flag : Flag.withSchema(flag, Schema.String.check(Schema.isNonEmpty({ expected })))

const bareFlag = (name: string, option: AnyOption): Flag.Flag<Value<AnyOption>> => {
  switch (option.kind) {
    case "text":
      return Flag.String(name).pipe(withoutEmpty(option.nonEmpty), withMetavar(option.metavar), Flag.optional)
    case "texts":
      return Flag.String(name).pipe(withMetavar(option.metavar), Flag.between(0, mostOf(option)))
    case "switch":
      return Flag.Boolean(name).pipe(withAlias(option.alias), Flag.withDefault(false))
    case "count":
      return Flag.Int(name).pipe(
        withAlias(option.alias),
        Flag.withSchema(Schema.Natural),
        Flag.withDefault(option.fallback)
      )
    case "choice":
      return Flag.Literals(name, option.choices).pipe(Flag.withDefault(option.fallback))
    case "choices":
      return Flag.Literals(name, option.choices).pipe(Flag.between(0, mostOf(option)))
  }
}

export const flagOf = <O extends AnyOption>(key: string, option: O): Flag.Flag<Value<O>> =>
  Flag.withDescription(bareFlag(nameOf(key), option), option.description) as Flag.Flag<Value<O>>

export const flagsOf = <O extends Options>(options: O): Flags<O> =>
  Object.fromEntries(Object.entries(options).map(([key, option]) => [key, flagOf(key, option)])) as Flags<O>
