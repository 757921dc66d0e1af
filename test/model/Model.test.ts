import { assert, describe, it } from "@effect/vitest"
import { explore, type Explored } from "./Explorer.ts"
import { begin, type Beginning, type Protocol, right } from "./Protocol.ts"
import { type Step, type Verb, type VerbName, verbNames, verbs } from "./Steps.ts"

/** How many processes may die in one history. */
const maxCrashes = 1

const onRuns = verbNames.filter((verb) => verb !== "start")

type Cast = ReadonlyArray<{ readonly verb: VerbName; readonly run: number }>

const pairs = onRuns.flatMap((one, nth) => onRuns.slice(nth).map((other) => [one, other] as const))

/** One of each kind: the order in which processes are named makes no difference. */
const triples = pairs.flatMap(([one, other]) =>
  onRuns.slice(onRuns.indexOf(other)).map((third) => [one, other, third] as const)
)

const onOne = (...all: ReadonlyArray<VerbName>): Cast => all.map((verb) => ({ verb, run: 0 }))

const worlds: ReadonlyArray<readonly [string, ReadonlyArray<Beginning>, ReadonlyArray<Cast>]> = [
  ["three processes in a run that has ended", ["released"], triples.map((verbs) => onOne(...verbs))],
  ["three processes in a run that crashed", ["crashed"], triples.map((verbs) => onOne(...verbs))],
  ["two processes about a run that starts", ["none"], pairs.map((verbs) => onOne("start", ...verbs))],
  [
    "three processes in two runs",
    ["released", "crashed"],
    onRuns.flatMap((alone) =>
      pairs.flatMap(([one, other]): ReadonlyArray<Cast> => [
        [{ verb: alone, run: 0 }, { verb: one, run: 1 }, { verb: other, run: 1 }],
        [{ verb: alone, run: 1 }, { verb: one, run: 0 }, { verb: other, run: 0 }]
      ])
    )
  ]
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
  ]
]

describe("a protocol with a fault in it", () => {
  it.each(mutations)("is caught: %s", (name, mutation, runs, cast, expected) => {
    const { fault, states } = explore({ ...right, ...mutation }, begin(runs, cast), maxCrashes)
    console.log(`${name}, after ${states} states: ${say(fault)}`)
    assert.match(fault?.what ?? "", expected)
  })
})
