/** What is in a bundle for the sake of a test, known from its id alone, and what of a bundle may be seen to change. */
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"

/** Lasting content, and such as trims take away and owners make again. */
const lasting = ["artifacts/data", "artifacts/deep/er/still"]
const passing = ["temp/scratch", "temp/deep/scratch"]

const textOf = (id: string, path: string) =>
  Array.from({ length: 40 }, (_, nth) => NodeCrypto.hash("sha256", `${id} ${path} ${nth}`)).join("\n")

const make = (dir: string, id: string, path: string) => {
  NFS.mkdirSync(`${dir}/${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true })
  NFS.writeFileSync(`${dir}/${path}`, textOf(id, path), { flag: "wx" })
}

/** Comes last and whole, where whoever fills it may be killed. */
const mark = "artifacts/filled"

export const fill = (dir: string, id: string): void => {
  for (const path of [...lasting, ...passing]) make(dir, id, path)
  const draft = `${dir}/${mark}-soon`
  NFS.writeFileSync(draft, textOf(id, mark))
  NFS.renameSync(draft, `${dir}/${mark}`)
}

/** Whether all of it was ever there. */
export const isFilled = (dir: string): boolean => NFS.existsSync(`${dir}/${mark}`)

/** Makes again what was trimmed, each file whole at once, by way of a directory that the owner has to itself. */
export const rebuild = (dir: string, id: string, own: string): void => {
  for (const path of passing) {
    if (NFS.existsSync(`${dir}/${path}`)) continue
    make(own, id, path)
    NFS.mkdirSync(`${dir}/${path.slice(0, path.lastIndexOf("/"))}`, { recursive: true })
    NFS.renameSync(`${own}/${path}`, `${dir}/${path}`)
  }
}

const textAt = (path: string) => NFS.existsSync(path) ? NFS.readFileSync(path, "utf8") : undefined

/** What is not as it was made, byte for byte; what may have been trimmed need not be there. */
export const damage = (dir: string, id: string, mayBeTrimmed: boolean): ReadonlyArray<string> =>
  [...lasting, ...passing, mark].flatMap((path) => {
    const text = textAt(`${dir}/${path}`)
    if (text === undefined && mayBeTrimmed && passing.includes(path)) return []
    return text === textOf(id, path) ? [] : [`${path} is ${text === undefined ? "missing" : "damaged"}`]
  })

/** Written by holders and by the store while others look on, or below a directory of one of them. */
const isOfOthers = (path: string, own: string) =>
  /^(run\.json|holders|logs|telemetry)/.test(path) || path === "artifacts/owner" ||
  // What a child writes goes by pipes there.
  path.startsWith("temp/.pipes-") || (/(^|\/)held-/.test(path) && !path.split("/").includes(own))

/** Every name in a bundle that nobody but its holders may touch: which file it is, and what is in it. */
export const traces = (dir: string, own: string, below = ""): Map<string, string> => {
  const found = new Map<string, string>()
  for (const { name } of NFS.readdirSync(`${dir}/${below}`, { withFileTypes: true })) {
    const path = `${below}${name}`
    if (isOfOthers(path, own)) continue
    const info = NFS.lstatSync(`${dir}/${path}`, { bigint: true })
    // Others put directories of their own beside it.
    if (info.isDirectory()) {
      found.set(path, `${info.ino}`)
      for (const [each, trace] of traces(dir, own, `${path}/`)) found.set(each, trace)
    } else {
      const hash = NodeCrypto.hash("sha256", NFS.readFileSync(`${dir}/${path}`))
      // The time of a lease says nothing to anybody, and may be anybody's doing.
      found.set(path, `${info.ino} ${info.size} ${path === "lease" ? "" : info.mtimeNs} ${hash}`)
    }
  }
  return found
}

/** What has gone or is another than it was. What has come may be the owner's. */
export const changed = (before: Map<string, string>, after: Map<string, string>): ReadonlyArray<string> =>
  [...before].flatMap(([path, trace]) => after.get(path) === trace ? [] : [`${path}: ${trace} -> ${after.get(path)}`])
