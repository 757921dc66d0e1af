/**
 * The first file of the command. Node keeps what it has compiled of the second one, in a directory of this user's own:
 * compiling it anew would take longer than all the rest of a start.
 */
import { enableCompileCache } from "node:module"
import { homedir } from "node:os"
import { join } from "node:path"

const { NODE_COMPILE_CACHE, XDG_CACHE_HOME } = process.env

enableCompileCache(NODE_COMPILE_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), ".cache"), "leasehold"))

const { start } = await import("./Entry.ts")
await start()
