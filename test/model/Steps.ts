/**
 * The protocol as lists of steps, one list for each verb. The model walks them with every interleaving and every crash;
 * and what the implementation does at its doors is held against the same lists. Neither can change without the other.
 */

/** Steps that make a call at a door. */
export type AtDoor =
  | "make staging"
  | "make lease"
  | "open lease"
  | "lock shared"
  | "lock exclusive"
  | "check inode"
  | "downgrade"
  | "write holder"
  | "remove holder"
  | "unlock"
  | "lock record"
  | "unlock record"
  | "read record"
  | "write record"
  | "publish"
  | "trash"
  | "clear draft"
  | "make draft"
  | "lock draft"
  | "check draft"
  | "publish archive"
  | "open archive"
  | "lock archive"
  | "check archive"
  | "read archive"
  | "drop archive"
  | "unlock archive"
  | "look for bundle"
  | "clear staging"
  | "write mark"

/** What a program does in between, the handing on of a lease to a child, and the packing of a bundle. */
export type Silent = "hand on" | "work" | "hooks" | "pack"

export type Step = AtDoor | Silent

/** What a verb makes of the record, in the order in which it writes it. */
export type Written = "running" | "ended" | "released" | "crashed" | "pinned"

export interface Verb {
  readonly steps: ReadonlyArray<Step>
  readonly writes: ReadonlyArray<Written>
  /** Whether it drives the run, or works beside whoever does. */
  readonly role: "owner" | "guest" | "none"
}

const change = ["lock record", "read record", "write record", "unlock record"] as const

const owning = ["work", ...change, "hooks", ...change, "check inode", "remove holder", "unlock"] as const

const claiming = ["open lease", "lock exclusive", "check inode", "read record"] as const

/** The file at the path of an archive: locked and still there, or not there. */
const takingArchive = ["open archive", "lock archive", "check archive"] as const

const unpacking = [
  "clear staging",
  "make staging",
  "make lease",
  "lock shared",
  "check inode",
  "write holder",
  "read archive",
  "read record",
  "write mark",
  "publish",
  "drop archive",
  "unlock archive"
] as const

const leaving = ["lock record", "read record", "trash", "unlock record"] as const

export const verbs = {
  start: {
    steps: [
      "make staging",
      "make lease",
      "lock shared",
      "check inode",
      "write holder",
      "write record",
      "publish",
      "hand on",
      ...owning
    ],
    writes: ["running", "ended", "released"],
    role: "owner"
  },
  resume: {
    steps: ["read record", ...claiming, "write holder", "downgrade", ...change, ...owning],
    writes: ["running", "ended", "released"],
    role: "owner"
  },
  attach: {
    steps: [
      "read record",
      "open lease",
      "lock shared",
      "check inode",
      "write holder",
      "read record",
      "work",
      "remove holder",
      "unlock"
    ],
    writes: [],
    role: "guest"
  },
  /** With what a crash has left of an archive beside it. */
  remove: {
    steps: [
      "read record",
      ...claiming,
      "lock record",
      "read record",
      ...takingArchive,
      "drop archive",
      "unlock archive",
      "trash",
      "unlock record",
      "unlock"
    ],
    writes: [],
    role: "none"
  },
  /** Of a run that may have crashed, with what a crash may have left of an archive beside it. */
  archive: {
    steps: [
      "read record",
      ...claiming,
      "check inode",
      "write holder",
      ...change,
      "lock record",
      "read record",
      "unlock record",
      "clear draft",
      "make draft",
      "lock draft",
      "check draft",
      "pack",
      ...takingArchive,
      "publish archive",
      "read archive",
      ...leaving,
      "unlock archive",
      "unlock archive",
      "remove holder",
      "unlock"
    ],
    writes: ["crashed"],
    role: "none"
  },
  restore: {
    steps: [...takingArchive, "look for bundle", ...unpacking, "remove holder", "unlock"],
    writes: [],
    role: "none"
  },
  /** Goes on with a run that has been archived, after a look at its record. */
  revive: {
    steps: ["look for bundle", ...takingArchive, "look for bundle", "read archive", ...unpacking, ...change, ...owning],
    writes: ["running", "ended", "released"],
    role: "owner"
  },
  /** As a pass does it. Beside a bundle it goes as well, and is not told of. */
  expire: { steps: [...takingArchive, "look for bundle", "drop archive", "unlock archive"], writes: [], role: "none" },
  recover: { steps: ["read record", ...claiming, ...change, "unlock"], writes: ["crashed"], role: "none" },
  pin: { steps: [...change], writes: ["pinned"], role: "none" },
  probe: { steps: [...claiming, "unlock"], writes: [], role: "none" }
} satisfies Record<string, Verb>

export type VerbName = keyof typeof verbs

export const verbNames = Object.keys(verbs) as ReadonlyArray<VerbName>

/** A child works with the lease that it was handed, whatever becomes of who started it. */
export const child: Verb = { steps: ["work", "unlock"], writes: [], role: "guest" }

const silent: ReadonlySet<Step> = new Set<Step>(["hand on", "work", "hooks", "pack"])

export const atDoors = ({ steps }: Verb): ReadonlyArray<AtDoor> =>
  steps.filter((step): step is AtDoor => !silent.has(step))
