/**
 * What is said to whoever would take something away, where removing and trimming say the same.
 */
import type { RunId } from "../RunId.ts"

/** @internal */
export const explainPin = (id: RunId, reason: string): string =>
  `is pinned (${reason}); unpin it first: leasehold unpin ${id}`

/** @internal */
export const explainAstray = (path: string, kind: string): string =>
  `${path} is a ${kind}, not a directory of the store; look what it is for, and remove it`
