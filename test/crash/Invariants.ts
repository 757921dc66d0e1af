/** What has to hold in a store whatever has happened to those who worked in it, and whether one can go on there. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as NFS from "node:fs"
import * as Retention from "../../src/Retention.ts"
import { untilPaid } from "../../src/RetentionRounds.ts"
import * as Run from "../../src/Run.ts"
import * as RunId from "../../src/RunId.ts"
import * as RunStore from "../../src/RunStore.ts"
import * as Verification from "../../src/Verification.ts"
import { describe, type Finding, isOpenProblem } from "../../src/VerificationFinding.ts"
import type { Made } from "../support/Fabricate.ts"
import { world } from "./Scenarios.ts"

const names = (path: string): ReadonlyArray<string> => NFS.existsSync(path) ? NFS.readdirSync(path) : []

/** Where a run is. */
const placesOf = (root: string, { dir, id }: Made): ReadonlyArray<string> => [
  ...NFS.existsSync(dir) ? ["runs"] : [],
  ...NFS.existsSync(`${root}/archive/${RunId.day(id)}/${id}.tar.zst`) ? ["archive"] : [],
  ...names(`${root}/trash`).some((name) => name.startsWith(id)) ? ["trash"] : []
]

/** It may lie in the archive beside what is on its way out of it, or into it. */
const allowed: ReadonlySet<string> = new Set([
  "runs",
  "archive",
  "trash",
  "runs,archive",
  "archive,trash",
  "runs,trash",
  ""
])

/** Those whose scenario removes nothing for good. */
const isLost = (root: string, made: Made) => !["runs", "archive"].some((place) => placesOf(root, made).includes(place))

/** What the system would not have deleted is told of, and waits for somebody to say that it is to be tried again. */
const isOwnUp = ({ fault }: Finding) => fault._tag === "Stuck"

const problems = Verification.check().pipe(
  Stream.filter((finding) => isOpenProblem(finding) && !isOwnUp(finding)),
  Stream.map(({ fault, where }) => `${where}: ${describe(fault)}`),
  Stream.runCollect
)

/** Everything there is to say against a store. `removes` when runs may have gone for good. */
export const violations = (
  root: string,
  made: ReadonlyArray<Made>,
  removes: boolean
): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function*() {
    const found: Array<string> = [...yield* problems]
    for (const each of made) {
      const places = placesOf(root, each).join()
      if (!allowed.has(places)) found.push(`${each.id} is in ${places}`)
      if (!removes && isLost(root, each)) found.push(`${each.id} is lost`)
    }
    const store = yield* RunStore.RunStore
    for (const entry of yield* Stream.runCollect(store.list)) {
      const liveness = yield* store.liveness(entry)
      if (liveness._tag !== "Dead") found.push(`${entry.id} is ${liveness._tag}, and nobody is there`)
    }
    // Ordinary work, and passes until nothing is left to do.
    yield* Effect.void.pipe(Run.scoped({ name: "afterwards", retention: "off" }))
    const paid = yield* untilPaid({ policy: { maxBundles: 1000 } })
    if (paid.failed.length > 0) found.push(...paid.failed.map(({ id, reason }) => `${id}: ${reason}`))
    const again = yield* Retention.run({ policy: { maxBundles: 1000 } })
    if (again.removed.length + again.recovered.length > 0) found.push("a second pass still finds something to do")
    yield* Verification.check({ repair: true }).pipe(Stream.runDrain)
    const left = names(`${root}/staging`)
    if (left.length > 0) found.push(`staging still has ${left}`)
    const after = yield* Stream.runCollect(Stream.filter(Verification.check(), isOpenProblem))
    return [...found, ...after.map(({ fault, where }) => `${where}: ${describe(fault)}, after a repair`)]
  }).pipe(
    Effect.provide(world(root)),
    Effect.catchCause((cause) => Effect.succeed([`nobody can work there: ${String(cause)}`]))
  )
