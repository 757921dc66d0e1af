import * as NFS from "node:fs"

/** All names below a directory, links not followed. */
export const below = (path: string): ReadonlyArray<string> =>
  NFS.readdirSync(path, { withFileTypes: true }).sort((left, right) => left.name < right.name ? -1 : 1).flatMap((
    entry
  ) =>
    entry.isDirectory()
      ? [entry.name, ...below(`${path}/${entry.name}`).map((name) => `${entry.name}/${name}`)]
      : [entry.name]
  )

/** Everything in a directory, to the nanosecond at which it was last changed in any way. */
export const everything = (path: string): ReadonlyArray<string> =>
  [".", ...below(path)].map((name) => {
    const { ctimeNs, ino, mode, mtimeNs, nlink, size } = NFS.lstatSync(`${path}/${name}`, { bigint: true })
    return [name, ctimeNs, mtimeNs, ino, mode, nlink, size].join(" ")
  })
