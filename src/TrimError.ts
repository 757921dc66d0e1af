/**
 * Why a bundle was not trimmed, or not in whole.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import type { Errno } from "./internal/Errno.ts"
import { explainAstray, explainPin } from "./internal/Refusal.ts"
import type { RunId } from "./RunId.ts"
import type { RecordError } from "./RunRecord.ts"
import { refusalOf } from "./TrimGlobs.ts"

/**
 * A glob that was refused.
 *
 * @category errors
 * @since 0.1.0
 */
export class TrimPathError extends Schema.TaggedError<TrimPathError>()("TrimPathError", {
  path: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return refusalOf(this.path, this.problem)
  }
}

/**
 * @category errors
 * @since 0.1.0
 */
export type TrimReason = Data.TaggedEnum<{
  /** The globs make no sense. */
  BadPath: { readonly error: TrimPathError }
  /** Somebody ordered the bundle to be kept, and that is all of it. */
  Pinned: { readonly reason: string }
  /** Its record cannot be read. */
  Unreadable: { readonly error: RecordError }
  /** On the way to the bundle, or to the trash, lies something that leads out of the store. */
  Astray: { readonly path: string; readonly kind: string }
  /**
   * So many names were moved out, and some that match would not go, or could not be looked for. What was moved stays
   * so; the record says that the trim is pending, where anything was.
   */
  Partial: { readonly moved: number; readonly left: ReadonlyArray<Left> }
  /** The system refused something. */
  System: { readonly errno: Errno }
}>

/**
 * Something that was not moved, by the way to it from the top of the bundle.
 *
 * @category models
 * @since 0.1.0
 */
export interface Left {
  readonly path: string
  readonly reason: string
}

/**
 * @category errors
 * @since 0.1.0
 */
export const TrimReason = Data.taggedEnum<TrimReason>()

const explain = (id: RunId) =>
  TrimReason.$match({
    BadPath: ({ error }) => error.message,
    Pinned: ({ reason }) => explainPin(id, reason),
    Unreadable: ({ error }) => error.message,
    Astray: ({ kind, path }) => explainAstray(path, kind),
    Partial: ({ left, moved }) =>
      `trimmed in part: ${moved} moved out, ${left.length} left, such as ${left[0]?.path}: ${left[0]?.reason}`,
    System: ({ errno }) => errno.message
  })

/**
 * @category errors
 * @since 0.1.0
 */
export class TrimError extends Data.TaggedError("TrimError")<{ readonly id: RunId; readonly reason: TrimReason }> {
  override get message() {
    return `${this.id}: ${explain(this.id)(this.reason)}`
  }
}
