/**
 * `run.json` on the disk: how it is read, and how it is changed without losing what somebody else has just written.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import { decode, encode, maxBytes, RecordError, type RunRecord } from "../RunRecord.ts"
import { Errno } from "./Errno.ts"
import { Files, Flags } from "./Files.ts"
import { readText, replace, sameFile, writeNew } from "./io.ts"
import { Locks } from "./Locks.ts"

const pathOf = (bundle: string) => `${bundle}/run.json`

/** @internal */
export const read = (bundle: string): Effect.Effect<Result.Result<RunRecord, RecordError>> =>
  readText(pathOf(bundle), maxBytes).pipe(
    Effect.match({
      onSuccess: decode,
      onFailure: (cause) => Result.fail(classify(cause))
    })
  )

const classify = (cause: Effect.Error<ReturnType<typeof readText>>): RecordError => {
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

/** How often an update looks again while another process is at its own; with the waits between, some ten seconds. */
const maxTries = 200

/**
 * Reads the record, changes it and puts it back as one step: the owner, somebody who pins and a pass may all come at
 * once. The lock is taken on `run.json` itself; whoever gets it on a file that has been replaced in the meantime starts
 * over with the new one. A record that cannot be read is an error, unless `lost` says what it should have held.
 *
 * @internal
 */
export const update = Effect.fnUntraced(function*(
  bundle: string,
  change: (record: RunRecord) => RunRecord,
  options?: { readonly fsync?: boolean | undefined; readonly lost?: RunRecord | undefined }
): Effect.fn.Return<RunRecord, Errno | RecordError> {
  for (let tries = 0; tries < maxTries; tries++) {
    const outcome = yield* attempt(bundle, change, options)
    if (outcome !== undefined) return outcome
    yield* Effect.sleep(yield* Random.nextIntBetween(1, 100))
  }
  const path = pathOf(bundle)
  return yield* new Errno({ code: "EBUSY", call: "lock", path, cause: new Error("another process keeps writing it") })
})

const attempt = Effect.fnUntraced(function*(
  bundle: string,
  change: (record: RunRecord) => RunRecord,
  options?: { readonly fsync?: boolean | undefined; readonly lost?: RunRecord | undefined }
) {
  const files = yield* Files
  const path = pathOf(bundle)
  const opened = yield* Effect.result(files.open(path, Flags.lock))
  const fd = Result.isSuccess(opened) ? opened.success : undefined
  return yield* Effect.gen(function*() {
    if (fd !== undefined && !(yield* isLockedHere(fd, path))) return undefined
    const current = yield* read(bundle)
    const record = Result.isSuccess(current) ? current.success : standIn(current.failure, options?.lost)
    if (record === undefined) return yield* Effect.fromResult(current)
    const next = change(record)
    yield* replace(path, encode(next), { fsync: options?.fsync })
    return next
  }).pipe(Effect.ensuring(fd === undefined ? Effect.void : files.close(fd)))
})

/** A record of a newer version belongs to a newer program, whatever we remember of it. */
const standIn = (error: RecordError, lost: RunRecord | undefined) =>
  error.reason._tag === "NewerVersion" || error.reason._tag === "NotAFile" ? undefined : lost

const isLockedHere = Effect.fnUntraced(function*(fd: number, path: string) {
  const files = yield* Files
  const locks = yield* Locks
  // Where the file system has no locks a run was started only because its user chose to go without.
  const granted = yield* locks.tryExclusive(fd, path).pipe(Effect.orElseSucceed(() => true))
  if (!granted) return false
  const [locked, there] = yield* Effect.all([files.fstat(fd, path), files.lstat(path)])
  return sameFile(locked, there)
})
