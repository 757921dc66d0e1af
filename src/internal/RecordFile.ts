/**
 * `run.json` on the disk: how it is read, and how it is changed without losing what somebody else has just written.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { UpdateOptions } from "../Bundle.ts"
import { decode, encode, maxBytes, RecordError, type RunRecord } from "../RunRecord.ts"
import type { Errno } from "./Errno.ts"
import { readOpened, readText, replace, writeNew } from "./io.ts"
import * as RecordLock from "./RecordLock.ts"

const pathOf = (bundle: string) => `${bundle}/run.json`

/** @internal */
export const read = (bundle: string): Effect.Effect<Result.Result<RunRecord, RecordError>> =>
  decoded(readText(pathOf(bundle), maxBytes))

/** What its owner wrote last it need not take apart again, unless somebody else has written since. */
const decoded = (text: Effect.Effect<string, ReadError>, last?: RunRecord) =>
  Effect.match(text, {
    onSuccess: (text) => last !== undefined && text === encode(last) ? Result.succeed(last) : decode(text),
    onFailure: (cause) => Result.fail(classify(cause))
  })

type ReadError = Effect.Error<ReturnType<typeof readText>>

const classify = (cause: ReadError): RecordError => {
  switch (cause._tag) {
    case "NotRegular":
      return new RecordError({ reason: { _tag: "NotAFile", kind: cause.kind } })
    case "TooLarge":
      return new RecordError({ reason: { _tag: "TooLarge", bytes: cause.bytes } })
    case "Errno":
      return new RecordError({
        reason: cause.code === "ENOENT" ? { _tag: "Missing" } : { _tag: "Unreadable", code: cause.code }
      })
  }
}

/** @internal */
export const create = (bundle: string, record: RunRecord): Effect.Effect<void, Errno> =>
  writeNew(pathOf(bundle), encode(record))

/**
 * Puts a record in the place of the one that is there. Only for whoever has the record's lock; with this it is the lock
 * of nobody any more.
 *
 * @internal
 */
export const write = (
  bundle: string,
  record: RunRecord,
  options?: { readonly fsync?: boolean | undefined }
): Effect.Effect<void, Errno> => replace(pathOf(bundle), encode(record), options)

/**
 * Reads the record, changes it and puts it back as one step: the owner, somebody who pins and a pass may all come at
 * once. A record that cannot be read is an error, unless `known` says what it should have held.
 *
 * @internal
 */
export const update = Effect.fnUntraced(
  function*(
    bundle: string,
    change: (record: RunRecord) => RunRecord,
    options?: UpdateOptions
  ): Effect.fn.Return<RunRecord, Errno | RecordError, Scope.Scope> {
    const locked = yield* RecordLock.takeIfOpen(bundle, options)
    const path = pathOf(bundle)
    const text = locked === undefined ? readText(path, maxBytes) : readOpened(locked, path, maxBytes)
    const current = yield* decoded(text, options?.known)
    const record = Result.isSuccess(current) ? current.success : standIn(current.failure, options?.known)
    if (record === undefined) return yield* Effect.fromResult(current)
    const next = change(record)
    // What is as it was need not be written, but for what stands in for a broken one.
    if (Result.isSuccess(current) && next === record) return next
    yield* write(bundle, next, options)
    return next
  },
  Effect.scoped
)

/** A record of a newer version belongs to a newer program, whatever we remember of it. */
const standIn = (error: RecordError, known: RunRecord | undefined) =>
  error.reason._tag === "NewerVersion" || error.reason._tag === "NotAFile" ? undefined : known
