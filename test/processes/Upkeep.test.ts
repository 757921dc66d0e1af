import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { bundle, type Made, series } from "../support/Fabricate.ts"
import { everything } from "../support/Snapshot.ts"
import { day, minute } from "../support/Time.ts"
import { command, directory, type Gate, gate, leasehold, run } from "../support/Worker.ts"

const inStore = <A, E>(test: (root: string) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.scoped(Effect.flatMap(directory, (dir) => test(`${dir}/store`)))

/** What a command prints for programs, and how it ends. */
const json = (root: string, ...args: ReadonlyArray<string>) =>
  Effect.map(run(root, [...args, "--json"]), ({ code, stderr, stdout }) => ({ code, stderr, ...JSON.parse(stdout) }))

/** A run that is at work until its gate is opened. */
const working = (root: string, end: Gate, ...flags: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const worker = yield* leasehold(root, [
      "run",
      "--retention",
      "off",
      ...flags,
      "--",
      "sh",
      "-c",
      `echo at-work; ${end.wait}`
    ])
    yield* worker.line("at-work")
    const dir = (yield* run(root, ["path", "latest"])).stdout.trim()
    return { worker, dir, id: NodePath.basename(dir) }
  })

const record = (dir: string) => JSON.parse(NFS.readFileSync(`${dir}/run.json`, "utf8"))

const edit = (dir: string, change: Record<string, unknown>) =>
  NFS.writeFileSync(`${dir}/run.json`, JSON.stringify({ ...record(dir), ...change }))

const fifo = (path: string) => void NodeChildProcess.execFileSync("mkfifo", [path])

const instead = (path: string, make: (path: string) => void) => {
  NFS.rmSync(path, { recursive: true })
  make(path)
}

const keys = (value: object) => Object.keys(value).sort().join(" ")

const idsOf = (list: ReadonlyArray<{ readonly id: string }>) => list.map(({ id }) => id).sort()

const old = () => Date.now() - day

describe("rm", () => {
  it.live("of a run that somebody works in ends with 4, names them, and touches nothing", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const { dir, id, worker } = yield* working(root, end)
        const before = everything(dir)
        const told = yield* run(root, ["rm", "latest"])
        assert.deepStrictEqual([told.code, told.stdout], [4, ""])
        assert.match(told.stderr, new RegExp(`^leasehold: ${id}: in use by pid \\d+ on \\S+ \\((owner|child)\\)`))
        const { code, failed, removed } = yield* json(root, "rm", id)
        assert.deepStrictEqual([code, removed, idsOf(failed)], [4, [], [id]])
        assert.strictEqual(failed[0].error, "LeaseError.Held")
        assert.deepStrictEqual(everything(dir), before)
        yield* end.open
        assert.strictEqual((yield* worker.exit).code, 0)
        assert.strictEqual((yield* run(root, ["rm", id])).code, 0)
        assert.isFalse(NFS.existsSync(dir))
      })
    ))

  it.live("of a run whose outcome is known is refused while a clean-up hook still runs", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const hook = yield* gate(`${root}-hook`)
        const worker = yield* leasehold(root, ["run", "--cleanup", `echo cleaning; ${hook.wait}`, "--", "true"])
        yield* worker.line("cleaning")
        const dir = (yield* run(root, ["path", "latest"])).stdout.trim()
        assert.strictEqual(record(dir).status, "ok")
        assert.strictEqual((yield* run(root, ["rm", "latest"])).code, 4)
        yield* hook.open
        assert.strictEqual((yield* worker.exit).code, 0)
        assert.isTrue(NFS.existsSync(dir))
        assert.strictEqual((yield* run(root, ["rm", "latest"])).code, 0)
      })
    ))

  it.live("bug 55: of a pinned run is refused, and says what to do", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const { dir, id } = bundle(root, { startedAt: old(), pin: "a release" })
        const told = yield* run(root, ["rm", id])
        assert.strictEqual(told.code, 1)
        assert.match(told.stderr, /is pinned \(a release\); unpin it first: leasehold unpin 2/)
        assert.isTrue(NFS.existsSync(`${dir}/run.json`))
        yield* run(root, ["unpin", id])
        assert.strictEqual((yield* run(root, ["rm", id])).code, 0)
      })
    ))

  it.live("of several does what it can, says what it could not, and gives the space back", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const made = series(root, 4, old(), { size: 100_000 })
        const pinned = bundle(root, { startedAt: old(), pin: "keep" })
        const crashed = bundle(root, { startedAt: Date.now() - minute, status: "running" })
        const [first, second, third, last] = made as [Made, Made, Made, Made]
        const answer = yield* json(root, "rm", first.id, "latest", "2031", pinned.id, second.id, "latest", crashed.id)
        assert.strictEqual(keys(answer), "code failed freedBytes removed stderr undeleted version")
        assert.deepStrictEqual([answer.version, answer.code, answer.stderr, answer.undeleted], [1, 5, "", []])
        assert.deepStrictEqual(answer.removed, [first, crashed, second].map(({ id }) => ({ id })))
        assert.isTrue(answer.failed.every((each: object) => keys(each) === "error id message"))
        assert.deepStrictEqual(
          answer.failed.map(({ error, id }: Record<string, string>) => [id, error]),
          [["2031", "StoreError.NoSuchRun"], [pinned.id, "RemovalError.Pinned"]]
        )
        assert.isAtLeast(answer.freedBytes, 200_000)
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
        const people = yield* run(root, ["rm", third.id, pinned.id])
        assert.deepStrictEqual([people.code, people.stdout], [1, `removed ${third.id}\n`])
        assert.match(people.stderr, /is pinned.*\n.* KiB given back\n$/)
        assert.deepStrictEqual(idsOf((yield* json(root, "ls")).runs), idsOf([last, pinned]))
        assert.strictEqual((yield* run(root, ["rm", "../x"])).code, 2)
        assert.strictEqual((yield* run(root, ["rm"])).code, 2)
        assert.strictEqual((yield* run(root, ["rm", "2031", "../x"])).code, 5)
      })
    ))
})

describe.skipIf(process.getuid?.() !== 0)("as somebody who is not root", () => {
  const user = 4321

  it.live("removes a run whose program has made everything read-only", () =>
    inStore((root) =>
      Effect.sync(() => {
        NFS.chownSync(NodePath.dirname(root), user, user)
        const { LEASEHOLD_ROOT: _, ...env } = process.env
        const as = (...args: ReadonlyArray<string>) =>
          NodeChildProcess.spawnSync(process.execPath, [command, ...args], {
            uid: user,
            gid: user,
            env: { ...env, LEASEHOLD_ROOT: root },
            cwd: "/",
            encoding: "utf8"
          })
        const script = "cd $LEASEHOLD_RUN_DIR; mkdir artifacts/d; echo x > artifacts/d/f; chmod -R a-w artifacts"
        const ran = as("run", "--allow-temp", "--retention", "off", "--", "sh", "-c", script)
        assert.deepStrictEqual([ran.status, ran.stderr], [0, ""])
        const dir = as("path", "latest", "--allow-temp").stdout.trim()
        NFS.chmodSync(dir, 0o500)
        assert.deepStrictEqual(as("rm", "latest", "--allow-temp").status, 0)
        assert.isFalse(NFS.existsSync(dir))
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])
      })
    ))
})

describe("recover", () => {
  it.live("brings a run to its end whose owner was killed, once", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const { dir, id, worker } = yield* working(root, end, "--no-inherit-lease")
        const live = yield* json(root, "recover")
        assert.strictEqual(keys(live), "code failed live recovered stderr unknown version")
        assert.deepStrictEqual([live.code, live.recovered, live.unknown, live.failed], [0, [], [], []])
        assert.deepStrictEqual([live.live[0].id, live.live[0].holders[0].role], [id, "owner"])
        assert.strictEqual((yield* run(root, ["recover", "latest"])).code, 4)
        yield* worker.kill("SIGKILL")
        yield* worker.exit
        assert.strictEqual(record(dir).status, "running")
        assert.deepStrictEqual((yield* json(root, "recover", "latest")).recovered, [{ id }])
        const { attempts, endedAt, status } = record(dir)
        assert.deepStrictEqual([status, attempts[0].status, attempts[0].endedAt], ["crashed", "crashed", endedAt])
        const again = yield* json(root, "recover")
        assert.deepStrictEqual([again.code, again.recovered, again.live], [0, [], []])
        assert.match((yield* run(root, ["recover", id])).stdout, /^ended 2\S+: crashed, nothing to recover\n$/)
        yield* end.open
      })
    ))

  it.live("recovers fifty that crashed, and leaves the live and the unknown", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const crashed = series(root, 50, old(), { status: "running" })
        series(root, 5, old() - day)
        const [odd, broken, swapped] = series(root, 3, old() + day / 2, { status: "running" }) as [Made, Made, Made]
        instead(`${odd.dir}/lease`, fifo)
        NFS.writeFileSync(`${swapped.dir}/run.json`, JSON.stringify({ ...record(swapped.dir), id: odd.id }))
        NFS.writeFileSync(`${broken.dir}/run.json`, "{")
        const { id, worker } = yield* working(root, end)
        const answer = yield* json(root, "recover")
        assert.deepStrictEqual([answer.code, answer.failed], [0, []])
        assert.deepStrictEqual(idsOf(answer.recovered), idsOf(crashed))
        assert.deepStrictEqual(idsOf(answer.live), [id])
        assert.deepStrictEqual(idsOf(answer.unknown), idsOf([odd, broken, swapped]))
        assert.match(answer.unknown.map(({ reason }: { reason: string }) => reason).join(), /fifo|malformed|is that of/)
        assert.strictEqual(record(swapped.dir).status, "running")
        assert.isTrue(crashed.every(({ dir }) => record(dir).status === "crashed"))
        const named = yield* json(root, "recover", odd.id, "2031", id)
        assert.deepStrictEqual([named.code, named.failed[0].id, named.unknown[0].id], [4, "2031", odd.id])
        assert.strictEqual((yield* run(root, ["recover", odd.id])).code, 1)
        const people = yield* run(root, ["recover"])
        assert.match(people.stdout, new RegExp(`^live ${id}: in use by pid`, "m"))
        assert.match(people.stderr, /^0 recovered, 1 live, 3 unknown, 0 failed$/m)
        yield* end.open
        yield* worker.exit
      })
    ))
})

describe("du", () => {
  it.live("tells the bytes of each run, the largest first for people, and what is archived or in the trash", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const small = bundle(root, { startedAt: old(), size: 10 })
        const large = bundle(root, { startedAt: old() - minute, size: 3 * 1024 * 1024 })
        NFS.linkSync(`${large.dir}/artifacts/data`, `${large.dir}/artifacts/again`)
        const sparse = bundle(root, { startedAt: old() - day })
        NFS.writeFileSync(`${sparse.dir}/artifacts/sparse`, "")
        NFS.truncateSync(`${sparse.dir}/artifacts/sparse`, 50_000_000)
        NFS.mkdirSync(`${root}/trash/x/y`, { recursive: true })
        NFS.writeFileSync(`${root}/trash/x/y/data`, Buffer.alloc(100_000, 1))
        const answer = yield* json(root, "du")
        assert.strictEqual(keys(answer), "archiveBytes bytes code runs stagingBytes stderr trashBytes version")
        const bytes = new Map<string, number>(
          answer.runs.map((each: { id: string; bytes: number }) => [each.id, each.bytes])
        )
        assert.sameMembers([...bytes.keys()], [small.id, large.id, sparse.id])
        assert.isTrue(answer.runs.every((each: object) => keys(each) === "bytes complete id"))
        assert.isBelow(bytes.get(sparse.id)!, 1_000_000)
        assert.isAtLeast(bytes.get(large.id)!, 3 * 1024 * 1024)
        assert.isBelow(bytes.get(large.id)!, 4 * 1024 * 1024)
        assert.strictEqual(answer.bytes, [...bytes.values()].reduce((left, right) => left + right))
        assert.isAtLeast(answer.trashBytes, 100_000)
        assert.deepStrictEqual([answer.stagingBytes, answer.archiveBytes], [0, 0])
        const lines = (yield* run(root, ["du"])).stdout.trimEnd().split("\n")
        assert.match(lines[0] ?? "", new RegExp(`3\\.\\d MiB  ${large.id}$`))
        assert.match(lines.slice(-3).join("\n"), /archived\n.*in the trash\n.*being built$/)
        assert.deepStrictEqual(idsOf((yield* json(root, "du", "latest")).runs), [small.id])
        NFS.writeFileSync(`${large.dir}/artifacts/noise`, NodeCrypto.randomBytes(2 * 1024 * 1024))
        yield* run(root, ["archive", large.id])
        const after = yield* json(root, "du")
        assert.sameMembers(idsOf(after.runs), idsOf([small, sparse]))
        assert.isAtLeast(after.archiveBytes, 2 * 1024 * 1024)
        assert.isBelow(after.archiveBytes, 3 * 1024 * 1024)
        assert.match((yield* run(root, ["du"])).stdout, /2\.\d MiB {2}archived$/m)
        // What is left of one that was restored says when that was, and is no archive.
        yield* run(root, ["archive", small.id])
        yield* run(root, ["restore", small.id])
        assert.strictEqual((yield* json(root, "du")).archiveBytes, after.archiveBytes)
        const removed = yield* json(root, "rm", large.id)
        assert.deepStrictEqual(removed.removed, [{ id: large.id }])
        assert.isAtLeast(removed.freedBytes, 2 * 1024 * 1024)
        assert.strictEqual((yield* run(root, ["du", "2031"])).code, 5)
      })
    ))
})

describe("verify", () => {
  /** A store with everything that a verification may find in it, and a run that is at work. */
  const damaged = (root: string, end: Gate) =>
    Effect.gen(function*() {
      const [sound, empty, large, odd, newer, wrong, crashed, lost] = series(root, 8, old()) as [
        Made,
        Made,
        Made,
        Made,
        Made,
        Made,
        Made,
        Made
      ]
      NFS.writeFileSync(`${empty.dir}/run.json`, "")
      NFS.truncateSync(`${large.dir}/run.json`, 200_000_000)
      instead(`${odd.dir}/run.json`, fifo)
      edit(newer.dir, { version: 2 })
      edit(wrong.dir, { id: sound.id })
      edit(crashed.dir, { status: "running" })
      NFS.writeFileSync(`${crashed.dir}/run.json.draft-a1b2c3.tmp`, "")
      edit(lost.dir, { status: "running" })
      NFS.rmSync(`${lost.dir}/lease`)
      NFS.mkdirSync(`${root}/staging/20261101T000000000Z-aaaaaaaa`, { recursive: true })
      NFS.mkdirSync(`${root}/trash/gone`, { recursive: true })
      NFS.writeFileSync(`${root}/runs/notes.txt`, "")
      NFS.writeFileSync(`${root}/index.db`, "noise")
      const live = yield* working(root, end)
      NFS.writeFileSync(`${live.dir}/run.json`, "{")
      return { sound, unreadable: [empty, large, odd], newer, wrong, crashed, lost, live }
    })

  interface Found {
    readonly id: string | null
    readonly kind: string
    readonly severity: string
    readonly outcome: string
    readonly reason: string | null
    readonly mend: string | null
  }

  const brief = (findings: ReadonlyArray<Found>) =>
    findings.map(({ id, kind, outcome, severity }) => [kind, severity, outcome, id ?? ""].join(" ").trim())

  it.live("finds every damage, mends what is safe, removes what nobody can read, and leaves the rest", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const end = yield* gate(`${root}-end`)
        const { crashed, live, lost, newer, sound, unreadable, wrong } = yield* damaged(root, end)
        const staged = "20261101T000000000Z-aaaaaaaa"
        const before = everything(root)
        const found = yield* json(root, "verify")
        assert.strictEqual(keys(found), "archives checked code findings mended notes problems root stderr version")
        assert.isTrue(
          found.findings.every((each: object) => keys(each) === "id kind mend message outcome path reason severity")
        )
        assert.sameMembers(brief(found.findings), [
          "strange note left",
          ...unreadable.map(({ id }) => `recordUnusable problem left ${id}`),
          `recordUnusable note left ${newer.id}`,
          `recordUnusable problem left ${live.id}`,
          `wrongId problem left ${wrong.id}`,
          `leaseInDoubt problem left ${lost.id}`,
          `crashed note left ${crashed.id}`,
          `leftover note left ${crashed.id}`,
          `abandoned note left ${staged}`,
          "waiting note left",
          "indexUnusable note left"
        ])
        assert.deepStrictEqual([found.code, found.checked, found.problems, found.notes, found.mended], [1, 9, 6, 7, 0])
        assert.deepStrictEqual(everything(root), before)

        const repaired = yield* json(root, "verify", "--repair")
        assert.sameMembers(
          brief(repaired.findings.filter(({ outcome }: Found) => outcome !== "left")),
          [
            `crashed note mended ${crashed.id}`,
            `leftover note mended ${crashed.id}`,
            `abandoned note mended ${staged}`,
            "waiting note mended",
            "indexUnusable note mended"
          ]
        )
        assert.deepStrictEqual([repaired.code, repaired.problems, repaired.mended], [1, 6, 5])
        assert.strictEqual(record(crashed.dir).status, "crashed")

        const removed = yield* json(root, "verify", "--remove-unreadable")
        assert.sameMembers(
          brief(removed.findings.filter(({ outcome }: Found) => outcome !== "left")),
          [
            ...unreadable.map(({ id }) => `recordUnusable problem mended ${id}`),
            `recordUnusable problem failed ${live.id}`,
            "waiting note mended"
          ]
        )
        assert.match(removed.findings.find(({ outcome }: Found) => outcome === "failed").reason, /in use by pid \d+/)
        assert.deepStrictEqual(
          idsOf((yield* json(root, "ls")).runs),
          idsOf([sound, newer, wrong, crashed, lost, live])
        )
        assert.deepStrictEqual(NFS.readdirSync(`${root}/trash`), [])

        yield* end.open
        assert.strictEqual((yield* live.worker.exit).code, 0)
        assert.strictEqual(record(live.dir).status, "ok")
        yield* run(root, ["rm", wrong.id])
        NFS.rmSync(lost.dir, { recursive: true })
        const people = yield* run(root, ["verify"])
        assert.strictEqual(people.code, 0)
        assert.match(people.stdout, /^note +runs\/.*: run.json has format version 2;/m)
        assert.match(people.stderr, /^4 runs checked: 0 problems, 2 notes, 0 mended$/m)
      })
    ))

  it.live("reads the archive, in part or whole, and says what would mend what", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const [sound, damaged] = series(root, 2, old(), { size: 300_000 }) as [Made, Made]
        const { archived } = yield* json(root, "archive", sound.id, damaged.id)
        NFS.truncateSync(archived[1].path, archived[1].bytes - 20)
        NFS.writeFileSync(`${root}/staging/${sound.id}.tar.zst`, "half an archive")
        const brought = yield* json(root, "verify", "--repair")
        assert.deepStrictEqual([brought.code, brought.checked, brought.archives], [0, 0, 2])
        assert.deepStrictEqual(brief(brought.findings), [`abandoned note mended ${sound.id}`])
        const whole = yield* json(root, "verify", "--archives")
        assert.deepStrictEqual([whole.code, whole.problems, whole.findings[0].path], [1, 1, archived[1].path])
        assert.deepStrictEqual(brief(whole.findings), [`archiveUnusable problem left ${damaged.id}`])
        assert.match(whole.findings[0].message, /^is damaged: /)
        const people = yield* run(root, ["verify", "--archives"])
        assert.match(
          people.stdout,
          /^problem +archive\/\S+\.tar\.zst: is damaged: .*\n +to mend it: put a copy of it back/
        )
        assert.match(people.stderr, /^0 runs and 2 archives checked: 1 problem, 0 notes, 0 mended$/m)
        yield* run(root, ["rm", damaged.id])
        assert.strictEqual((yield* run(root, ["verify", "--archives"])).code, 0)
      })
    ))

  it.live("bug 37: neither it nor du, recover or rm goes through a link, and only the link goes", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const outside = bundle(`${root}-outside`, { startedAt: old(), status: "running" })
        NFS.writeFileSync(`${outside.dir}/run.json.draft-a1b2c3.tmp`, "canary")
        NFS.writeFileSync(`${outside.dir}/artifacts/canary`, "alive")
        bundle(root, { startedAt: old() - 7 * day })
        const place = outside.dir.replace(`${root}-outside`, root)
        NFS.mkdirSync(NodePath.dirname(place), { recursive: true })
        NFS.symlinkSync(outside.dir, place)
        NFS.symlinkSync(NodePath.dirname(outside.dir), `${root}/runs/2026-01-01`)
        const before = everything(`${root}-outside`)
        assert.strictEqual((yield* run(root, ["rm", outside.id])).code, 1)
        assert.deepStrictEqual((yield* json(root, "recover")).recovered, [])
        assert.isBelow((yield* json(root, "du", outside.id)).bytes, 5000)
        const repaired = yield* json(root, "verify", "--repair")
        assert.sameMembers(brief(repaired.findings), [
          "misplaced problem left",
          `recordUnusable problem left ${outside.id}`
        ])
        const removed = yield* json(root, "verify", "--remove-unreadable")
        assert.include(brief(removed.findings), `recordUnusable problem mended ${outside.id}`)
        assert.isFalse(NFS.existsSync(place))
        assert.deepStrictEqual(everything(`${root}-outside`), before)
      })
    ))
})
