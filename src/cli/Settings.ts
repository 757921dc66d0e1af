/** What every command has in common: where the store is, and whether a person or a program reads the answer. */
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Lease } from "../Lease.ts"
import * as RunStore from "../RunStore.ts"
import type { StoreError } from "../StoreError.ts"
import type { Given, Options } from "./Options.ts"

export const settings = {
  root: {
    kind: "text",
    metavar: "DIR",
    nonEmpty: "the path of a directory",
    description: "The store (else LEASEHOLD_ROOT, else the platform's state directory)"
  },
  json: { kind: "switch", description: "Print one JSON document" },
  allowTemp: {
    kind: "switch",
    description:
      "Allow a store below the system's temp directory, where sweepers delete by age (or LEASEHOLD_ALLOW_TEMP=1)"
  }
} as const satisfies Options

export type Settings = Given<typeof settings>

/** Where there is no store, a mistyped root must not become one; only commands that begin something make it. */
export const storeOf = (
  { allowTemp, root }: Pick<Settings, "root" | "allowTemp">,
  create: boolean
): Layer.Layer<RunStore.RunStore | Lease, StoreError> =>
  RunStore.layer({ root: Option.getOrUndefined(root), allowTemp: allowTemp ? true : undefined, create })
