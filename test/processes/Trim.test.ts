/**
 * `trim` as a command: what it says, beside who resumes the same run, and killed.
 *
 * It is killed at random calls to the disk, 6 of them, or as many as `LEASEHOLD_POINTS` says:
 *
 *     LEASEHOLD_POINTS=200 npx vitest run test/processes/Trim.test.ts -t killed
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as RunStore from "../../src/RunStore.ts"
import * as RunTrim from "../../src/RunTrim.ts"
import { json, onlyRecord, recordAt, shell } from "../support/CommandLine.ts"
import { once, watch } from "../support/Doors.ts"
import { bundle, type Made, type Spec } from "../support/Fabricate.ts"
import { inStore, isSwept, makeStore, traces, withRoot } from "../support/Stores.ts"
import { struck } from "../support/Strike.ts"
import { hour } from "../support/Time.ts"
import { command, type Exit, gate, leasehold, run } from "../support/Worker.ts"

/** A finished bundle with so many files of a block in `temp`, every other one in a directory of its own. */
const filled = (root: string, files: number, spec: Partial<Spec> = {}) => {
  const made = bundle(root, { startedAt: Date.now() - hour, size: 100, ...spec })
  for (let nth = 0; nth < files; nth++) {
    const dir = `${made.dir}/temp${nth % 2 === 0 ? "" : `/${nth}-directory`}`
    NFS.mkdirSync(dir, { recursive: true })
    NFS.writeFileSync(`${dir}/${nth}`, "x".repeat(4096))
  }
  return made
}

const temp = ({ dir }: Made) => NFS.readdirSync(`${dir}/temp`)

const resume = (root: string, { id }: Made, ...more: ReadonlyArray<string>) =>
  run(root, ["resume", id, "--retention", "off", ...more, "--", "sh", "-c", "echo x > $LEASEHOLD_RUN_DIR/temp/again"])

describe("leasehold trim", () => {
  it.live("of several runs does what it can, says what it could not, and gives the space back", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [first, second, other] = [filled(root, 4), filled(root, 4), filled(root, 4)]
        const pinned = filled(root, 4, { pin: "keep" })
        const told = yield* run(root, ["trim", first.id, first.id, pinned.id])
        assert.deepStrictEqual([told.code, told.stdout], [1, `trimmed ${first.id}: 16.0 KiB of temp/**\n`])
        assert.match(told.stderr, /is pinned \(keep\); unpin it first.*\n16\.0 KiB given back\n$/)
        isSwept(root)
        const answer = yield* json(root, ["trim", first.id, "2031", second.id, "--path", "temp/*-directory/*"])
        assert.strictEqual(Object.keys(answer).join(" "), "version trimmed failed undeleted freedBytes")
        assert.deepStrictEqual(answer.trimmed, [
          { id: first.id, paths: ["temp/*-directory/*"], entries: 0, bytes: 0 },
          { id: second.id, paths: ["temp/*-directory/*"], entries: 2, bytes: 8192 }
        ])
        assert.deepStrictEqual([answer.failed[0].id, answer.failed[0].error], ["2031", "StoreError.NoSuchRun"])
        assert.deepStrictEqual([answer.undeleted, answer.freedBytes], [[], 8192])
        assert.deepStrictEqual(temp(second).sort(), ["0", "1-directory", "2", "3-directory"])
        const nothing = yield* run(root, ["trim", first.id])
        assert.deepStrictEqual([nothing.code, nothing.stdout, nothing.stderr], [
          0,
          `nothing to trim in ${first.id}: temp/**\n`,
          ""
        ])
        const before = traces(other.dir)
        for (const glob of ["../x", "/etc", "", "run.json"]) {
          const refused = yield* run(root, ["trim", other.id, "--path", "temp/**", "--path", glob])
          assert.deepStrictEqual([refused.code, refused.stdout], [2, ""])
          assert.include(refused.stderr, "cannot say what to trim")
        }
        assert.strictEqual((yield* run(root, ["trim", "2031"])).code, 5)
        assert.strictEqual((yield* run(root, ["trim"])).code, 2)
        assert.deepStrictEqual(traces(other.dir), before)
      })
    ))

  it.live("leaves a run that is listed and shown with what was trimmed, and that is resumed on a word", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = filled(root, 4)
        yield* run(root, ["trim", "latest"])
        assert.match((yield* run(root, ["show", "latest"])).stdout, /^trimmed +temp\/\*\*: 16\.0 KiB \(.*\)$/m)
        assert.deepStrictEqual((yield* json(root, ["ls"])).runs.map(({ id }: Made) => id), [made.id])
        const refused = yield* resume(root, made)
        assert.strictEqual(refused.code, 1)
        assert.match(refused.stderr, /temp\/\*\* was trimmed; .* --rebuilds/)
        assert.strictEqual(onlyRecord(root).attempts.length, 1)
        assert.strictEqual((yield* resume(root, made, "--rebuilds")).code, 0)
        assert.strictEqual((yield* resume(root, made)).code, 0)
        assert.deepStrictEqual(temp(made), ["again"])
        assert.strictEqual((yield* json(root, ["trim", "latest"])).trimmed[0].entries, 1)
        assert.strictEqual((yield* resume(root, made)).code, 1)
      })
    ))
})

/** Who is root is refused nothing by a mode. */
const user = 4321

describe.skipIf(process.getuid?.() !== 0)("as somebody who is not root", () => {
  it.live("takes from directories that are read-only, which are so again, and such as are matched", () =>
    withRoot((root) =>
      Effect.sync(() => {
        const made = filled(root, 2)
        makeStore(root)
        for (const part of ["shut", "open/shut"]) NFS.mkdirSync(`${made.dir}/temp/${part}`, { recursive: true })
        for (const part of ["shut", "open/shut"]) NFS.writeFileSync(`${made.dir}/temp/${part}/file`, "x")
        NFS.mkdirSync(`${made.dir}/artifacts/shut/shut`, { recursive: true })
        NFS.writeFileSync(`${made.dir}/artifacts/shut/shut/file`, "x")
        NodeChildProcess.execFileSync("chown", ["-R", `${user}:${user}`, root.slice(0, root.lastIndexOf("/"))])
        for (const path of ["temp/shut", "temp/open/shut", "temp", "artifacts/shut/shut", "artifacts/shut"]) {
          NFS.chmodSync(`${made.dir}/${path}`, 0o555)
        }
        const args = ["trim", "latest", "--path", "temp/**", "--path", "artifacts/*/*", "--json"]
        const { LEASEHOLD_ROOT: _, ...env } = process.env
        const told = NodeChildProcess.spawnSync(process.execPath, [command, ...args, "--allow-temp", "--root", root], {
          uid: user,
          gid: user,
          env,
          cwd: "/",
          encoding: "utf8"
        })
        assert.deepStrictEqual([told.status, told.stderr], [0, ""])
        assert.strictEqual(JSON.parse(told.stdout).trimmed[0].entries, 5)
        assert.deepStrictEqual([temp(made), NFS.readdirSync(`${made.dir}/artifacts/shut`)], [[], []])
        for (const path of ["temp", "artifacts/shut"]) {
          assert.strictEqual(NFS.statSync(`${made.dir}/${path}`).mode & 0o777, 0o555)
        }
        isSwept(root)
      })
    ))
})

describe("of a trim and a resume of the same run exactly one goes first", () => {
  it.live("who resumes under the claim of a trim is told, and then that it was trimmed", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = filled(root, 4)
        let told: Exit | undefined
        const come = Effect.gen(function*() {
          told = yield* resume(root, made, "--rebuilds")
        })
        yield* watch(once((call) => call === "renameAt", come))(RunTrim.trim(made.id))
        assert.strictEqual(told?.code, 4)
        assert.match(told?.stderr ?? "", /in use by pid \d+|being removed, archived or changed by pid \d+/)
        assert.deepStrictEqual([temp(made), recordAt(made.dir).attempts.length], [[], 1])
        assert.strictEqual((yield* resume(root, made)).code, 1)
        assert.strictEqual((yield* resume(root, made, "--rebuilds")).code, 0)
      })
    ))

  it.live("who resumes before the claim of a trim has it, at work and in a clean-up hook, and not a byte goes", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = filled(root, 4)
        const end = yield* gate(`${root}-end`)
        const hook = yield* gate(`${root}-hook`)
        const args = ["resume", made.id, "--retention=off", "--cleanup", `echo cleaning-up; ${hook.wait}`]
        let owner: Effect.Success<ReturnType<typeof leasehold>> | undefined
        const scope = yield* Effect.scope
        const come = Effect.gen(function*() {
          owner = yield* leasehold(root, [...args, ...shell(`echo at-work; ${end.wait}`)])
          yield* owner.line("at-work")
        })
        const isClaim = (call: string, [path]: ReadonlyArray<string>) =>
          call === "tryExclusive" && path === `${made.dir}/lease`
        const inScope = Effect.provideService(come, Scope.Scope, scope)
        const error = yield* Effect.flip(watch(once(isClaim, inScope))(RunTrim.trim(made.id)))
        assert.match(error.message, /in use by pid \d+ on .*\((owner|child)\)/)
        assert.strictEqual((yield* run(root, ["trim", made.id])).code, 4)
        yield* end.open
        yield* owner!.line("cleaning-up")
        assert.strictEqual(recordAt(made.dir).status, "ok")
        assert.strictEqual((yield* run(root, ["trim", made.id])).code, 4)
        assert.deepStrictEqual([temp(made).length, recordAt(made.dir).trimmed], [4, undefined])
        yield* hook.open
        assert.strictEqual((yield* owner!.exit).code, 0)
        assert.strictEqual((yield* run(root, ["trim", made.id])).code, 0)
        assert.deepStrictEqual(temp(made), [])
        assert.isTrue(RunTrim.covers(recordAt(made.dir), ["temp/**"]))
      })
    ))

  it.live("a trim that comes when a resume has its lease, and has not written its attempt, is refused", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = filled(root, 4)
        const store = yield* RunStore.RunStore
        let told: Exit | undefined
        const come = Effect.gen(function*() {
          told = yield* run(root, ["trim", made.id])
        })
        const isWriting = (call: string, [, to]: ReadonlyArray<string>) =>
          call === "rename" && to === `${made.dir}/run.json`
        yield* Effect.scoped(watch(once(isWriting, come))(store.resume(made.id)))
        assert.deepStrictEqual([told?.code, temp(made).length], [4, 4])
      })
    ))
})

const trimStruck = (root: string, env: Readonly<Record<string, string>>) => struck(root, ["trim", "latest"], env)

const points = Number(process.env["LEASEHOLD_POINTS"] ?? 6)
const files = 8

/** A run that crashed, so that there is a recovery to be killed in as well. */
const stage = (root: string) => {
  const made = filled(root, files, { status: "running" })
  makeStore(root)
  return made
}

describe("a trim that is killed", () => {
  it.live(
    `at ${points} random points leaves a whole bundle that says so, and the next completes it`,
    () =>
      withRoot((counted) =>
        Effect.gen(function*() {
          stage(counted)
          assert.strictEqual((yield* trimStruck(counted, { STRIKE_COUNT: `${counted}-count` })).code, 0)
          const calls = Number(NFS.readFileSync(`${counted}-count`, "utf8"))
          assert.isAbove(calls, 80)
          const seen = new Set<string>()
          for (let point = 0; point < points; point++) {
            const strikeAt = Math.ceil(((point + (yield* Random.next)) / points) * calls * 0.98)
            yield* withRoot((root) =>
              Effect.gen(function*() {
                const made = stage(root)
                const where = `at call ${strikeAt} of ${calls}`
                const exit = yield* trimStruck(root, { STRIKE_AT: String(strikeAt), STRIKE_SIGNAL: "SIGKILL" })
                assert.strictEqual(exit.signal, "SIGKILL", where)
                const [trim, ...more] = recordAt(made.dir).trimmed ?? []
                assert.deepStrictEqual(more, [], where)
                const left = temp(made).length
                // Nothing has gone of which the record does not say that it may have.
                if (trim === undefined) assert.strictEqual(left, files, where)
                else if (trim.pending !== true) assert.strictEqual(left, 0, where)
                seen.add(trim === undefined ? "before" : trim.pending !== true ? "after" : "pending")
                assert.strictEqual(NFS.statSync(`${made.dir}/artifacts/data`).size, 100)
                const { problems } = yield* json(root, ["verify"])
                assert.strictEqual(problems, 0, where)
                const [listed] = (yield* json(root, ["ls"])).runs
                assert.deepStrictEqual([listed.id, listed.live, listed.problem], [made.id, false, undefined], where)
                if (trim !== undefined) assert.strictEqual((yield* resume(root, made)).code, 1, where)
                const next = yield* run(root, ["trim", "latest"])
                assert.deepStrictEqual([next.code, temp(made)], [0, []], where)
                const { status, trimmed = [] } = recordAt(made.dir)
                assert.deepStrictEqual([status, trimmed.map(({ at: _, ...rest }) => rest)], ["crashed", [
                  { paths: ["temp/**"], entries: files, bytes: trimmed[0]!.bytes }
                ]], where)
                assert.isAtLeast(trimmed[0]!.bytes, files * 4096)
                yield* run(root, ["verify", "--repair"])
                isSwept(root)
              })
            )
          }
          if (points >= 12) assert.deepStrictEqual([...seen].sort(), ["after", "before", "pending"])
        })
      ),
    300_000
  )
})
