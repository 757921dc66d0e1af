/**
 * What `effect/cli` asks of a platform. No command of ours prompts, and files and children have doors of their own, so
 * most of it is never used; the whole of Node's would take longer to load than a run takes.
 */
import * as NodeStdio from "@effect/platform-node/NodeStdio"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Terminal from "effect/Terminal"

const unused = Effect.die(new Error("no command reads from the terminal or starts a child through effect/cli"))

const terminal = Terminal.make({
  columns: Effect.sync(() => process.stdout.columns ?? 80),
  rows: Effect.sync(() => process.stdout.rows ?? 24),
  size: unused,
  readInput: unused,
  readLine: unused,
  display: (text) => Effect.sync(() => void process.stdout.write(text))
})

export const layer = Layer.mergeAll(
  FileSystem.layerNoop({}),
  Path.layer,
  NodeStdio.layer,
  Layer.succeed(Terminal.Terminal, terminal),
  Layer.succeed(ChildProcessSpawner.ChildProcessSpawner, ChildProcessSpawner.make(() => unused))
)
