/** What every command has in common: where the store is, and whether a person or a program reads the answer. */
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RunStore from "../RunStore.ts"

export const Root = GlobalFlag.Setting("root")({
  flag: Flag.String("root").pipe(
    Flag.withMetavar("DIR"),
    Flag.withDescription("The store (else LEASEHOLD_ROOT, else the platform's state directory)"),
    Flag.optional
  )
})

export const Json = GlobalFlag.Setting("json")({
  flag: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON document"), Flag.withDefault(false))
})

export const AllowTemp = GlobalFlag.Setting("allow-temp")({
  flag: Flag.Boolean("allow-temp").pipe(
    Flag.withDescription(
      "Allow a store below the system's temp directory, where sweepers delete by age (or LEASEHOLD_ALLOW_TEMP=1)"
    ),
    Flag.withDefault(false)
  )
})

const storeOf = (create: boolean) =>
  Layer.unwrap(Effect.gen(function*() {
    const root = yield* Root
    const allowTemp = yield* AllowTemp
    return RunStore.layer({ root: Option.getOrUndefined(root), allowTemp: allowTemp ? true : undefined, create })
  }))

/** The store that the flags name. Where there is none, a mistyped root must not become one. */
export const Store = storeOf(false)

/** The same for commands that begin something: they make it. */
export const StoreOrNew = storeOf(true)

/** A run as people name it. */
export const runName = Argument.String("RUN").pipe(
  Argument.withDescription("An id, the beginning of one, \"latest\" or \"latest:STATUS\"")
)

export const findRun = (name: string) => Effect.flatMap(RunStore.RunStore, (store) => store.find(name))
