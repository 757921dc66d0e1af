/**
 * Commands in git worktrees that go with their runs:
 *
 *     node examples/worktrees/main.ts start ~/src/project make test
 *     node examples/worktrees/main.ts resume latest make test
 *     node examples/worktrees/main.ts clean
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Run from "leasehold/Run"
import * as RunStore from "leasehold/RunStore"
import * as SqliteIndex from "leasehold/SqliteIndex"
import * as Worktrees from "./Worktrees.ts"

const StoreLayer = SqliteIndex.layer.pipe(Layer.provideMerge(RunStore.layer()))

Worktrees.program(process.argv.slice(2)).pipe(Effect.provide(StoreLayer), Run.main)
