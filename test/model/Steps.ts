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

/** What a program does in between, and the handing on of a lease to a child. */
export type Silent = "hand on" | "work" | "hooks"

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
    steps: ["read record", ...claiming, "downgrade", "write holder", ...change, ...owning],
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
  remove: {
    steps: ["read record", ...claiming, "lock record", "read record", "trash", "unlock record", "unlock"],
    writes: [],
    role: "none"
  },
  recover: { steps: ["read record", ...claiming, ...change, "unlock"], writes: ["crashed"], role: "none" },
  pin: { steps: [...change], writes: ["pinned"], role: "none" },
  probe: { steps: [...claiming, "unlock"], writes: [], role: "none" }
} satisfies Record<string, Verb>

export type VerbName = keyof typeof verbs

export const verbNames = Object.keys(verbs) as ReadonlyArray<VerbName>

/** A child works with the lease that it was handed, whatever becomes of who started it. */
export const child: Verb = { steps: ["work", "unlock"], writes: [], role: "guest" }

const silent: ReadonlySet<Step> = new Set<Step>(["hand on", "work", "hooks"])

export const atDoors = ({ steps }: Verb): ReadonlyArray<AtDoor> =>
  steps.filter((step): step is AtDoor => !silent.has(step))
