/**
 * Loads the files of the command with what V8 has compiled of them. The cache of node itself keeps what is compiled when
 * a file is loaded, and most functions are not; here it is made when the process exits, and has every one that was used.
 *
 * What is in it is run, so only files of this user's own are believed. They are there at once or not at all, and on the
 * disk before they have their name, since V8 does not notice a torn one.
 */
import * as NFS from "node:fs"
import * as NodeModule from "node:module"
import * as NodeVm from "node:vm"

interface Loaded {
  exports: unknown
}

type Wrapped = (
  exports: unknown,
  require: (id: string) => unknown,
  module: Loaded,
  __filename: string,
  __dirname: string
) => void

/** Two versions of a file without a hash in its name may have the same length, and V8 compares no more than that. */
const isNamedForContent = (file: string) => /-[\w-]{8}\.cjs$/.test(file)

const readOwn = (path: string): Buffer | undefined => {
  try {
    const fd = NFS.openSync(path, "r")
    try {
      const { mode, uid } = NFS.fstatSync(fd)
      const isOwn = process.platform === "win32" || (uid === process.geteuid?.() && (mode & 0o022) === 0)
      return isOwn ? NFS.readFileSync(fd) : undefined
    } finally {
      NFS.closeSync(fd)
    }
  } catch {
    return undefined
  }
}

const write = (path: string, data: Buffer) => {
  const temporary = `${path}.${process.pid}.tmp`
  try {
    NFS.writeFileSync(temporary, data, { flag: "wx", mode: 0o600, flush: true })
    NFS.renameSync(temporary, path)
  } catch (cause) {
    NFS.rmSync(temporary, { force: true })
    throw cause
  }
}

const nameBeforeHash = (file: string) => file.replace(/-[\w-]{8}\.cjs.*$/, "")

/** What an earlier version of these files has left, or somebody who was killed while writing. */
const clearOlder = (cache: string, files: ReadonlySet<string>) => {
  const names = new Set([...files].map(nameBeforeHash))
  for (const name of NFS.readdirSync(cache)) {
    if (!files.has(name) && names.has(nameBeforeHash(name))) NFS.rmSync(`${cache}/${name}`, { force: true })
  }
}

/** Without a cache everything goes on as well, and takes longer. */
const keep = (cache: string, scripts: ReadonlyMap<string, NodeVm.Script>) => {
  try {
    NFS.mkdirSync(cache, { recursive: true, mode: 0o700 })
    for (const [file, script] of scripts) write(`${cache}/${file}`, script.createCachedData())
    clearOlder(cache, new Set(scripts.keys()))
  } catch {}
}

/**
 * Loads a file in a directory, and what it requires from there. `cache` is where compiled code is kept, unless the
 * process exits with a code for which `isWorth` says no.
 *
 * @internal
 */
export const load = (
  home: string,
  entry: string,
  cache: string,
  isWorth: (exitCode: number) => boolean
): unknown => {
  const requireOther = NodeModule.createRequire(`${home}/`)
  const modules = new Map<string, Loaded>()
  const scripts = new Map<string, NodeVm.Script>()
  let isAnyNew = false

  const compile = (file: string): Wrapped => {
    const path = `${home}/${file}`
    const cachedData = isNamedForContent(file) ? readOwn(`${cache}/${file}`) : undefined
    const source = NFS.readFileSync(path, "utf8")
    const script = new NodeVm.Script(
      `(function (exports, require, module, __filename, __dirname) {${source}\n})`,
      { filename: path, cachedData }
    )
    if (isNamedForContent(file)) {
      scripts.set(file, script)
      isAnyNew ||= script.cachedDataRejected !== false
    }
    return script.runInThisContext()
  }

  const requireFile = (file: string): unknown => {
    const known = modules.get(file)
    if (known !== undefined) return known.exports
    const made: Loaded = { exports: {} }
    modules.set(file, made)
    compile(file)(
      made.exports,
      (id) => id.startsWith("./") ? requireFile(id.slice(2)) : requireOther(id),
      made,
      `${home}/${file}`,
      home
    )
    return made.exports
  }

  process.once("exit", (code) => {
    // All of them: what is new has used more of the others, too.
    if (isAnyNew && isWorth(code)) keep(cache, scripts)
  })
  return requireFile(entry)
}
