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

/** Files.ts is not loaded this early. What lies there may be a link, or a FIFO whose other end nobody opens. */
const flags = NFS.constants.O_RDONLY | (NFS.constants.O_NOFOLLOW ?? 0) | (NFS.constants.O_NONBLOCK ?? 0)

const readOwn = (path: string): Buffer | undefined => {
  try {
    const fd = NFS.openSync(path, flags)
    try {
      const stats = NFS.fstatSync(fd)
      const isOwn = process.platform === "win32" || (stats.uid === process.geteuid?.() && (stats.mode & 0o022) === 0)
      return isOwn && stats.isFile() ? NFS.readFileSync(fd) : undefined
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

/** What nobody has added to for this long is of an installation or a node that has gone, or is soon made again. */
const maxAgeMillis = 30 * 24 * 60 * 60 * 1000

/** What had an earlier name began like this, too. Anything else is not ours. */
const isCacheName = (name: string) => /^v\d+\.\d+\.\d+-\w+/.test(name)

const clearUnused = (parent: string) => {
  for (const name of NFS.readdirSync(parent)) {
    const path = `${parent}/${name}`
    if (!isCacheName(name) || NFS.lstatSync(path).mtimeMs > Date.now() - maxAgeMillis) continue
    NFS.rmSync(path, { recursive: true, force: true })
  }
}

/** Where compiled code is kept: a directory of its own for each way to start, among others of its kind. */
interface Cache {
  readonly parent: string
  readonly name: string
}

const pathOf = ({ name, parent }: Cache) => `${parent}/${name}`

/** Without a cache everything goes on as well, and takes longer. */
const keep = (cache: Cache, scripts: ReadonlyMap<string, NodeVm.Script>) => {
  const path = pathOf(cache)
  try {
    NFS.mkdirSync(path, { recursive: true, mode: 0o700 })
    for (const [file, script] of scripts) write(`${path}/${file}`, script.createCachedData())
    clearOlder(path, new Set(scripts.keys()))
    clearUnused(cache.parent)
  } catch {}
}

/**
 * Loads a file in a directory, and what it requires from there. Without a place for it nothing is kept.
 *
 * @internal
 */
export const load = (home: string, entry: string, cache: Cache | undefined): unknown => {
  const requireOther = NodeModule.createRequire(`${home}/`)
  const modules = new Map<string, Loaded>()
  const scripts = new Map<string, NodeVm.Script>()
  let isAnyNew = false

  const compile = (file: string): Wrapped => {
    const path = `${home}/${file}`
    const isKept = cache !== undefined && isNamedForContent(file)
    const cachedData = isKept ? readOwn(`${pathOf(cache)}/${file}`) : undefined
    const source = NFS.readFileSync(path, "utf8")
    const script = new NodeVm.Script(
      `(function (exports, require, module, __filename, __dirname) {${source}\n})`,
      { filename: path, cachedData }
    )
    if (isKept) {
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

  process.once("exit", () => {
    // All of them: what is new has used more of the others, too.
    if (isAnyNew && cache !== undefined) keep(cache, scripts)
  })
  return requireFile(entry)
}
