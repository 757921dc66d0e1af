/**
 * The first file of the command. What was compiled of the others is kept in a directory of this user's own, for each
 * command by itself, since they use different parts of the same files.
 */
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { load } from "../internal/CompiledFiles.ts"
import type * as Entry from "./Entry.ts"
import { usage } from "./ExitCode.ts"

const [, , word = ""] = process.argv
const { NODE_OPTIONS = "", XDG_CACHE_HOME = "" } = process.env

// V8 does not take what it has compiled with other flags, and has a tag for them that is looked up only where there are any.
const hasFlags = process.execArgv.length > 0 || NODE_OPTIONS !== ""
const flags = hasFlags ? `-${process.getBuiltinModule("node:v8").cachedDataVersionTag()}` : ""

const cache = NodePath.join(
  // The XDG rules have a relative path ignored, and an empty one would be the directory that this is started in.
  NodePath.isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : NodePath.join(NodeOs.homedir(), ".cache"),
  "leasehold",
  `${process.version}-${process.arch}${flags}`,
  /^[a-z]+$/.test(word) ? word : "other"
)
// A word that is no command ends with wrong usage, and is not to be kept for.
const isWorth = (code: number) => code !== usage

// When there is nothing left to do, the kernel takes the memory back faster than node gives it.
process.once("beforeExit", () => process.exit())

const home = NodePath.join(import.meta.dirname, "command")
await (load(home, "Entry.cjs", cache, isWorth) as typeof Entry).start()
