/**
 * The index in a file `index.db` of the store, over `node:sqlite`.
 *
 * Guarantees. The file is only changed by a commit, and only believed while it looks exactly as the last commit left
 * it. A process that is killed at any moment leaves an index that is whole or is not believed; so does a power cut.
 * One that is not believed is renamed to `index.db.aside`, in the place of an earlier one. Nothing that lies in the
 * place of the index is followed, waited for or written into. A commit that has nothing new to say writes nothing.
 *
 * Limits. It relies on the file system to move the mtime of a file that is written to. A program that changes the file
 * and puts its size and mtime back, or changes it within a tick of that clock after a commit, is believed; what it says
 * leads to no removal that the record does not bear out.
 * Changes are kept in memory until they are committed. Where locks of a file also keep its owner from writing to it, as
 * on Windows, nothing can be remembered and every pass begins anew.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as IndexFile from "./internal/IndexFile.ts"
import { RunIndex } from "./RunIndex.ts"
import { RunStore } from "./RunStore.ts"

/**
 * The index of a store.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<RunIndex, never, RunStore> = Layer.effect(
  RunIndex,
  Effect.map(RunStore, ({ root }) =>
    RunIndex.of({
      open: Effect.fn("RunIndex.open")((options) => IndexFile.open(root, options)),
      setAside: IndexFile.setAside(root)
    }))
)
