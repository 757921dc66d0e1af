/**
 * What the command answers under `--json`, one schema for each document. They are published as JSON Schema, and a
 * document of this version never loses a field or gives it another meaning; it may get more.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Holder } from "./Holder.ts"
import { RunId } from "./RunId.ts"
import { Pin, RunRecord, Status, Timestamp } from "./RunRecord.ts"
import { statuses } from "./RunStatus.ts"

const version = Schema.Literal(1)

/**
 * One run of `ls --json`. `live` is null where it cannot be told; `parent` may be a run that has gone; `depth` is there
 * under `--tree`; `problem` is there where something is wrong.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ListedRun = Schema.Struct({
  id: RunId,
  name: Schema.NullOr(Schema.String),
  status: Schema.Union([Status, Schema.Literal("damaged")]),
  live: Schema.NullOr(Schema.Boolean),
  parent: Schema.NullOr(RunId),
  startedAt: Schema.NullOr(Timestamp),
  endedAt: Schema.NullOr(Timestamp),
  pinned: Schema.Boolean,
  bytes: Schema.NullOr(Schema.Natural),
  dir: Schema.String,
  problem: Schema.optionalKey(Schema.String),
  depth: Schema.optionalKey(Schema.Natural)
})

/**
 * `ls --json`, newest first; under `--tree` each run below its parent, newest trees first.
 *
 * @category schemas
 * @since 0.1.0
 */
export const List = Schema.Struct({ version, root: Schema.String, runs: Schema.Array(ListedRun) })

const Liveness = Schema.Struct({
  state: Schema.Literals(["live", "dead", "unknown"]),
  reason: Schema.String,
  holders: Schema.Array(Holder)
})

/**
 * `show --json`. `run` is null, and `problem` says why, where the record cannot be read.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Show = Schema.Struct({
  version,
  run: Schema.NullOr(RunRecord),
  problem: Schema.optionalKey(Schema.String),
  liveness: Liveness
})

/**
 * `path --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Path = Schema.Struct({ version, id: RunId, dir: Schema.String })

/**
 * `pin --json` and `unpin --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Pinned = Schema.Struct({ version, id: RunId, pin: Schema.NullOr(Pin) })

const counts = Schema.Record(Schema.String, Schema.Natural)

const Failure = Schema.Struct({ id: Schema.String, reason: Schema.String })

/**
 * `prune --json`. `expired` are archives that were removed; the bytes of `archived` are those of the archives.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Prune = Schema.Struct({
  version,
  dryRun: Schema.Boolean,
  policy: Schema.String,
  looked: Schema.Natural,
  removed: Schema.Array(Schema.Struct({ id: RunId, reason: Schema.String, bytes: Schema.NullOr(Schema.Natural) })),
  recovered: Schema.Array(Schema.Struct({ id: RunId })),
  trimmed: Schema.Array(
    Schema.Struct({ id: RunId, paths: Schema.Array(Schema.String), bytes: Schema.NullOr(Schema.Natural) })
  ),
  archived: Schema.Array(Schema.Struct({ id: RunId, reason: Schema.String, bytes: Schema.NullOr(Schema.Natural) })),
  expired: Schema.Array(Schema.Struct({ id: RunId, reason: Schema.String, bytes: Schema.Natural })),
  kept: counts,
  failed: Schema.Array(Failure),
  freedBytes: Schema.Natural,
  debt: Schema.NullOr(Schema.Struct({
    bundles: Schema.Natural,
    bytes: Schema.Natural,
    reasons: counts,
    passes: Schema.Natural,
    pay: Schema.String
  })),
  otherPass: Schema.Boolean,
  stopped: Schema.Boolean,
  elapsedMs: Schema.Natural
})

/** What commands have in common that take things away from several runs. */
const taking = {
  failed: Schema.Array(Schema.Struct({ id: Schema.String, error: Schema.String, message: Schema.String })),
  undeleted: Schema.Array(Schema.Struct({ path: Schema.String, reason: Schema.String })),
  freedBytes: Schema.Natural
}

/**
 * `explain --json`. `status` is that of a listing for people. Each rule of the policy says by itself whether it `asks`
 * for the run, `spares` it or does `neither`, and `why`; `guard` keeps the run whatever is asked. `action`, `reason` and
 * `message` are what the whole policy comes to, and `note` is there where no rule says that by itself. `endedAt` is the
 * time that retention goes by.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Explain = Schema.Struct({
  version,
  id: RunId,
  name: Schema.NullOr(Schema.String),
  status: Schema.Literals(statuses),
  liveness: Liveness,
  endedAt: Schema.NullOr(Timestamp),
  endKnownBy: Schema.NullOr(Schema.Literals(["record", "restored", "last event", "found dead", "first seen"])),
  pin: Schema.NullOr(Pin),
  policy: Schema.String,
  group: Schema.NullOr(Schema.String),
  rules: Schema.Array(Schema.Struct({
    rule: Schema.String,
    value: Schema.String,
    verdict: Schema.Literals(["asks", "spares", "neither"]),
    why: Schema.String
  })),
  guard: Schema.NullOr(Schema.String),
  action: Schema.Literals(["keep", "remove", "trim", "archive"]),
  reason: Schema.String,
  message: Schema.String,
  note: Schema.NullOr(Schema.String)
})

/**
 * `rm --json`. In `failed`, `id` is the id, or what was given for one; `undeleted` is what stays in the trash.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Rm = Schema.Struct({ version, removed: Schema.Array(Schema.Struct({ id: RunId })), ...taking })

/**
 * `trim --json`. `entries` counts the names at the top of what was matched, and `bytes` is what they had; `failed` and
 * `undeleted` are those of `rm --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Trim = Schema.Struct({
  version,
  trimmed: Schema.Array(
    Schema.Struct({ id: RunId, paths: Schema.Array(Schema.String), entries: Schema.Natural, bytes: Schema.Natural })
  ),
  ...taking
})

/**
 * `archive --json`. `bytes` is the length of the archive, `packedBytes` that of all files in it together; `omitted` counts
 * the sockets that are not in it. `failed` and `undeleted` are those of `rm --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Archive = Schema.Struct({
  version,
  archived: Schema.Array(Schema.Struct({
    id: RunId,
    path: Schema.String,
    bytes: Schema.Natural,
    packedBytes: Schema.Natural,
    entries: Schema.Natural,
    omitted: Schema.Natural
  })),
  ...taking
})

/**
 * `restore --json`. `failed` is that of `rm --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Restore = Schema.Struct({
  version,
  restored: Schema.Array(Schema.Struct({ id: RunId, dir: Schema.String })),
  failed: taking.failed
})

/**
 * One row of `ls --archived --json`. `bytes` is the length of the archive; what its record says is null where that cannot
 * be read, and `problem` says why.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ArchivedRun = Schema.Struct({
  id: RunId,
  name: Schema.NullOr(Schema.String),
  status: Schema.NullOr(Status),
  startedAt: Schema.NullOr(Timestamp),
  endedAt: Schema.NullOr(Timestamp),
  bytes: Schema.Natural,
  path: Schema.String,
  problem: Schema.optionalKey(Schema.String)
})

/**
 * `ls --archived --json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const LsArchived = Schema.Struct({ version, root: Schema.String, archives: Schema.Array(ArchivedRun) })

/**
 * `recover --json`. In `failed`, `id` is the id, or what was given for one.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Recover = Schema.Struct({
  version,
  recovered: Schema.Array(Schema.Struct({ id: RunId })),
  live: Schema.Array(Schema.Struct({ id: RunId, holders: Schema.Array(Holder) })),
  unknown: Schema.Array(Schema.Struct({ id: RunId, reason: Schema.String })),
  failed: Schema.Array(Failure)
})

/**
 * `du --json`. `complete` is false where a part could not be read, and `bytes` is then of the rest. All of
 * `runs` are `bytes`; what is archived, removed or being built is not among them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Du = Schema.Struct({
  version,
  runs: Schema.Array(Schema.Struct({ id: RunId, bytes: Schema.Natural, complete: Schema.Boolean })),
  bytes: Schema.Natural,
  archiveBytes: Schema.Natural,
  trashBytes: Schema.Natural,
  stagingBytes: Schema.Natural
})

/**
 * One finding of `verify --json`. `mend` is what would mend it, null where nothing has to be done, or nothing can;
 * `reason` is why it was not mended, if that was tried.
 *
 * @category schemas
 * @since 0.1.0
 */
export const FoundFault = Schema.Struct({
  kind: Schema.String,
  severity: Schema.Literals(["problem", "note"]),
  path: Schema.String,
  id: Schema.NullOr(RunId),
  message: Schema.String,
  mend: Schema.NullOr(Schema.String),
  outcome: Schema.Literals(["left", "mended", "failed"]),
  reason: Schema.NullOr(Schema.String)
})

/**
 * `verify --json`. `checked` counts bundles, `archives` archives; `problems` and `notes` those that are still there.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Verify = Schema.Struct({
  version,
  root: Schema.String,
  checked: Schema.Natural,
  archives: Schema.Natural,
  findings: Schema.Array(FoundFault),
  problems: Schema.Natural,
  notes: Schema.Natural,
  mended: Schema.Natural
})

/**
 * What is said on standard error when a command fails under `--json`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Failed = Schema.Struct({ error: Schema.String, message: Schema.String })

/**
 * Every published schema, by the name of its file.
 *
 * @category schemas
 * @since 0.1.0
 */
export const published = {
  "run-record": RunRecord,
  ls: List,
  show: Show,
  path: Path,
  pin: Pinned,
  prune: Prune,
  explain: Explain,
  rm: Rm,
  trim: Trim,
  archive: Archive,
  restore: Restore,
  "ls-archived": LsArchived,
  recover: Recover,
  du: Du,
  verify: Verify,
  error: Failed
} as const
