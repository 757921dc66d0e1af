import { assert, describe, it } from "@effect/vitest"
import { explore, type Explored } from "./Explorer.ts"
import { begin, type Beginning, type Protocol, right } from "./Protocol.ts"
import { type Step, type Verb, type VerbName, verbNames, verbs } from "./Steps.ts"

/** How many processes may die in one history. */
const maxCrashes = 1

const onArchives: ReadonlyArray<VerbName> = ["archive", "restore", "revive", "expire"]

const onBundles = verbNames.filter((verb) => verb !== "start" && !onArchives.includes(verb))

const onRuns = [...onBundles, ...onArchives]

type Cast = ReadonlyArray<{ readonly verb: VerbName; readonly run: number }>

/** One of each kind: the order in which processes are named makes no difference. */
const pairsOf = (verbs: ReadonlyArray<VerbName>) =>
  verbs.flatMap((one, nth) => verbs.slice(nth).map((other) => [one, other] as const))

const triples = pairsOf(onRuns).flatMap(([one, other]) =>
  onRuns.slice(onRuns.indexOf(other)).map((third) => [one, other, third] as const)
)

/** What can be done with a run that is in the archive meets everything else. */
const archiveTriples = triples.filter((verbs) => verbs.some((verb) => onArchives.includes(verb)))

const onOne = (...all: ReadonlyArray<VerbName>): Cast => all.map((verb) => ({ verb, run: 0 }))

/** One alone in either run, and two in the other: they have nothing in common, and have to have nothing. */
const inTwo = (verbs: ReadonlyArray<VerbName>) =>
  verbs.flatMap((alone) =>
    pairsOf(verbs).flatMap(([one, other]): ReadonlyArray<Cast> => [
      [{ verb: alone, run: 0 }, { verb: one, run: 1 }, { verb: other, run: 1 }],
      [{ verb: alone, run: 1 }, { verb: one, run: 0 }, { verb: other, run: 0 }]
    ])
  )

const onOneEach = (casts: ReadonlyArray<ReadonlyArray<VerbName>>) => casts.map((verbs) => onOne(...verbs))

const worlds: ReadonlyArray<readonly [string, ReadonlyArray<Beginning>, ReadonlyArray<Cast>]> = [
  ["three processes in a run that has ended", ["released"], onOneEach(triples)],
  ["three processes in a run that crashed", ["crashed"], onOneEach(triples)],
  ["three processes about a run that is archived", ["archived"], onOneEach(archiveTriples)],
  ["three processes about a run and what a crash left of its archive", ["both"], onOneEach(archiveTriples)],
  ["two processes about a run that starts", ["none"], onOneEach(pairsOf(onRuns).map((pair) => ["start", ...pair]))],
  ["three processes in two runs", ["released", "crashed"], inTwo(onBundles)],
  ["three processes in two runs, one of them archived", ["released", "archived"], inTwo(onArchives)]
]

const say = (fault: Explored["fault"]) => fault === undefined ? "" : `${fault.what}\n  ${fault.trace.join("\n  ")}`

describe("the protocol, with every interleaving and a death anywhere", () => {
  it.each(worlds)("holds for %s", (name, runs, casts) => {
    let states = 0
    for (const cast of casts) {
      const explored = explore(right, begin(runs, cast), maxCrashes)
      assert.isUndefined(explored.fault, say(explored.fault))
      states += explored.states
    }
    console.log(`${name}: ${casts.length} casts, ${states} states`)
    assert.isAbove(states, casts.length)
  })
})

const without = (verb: Verb, ...left: ReadonlyArray<Step>): Verb => ({
  ...verb,
  steps: verb.steps.filter((step) => !left.includes(step))
})

/** The first of these steps goes to just before another. */
const moved = ({ steps, ...verb }: Verb, step: Step, before: Step): Verb => {
  const at = steps.lastIndexOf(step)
  const rest = steps.filter((_, nth) => nth !== at)
  const to = rest.indexOf(before)
  return { ...verb, steps: [...rest.slice(0, to), step, ...rest.slice(to)] }
}

const mutations: ReadonlyArray<
  readonly [string, Partial<Protocol>, ReadonlyArray<Beginning>, Cast, RegExp]
> = [
  [
    "deciding before the claim",
    {
      remove: { ...verbs.remove, steps: ["read record", ...without(verbs.remove, "lock record", "read record").steps] }
    },
    ["released"],
    onOne("remove", "pin"),
    /a pinned run is removed/
  ],
  [
    "not reading again under the record's lock",
    { remove: without(verbs.remove, "lock record", "unlock record") },
    ["released"],
    onOne("remove", "pin"),
    /a pinned run is removed/
  ],
  [
    "no look at the inode",
    { attach: without(verbs.attach, "check inode") },
    ["released"],
    onOne("remove", "attach"),
    /works in run 0, which is in trash/
  ],
  [
    "the record before the lease",
    { start: moved(moved(verbs.start, "publish", "make lease"), "write record", "publish") },
    ["none"],
    onOne("start", "remove"),
    /is visible and has no lease/
  ],
  [
    "letting go before the hooks",
    { start: moved(verbs.start, "unlock", "hooks") },
    ["none"],
    onOne("start", "remove"),
    /a run at work is removed|works in run 0, which is in trash/
  ],
  [
    "going on without a claim",
    {
      resume: {
        ...verbs.resume,
        steps: verbs.resume.steps.map((step) => step === "lock exclusive" ? "lock shared" : step)
      }
    },
    ["crashed"],
    onOne("resume", "resume"),
    /both own run 0/
  ],
  [
    "removing without a claim",
    { remove: without(verbs.remove, "lock exclusive") },
    ["released"],
    onOne("remove", "attach"),
    /a run at work is removed|works in run 0, which is in trash/
  ],
  [
    "going before the archive is read back",
    { archive: moved(verbs.archive, "read archive", "remove holder") },
    ["released"],
    onOne("archive"),
    /run 0 is lost/
  ],
  [
    "going before the archive is in its place",
    { archive: moved(verbs.archive, "publish archive", "remove holder") },
    ["released"],
    onOne("archive"),
    /run 0 is lost/
  ],
  [
    "packing what is then changed",
    {
      archive: {
        ...verbs.archive,
        steps: verbs.archive.steps.filter((step, nth) => step !== "read record" || nth < 20)
      }
    },
    ["released"],
    onOne("archive", "pin"),
    /a pinned run is removed|what was written after the packing is lost/
  ],
  [
    "archiving without a claim",
    { archive: without(verbs.archive, "lock exclusive") },
    ["released"],
    onOne("archive", "attach"),
    /a run at work is removed|works in run 0, which is in trash/
  ],
  [
    "replacing an archive that another has to do with",
    {
      archive: {
        ...verbs.archive,
        steps: verbs.archive.steps.filter((step) => !["open archive", "lock archive", "check archive"].includes(step))
      }
    },
    ["both"],
    onOne("archive", "expire"),
    /another archive is removed than the one that was locked/
  ],
  [
    "removing what a crash has left of an archive from under somebody",
    { remove: without(verbs.remove, "open archive", "lock archive", "check archive") },
    ["both"],
    onOne("remove", "archive", "restore"),
    /another archive is removed than the one that was locked/
  ],
  [
    "publishing what is restored without its lease",
    { restore: moved(verbs.restore, "publish", "make lease") },
    ["archived"],
    onOne("restore"),
    /run 0 is visible and has no lease/
  ],
  [
    "dropping the archive before the bundle is there",
    { restore: moved(verbs.restore, "drop archive", "publish") },
    ["archived"],
    onOne("restore"),
    /run 0 is lost/
  ],
  [
    "restoring without the lock of the archive",
    { restore: without(verbs.restore, "lock archive") },
    ["archived"],
    onOne("restore", "restore"),
    /./
  ],
  [
    "locking an archive that is not there any more",
    { revive: without(verbs.revive, "check archive") },
    ["archived"],
    onOne("restore", "archive", "revive"),
    /./
  ]
]

describe("a protocol with a fault in it", () => {
  it.each(mutations)("is caught: %s", (name, mutation, runs, cast, expected) => {
    const { fault, states } = explore({ ...right, ...mutation }, begin(runs, cast), maxCrashes)
    console.log(`${name}, after ${states} states: ${say(fault)}`)
    assert.match(fault?.what ?? "", expected)
  })
})
