/** What every command has in common, for the full parser. */
import * as Argument from "effect/cli/Argument"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RunStore from "../RunStore.ts"
import { flagOf } from "./Flags.ts"
import { nameOf } from "./Options.ts"
import { settings, storeOf } from "./Settings.ts"

const settingOf = <const Key extends keyof typeof settings>(key: Key) =>
  GlobalFlag.Setting(nameOf(key))({ flag: flagOf(key, settings[key]) })

export const Root = settingOf("root")

export const Json = settingOf("json")

export const AllowTemp = settingOf("allowTemp")

const storeFromFlags = (create: boolean) =>
  Layer.unwrap(Effect.gen(function*() {
    return storeOf({ root: yield* Root, allowTemp: yield* AllowTemp }, create)
  }))

/** The store that the flags name. */
export const Store = storeFromFlags(false)

/** The same for commands that make it where there is none. */
export const StoreOrNew = storeFromFlags(true)

/** A run as people name it. */
export const runName = Argument.String("RUN").pipe(
  Argument.withDescription("An id, the beginning of one, \"latest\" or \"latest:STATUS\"")
)

/** The command of a run, from its first word on. */
export const commandAfterDashes = (min: number) =>
  Argument.String("CMD").pipe(
    Argument.withDescription("The command and its arguments, after --"),
    Argument.variadic({ min })
  )

export const findRun = (name: string) => Effect.flatMap(RunStore.RunStore, (store) => store.find(name))
