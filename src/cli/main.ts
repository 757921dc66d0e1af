/**
 * The first file of the command. What was compiled of the others is kept in a directory of this user's own, for each
 * command by itself, since they use different parts of the same files.
 */
import * as NodeCrypto from "node:crypto"
import * as NodePath from "node:path"
import { load } from "../internal/CompiledFiles.ts"
import { home } from "../internal/Home.ts"
import type * as Entry from "./Entry.ts"
import { version } from "./version.ts"
import { isWord } from "./Words.ts"

const [, , word = ""] = process.argv
const { NODE_OPTIONS = "", XDG_CACHE_HOME = "" } = process.env

const userCache = () => {
  // The XDG rules have a relative path ignored.
  if (NodePath.isAbsolute(XDG_CACHE_HOME)) return XDG_CACHE_HOME
  const own = home()
  return own === undefined ? undefined : NodePath.join(own, ".cache")
}

/** Installations of several versions beside each other, and several versions of node, have nothing in common. */
const nameOfCache = () => {
  // V8 does not take what it has compiled with other flags, and has a tag for them that is looked up only where there are any.
  const hasFlags = process.execArgv.length > 0 || NODE_OPTIONS !== ""
  const flags = hasFlags ? `-${process.getBuiltinModule("node:v8").cachedDataVersionTag()}` : ""
  const installation = NodeCrypto.hash("sha256", import.meta.dirname).slice(0, 8)
  return `${process.version}-${process.arch}${flags}-${installation}-${isWord(word) ? word : "other"}`
}

const cache = userCache()

// When there is nothing left to do, the kernel takes the memory back faster than node gives it.
process.once("beforeExit", () => process.exit())

const startCommand = () => {
  const files = NodePath.join(import.meta.dirname, "command")
  const kept = cache === undefined ? undefined : { parent: NodePath.join(cache, "leasehold"), name: nameOfCache() }
  return (load(files, "Entry.cjs", kept) as typeof Entry).start()
}

// What is asked for alone needs nothing of the others; with more words it is for the parser to say.
if (word === "--version" && process.argv.length === 3) process.stdout.write(`leasehold v${version}\n`)
else await startCommand()
