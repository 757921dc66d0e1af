/**
 * What a verification may find: what it is, where, how bad, and what would mend it.
 *
 * A *problem* is something that Leasehold does not get over by itself: a run that nobody lists, that no policy removes,
 * or whose liveness nobody can tell. A *note* is an ordinary trace of what happened, which passes and runs get over, or
 * something that is none of Leasehold's.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import type { ArchiveError } from "./ArchiveError.ts"
import { describe as describeHolder, type Holder } from "./Holder.ts"
import { describeDoubt, type Doubt } from "./Liveness.ts"
import type { RunId } from "./RunId.ts"
import type { RecordError, Timestamp } from "./RunRecord.ts"

/**
 * @category models
 * @since 0.1.0
 */
export type Fault = Data.TaggedEnum<{
  /** Where a directory of the store, or a file of it, should be lies something else. */
  Misplaced: { readonly expected: "directory" | "file"; readonly kind: string }
  /** A name that is not one of Leasehold's. */
  Strange: {}
  /** So many more of such names in a directory. */
  Crowd: { readonly entries: number }
  /** A directory that cannot be read, so that nobody knows what is in it. */
  Unlistable: { readonly reason: string }
  /** A bundle that lies in another day than its id says, where nobody looks for it. */
  WrongDay: { readonly place: string }
  /** Nobody can read the record; `held` when somebody works in the bundle all the same. */
  RecordUnusable: { readonly error: RecordError; readonly held: boolean }
  /** The record is that of another run. */
  WrongId: { readonly recorded: RunId }
  /** It cannot be told whether anybody works in it. */
  LeaseInDoubt: { readonly doubt: Doubt }
  /** The record says `running`, and nobody works in it. */
  Crashed: {}
  /** The file of a holder that is dead. */
  StaleHolder: {}
  /** A temporary file of somebody who died while writing. */
  Leftover: {}
  /** The run claims to end in the future. */
  ClockAhead: { readonly endedAt: Timestamp }
  /** A trim was begun and did not come to its end. */
  TrimPending: { readonly paths: ReadonlyArray<string> }
  /** What the run has made outside of its bundle could not be undone, so many times, and so it stays. */
  UndoFailed: { readonly what: string; readonly count: number; readonly message: string }
  /** A bundle that is being built, or an archive that is being written. */
  Building: { readonly holders: ReadonlyArray<Holder> }
  /** A bundle or an archive whose builder died, or has begun this moment. */
  Abandoned: {}
  /** An archive of which it cannot be told whether anybody is writing it. */
  DraftInDoubt: { readonly reason: string }
  /** An archive beside its bundle: archiving or restoring it was broken off. */
  Superseded: {}
  /**
   * The same, but the bundle is not to be trusted: its record cannot be read, or is that of another run where there is no
   * error. So the archive may be all that is left.
   */
  OnlyCopy: { readonly error: RecordError | undefined }
  /** An archive that cannot be restored. */
  ArchiveUnusable: { readonly error: ArchiveError }
  /** So many removed bundles wait in the trash to be deleted. */
  Waiting: { readonly entries: number }
  /** A removed bundle that a sweep could not delete in whole. */
  Stuck: {}
  /** So many more of such bundles. */
  StuckCrowd: { readonly entries: number }
  /** The index is not believed, so a pass begins a new one. */
  IndexUnusable: { readonly reason: string }
  /** A pass is using the index, so it was not looked at. */
  IndexBusy: {}
  /** Days have changed since the last pass: rows of bundles that have gone, and bundles that have no row yet. */
  IndexBehind: { readonly gone: number; readonly missing: number }
  /** The index says that it knows a day, and does not: so many rows of no bundle, bundles of no row, and wrong rows. */
  IndexWrong: { readonly gone: number; readonly missing: number; readonly different: number }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const Fault = Data.taggedEnum<Fault>()

/**
 * What was done about it.
 *
 * @category models
 * @since 0.1.0
 */
export type Outcome = Data.TaggedEnum<{
  /** Nothing: it was not asked for, or nothing is to be done. */
  Left: {}
  Mended: {}
  /** It was tried. */
  Failed: { readonly reason: string }
}>

/**
 * @category constructors
 * @since 0.1.0
 */
export const Outcome = Data.taggedEnum<Outcome>()

/**
 * @category models
 * @since 0.1.0
 */
export interface Finding {
  readonly fault: Fault
  readonly where: string
  /** The run it is about, if it is about one. */
  readonly id: RunId | undefined
  readonly outcome: Outcome
}

/**
 * @category models
 * @since 0.1.0
 */
export type Severity = "note" | "problem"

const problems: ReadonlySet<Fault["_tag"]> = new Set<Fault["_tag"]>([
  "Misplaced",
  "Unlistable",
  "WrongDay",
  "RecordUnusable",
  "WrongId",
  "LeaseInDoubt",
  "DraftInDoubt",
  "OnlyCopy",
  "ArchiveUnusable",
  "Stuck",
  "StuckCrowd",
  "IndexWrong"
])

const isNewer = (error: RecordError | ArchiveError | undefined) => error?.reason._tag === "NewerVersion"

/**
 * @category getters
 * @since 0.1.0
 */
export const severityOf = (fault: Fault): Severity => {
  // These are of other Leaseholds, and nothing is wrong with them.
  if ("error" in fault && isNewer(fault.error)) return "note"
  if (fault._tag === "LeaseInDoubt" && fault.doubt._tag === "ForeignHolder") return "note"
  return problems.has(fault._tag) ? "problem" : "note"
}

/**
 * Whether a problem is still there.
 *
 * @category getters
 * @since 0.1.0
 */
export const isOpenProblem = ({ fault, outcome }: Finding): boolean =>
  severityOf(fault) === "problem" && outcome._tag !== "Mended"

const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`

const article = (kind: string) => /^[aeiou]/.test(kind) ? `an ${kind}` : `a ${kind}`

const bundles = (number: number) => count(number, "bundle", "bundles")

const describeArchive = ({ message, reason }: ArchiveError): string => {
  switch (reason._tag) {
    case "Corrupt":
      return `is damaged: ${reason.detail}`
    case "Unsafe":
      return `is not safe to unpack: ${JSON.stringify(reason.name.slice(0, 100))}: ${reason.why}`
    case "NewerVersion":
      return `its record has format version ${reason.version}, which is newer than this program`
    case "System":
      return `cannot be read: ${reason.errno.message}`
    default:
      return message
  }
}

/**
 * A fault in words.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = Fault.$match({
  Misplaced: ({ expected, kind }) => `is ${article(kind)}, and should be a ${expected}`,
  Strange: () => "is none of Leasehold's, and nothing here looks at it",
  Crowd: ({ entries }) => `holds ${entries} more that ${entries === 1 ? "is" : "are"} none of Leasehold's`,
  Unlistable: ({ reason }) => `cannot be listed: ${reason}`,
  WrongDay: () => "lies in another day than its id says, where nobody finds it",
  RecordUnusable: ({ error, held }) => held ? `${error.message}, while its run is at work` : error.message,
  WrongId: ({ recorded }) => `its record is that of ${recorded}`,
  LeaseInDoubt: ({ doubt }) => `cannot tell whether it is in use: ${describeDoubt(doubt)}`,
  Crashed: () => "has crashed, and its record says running",
  StaleHolder: () => "is the file of a holder that is dead",
  Leftover: () => "was left behind by somebody who died while writing",
  ClockAhead: ({ endedAt }) => `claims to end at ${endedAt}, which is in the future`,
  TrimPending: ({ paths }) => `a trim of it did not come to its end: ${paths.join(", ")}`,
  UndoFailed: ({ count: times, message, what }) =>
    `what it made outside was not undone, in ${count(times, "try", "tries")}, and so it stays: ${what}: ${message}`,
  Building: ({ holders }) =>
    holders.length === 0 ? "is being built" : `is being built by ${holders.map(describeHolder).join(", ")}`,
  Abandoned: () => "was never finished, and nobody works on it",
  DraftInDoubt: ({ reason }) => `cannot tell whether anybody is writing it: ${reason}`,
  Superseded: () => "lies beside its bundle, which counts: archiving or restoring it was broken off",
  OnlyCopy: ({ error }) =>
    `lies beside its bundle and may be all that is left of the run: ${
      error === undefined ? "the record of the bundle is that of another run" : error.message
    }`,
  ArchiveUnusable: ({ error }) => describeArchive(error),
  Waiting: ({ entries }) =>
    `${count(entries, "removed bundle waits", "removed bundles wait")} in the trash to be deleted`,
  Stuck: () => "was removed and could not be deleted in whole",
  StuckCrowd: ({ entries }) => `holds ${entries} more that could not be deleted in whole`,
  IndexUnusable: ({ reason }) => `cannot be used: ${reason}`,
  IndexBusy: () => "is in use by a pass, and was not looked at",
  IndexBehind: ({ gone, missing }) =>
    `is behind, until the next pass: ${bundles(missing)} without a row, ${count(gone, "row", "rows")} of no bundle`,
  IndexWrong: ({ different, gone, missing }) =>
    `does not say what is there: ${count(gone, "row", "rows")} of no bundle, ${bundles(missing)} without a row, ` +
    `${different} with a wrong one`
})

const emptyHolders = "make sure that nobody works in it, and remove the files in its holders directory"

const mendOfDoubt = (doubt: Doubt): string => {
  switch (doubt._tag) {
    case "LeaseMissing":
    case "LeaseNotAFile":
      return `${emptyHolders}; then put an empty file in the place of its lease`
    case "LeaseReplaced":
      return emptyHolders
    case "LeaseNotOurs":
      return "give the lease to this user, or go on as its owner"
    case "LeaseUnusable":
      return doubt.code === "EACCES"
        ? "make the lease readable and writable for its owner"
        : doubt.code === "EROFS"
        ? "mount its file system for writing"
        : "keep the store on a file system with locks"
    case "ForeignHolder":
      return `see on ${doubt.holder.host} whether it is still at work; if not, remove its file in the holders directory`
    case "IllegibleHolder":
      return "make sure that nobody works in it, and remove that file from its holders directory"
    case "RecordUnusable":
      return removeUnreadable
  }
}

const repair = "leasehold verify --repair"
const removeUnreadable = "put back a copy of run.json, or: leasehold verify --remove-unreadable"

const quoted = (path: string) => `'${path.replaceAll("'", "'\\''")}'`

const readable = (path: string) => `give its owner back the right to read it: chmod -R u+rwX ${quoted(path)}`

const isForbidden = ({ reason }: RecordError) => reason._tag === "Unreadable" && reason.code === "EACCES"

const mendOfRecord = ({ error, held }: Extract<Fault, { readonly _tag: "RecordUnusable" }>, where: string): string =>
  error.reason._tag === "NewerVersion"
    ? "use a newer leasehold"
    : held
    ? "its run writes it anew when it ends"
    : error.reason._tag === "NotABundle"
    ? "put the bundle back, or: leasehold verify --remove-unreadable"
    : isForbidden(error)
    ? readable(where)
    : removeUnreadable

const mendOfOnlyCopy = (error: RecordError | undefined, id: RunId | undefined): string =>
  isNewer(error)
    ? "use a newer leasehold"
    : error === undefined
    ? `put its own run.json back; or: leasehold rm ${id}, and then: leasehold restore ${id}`
    : `put back a copy of run.json; or: leasehold verify --remove-unreadable, and then: leasehold restore ${id}`

const mendOfArchive = ({ reason }: ArchiveError, { id, where }: Pick<Finding, "id" | "where">): string =>
  reason._tag === "NewerVersion"
    ? "use a newer leasehold"
    : reason._tag !== "System"
    ? `put a copy of it back, or, if there is none: leasehold rm ${id}`
    : reason.errno.code === "EACCES"
    ? `give its owner back the right to read it: chmod u+rw ${quoted(where)}`
    : "see to its disk, or put a copy of it back"

const dirOf = (path: string) => path.slice(0, path.lastIndexOf("/"))

/**
 * What would mend a fault: a command, or words. Nothing where nothing has to be done, or nothing can.
 *
 * @category formatting
 * @since 0.1.0
 */
export const mendOf = ({ fault, id, where }: Omit<Finding, "outcome">): string | undefined => {
  switch (fault._tag) {
    case "Misplaced":
      return `see what it is for, and move it out of the store; the ${fault.expected} is made anew when it is needed`
    case "Strange":
      return "see what it is for, and move it out of the store"
    case "Crowd":
      return "see what they are for, and move them out of the store"
    case "Unlistable":
      return `give its owner back the right to read it: chmod u+rwx ${quoted(where)}`
    case "WrongDay":
      return `mkdir -p ${quoted(dirOf(fault.place))} && mv -n ${quoted(where)} ${quoted(fault.place)}`
    case "RecordUnusable":
      return mendOfRecord(fault, where)
    case "WrongId":
      return `put its own run.json back, or: leasehold rm ${id}`
    case "LeaseInDoubt":
      return mendOfDoubt(fault.doubt)
    case "Crashed":
      return "leasehold recover"
    case "TrimPending":
      return `leasehold trim ${id} ${fault.paths.map((path) => `--path ${quoted(path)}`).join(" ")}`
    case "UndoFailed":
      return `see to that, and the next pass tries again; or remove the run: leasehold rm ${id}`
    case "DraftInDoubt":
      return `if nobody archives a run at this moment: rm ${quoted(where)}`
    case "OnlyCopy":
      return mendOfOnlyCopy(fault.error, id)
    case "ArchiveUnusable":
      return mendOfArchive(fault.error, { id, where })
    case "Waiting":
      return `leasehold prune, or: ${repair}`
    case "Stuck":
    case "StuckCrowd":
      return `${repair} tries again, and says why`
    case "StaleHolder":
    case "Leftover":
    case "Abandoned":
    case "Superseded":
    case "IndexUnusable":
    case "IndexWrong":
      return repair
    case "ClockAhead":
    case "Building":
    case "IndexBusy":
    case "IndexBehind":
      return undefined
  }
}
