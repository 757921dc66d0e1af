import * as NodeOs from "node:os"
import * as NodePath from "node:path"

/**
 * The directory of this user, if there is one: a container may run as a user whom its system does not know, and with no
 * HOME. What is not absolute would be a place in whatever directory somebody happens to be.
 *
 * @internal
 */
export const home = (): string | undefined => {
  try {
    const path = NodeOs.homedir()
    return NodePath.isAbsolute(path) ? path : undefined
  } catch {
    return undefined
  }
}
