import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Files, type FilesApi, node } from "../src/internal/Files.ts"
import { Lease } from "../src/Lease.ts"
import * as Retention from "../src/Retention.ts"
import * as RunArchive from "../src/RunArchive.ts"
import type { RunId } from "../src/RunId.ts"
import * as RunRemoval from "../src/RunRemoval.ts"
import { RunStore } from "../src/RunStore.ts"
import { once, watch } from "./support/Doors.ts"
import { bundle } from "./support/Fabricate.ts"
import { everything } from "./support/Snapshot.ts"
import { inStore, present, removedBy, type World } from "./support/Stores.ts"
import { day } from "./support/Time.ts"
import { lines, made, messageIn, recordOf, refusal, registeredIn, shell } from "./support/Undo.ts"
import { untilGone } from "./support/Worker.ts"

const isAbout = (path: string) => (call: string, [about]: ReadonlyArray<string>) =>
  call === "tryExclusive" && about === path

describe("before a bundle goes, what it has registered is undone", () => {
  it.live("the last first; where one fails the rest waits, and what is done is not done again", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const say = (word: string) => `echo ${word} >> ${log}`
        const one = made(root, [
          shell(say("a")),
          shell(`${say("b")}; test -e ${log}.mended || { echo because >&2; exit 3; }`),
          shell(say("c"))
        ])
        const message = yield* refusal(one)
        assert.match(message, /^NotUndone: .*echo b .*ended with 3: because; see to that, .* leasehold rm /)
        assert.include(message, one.id)
        assert.deepStrictEqual(registeredIn(one), ["a untried", "b failed 1", "c done"])
        assert.match(yield* refusal(one), /^NotUndone/)
        assert.deepStrictEqual(registeredIn(one), ["a untried", "b failed 2", "c done"])
        assert.deepStrictEqual(present(root), [one.id])
        NFS.writeFileSync(`${log}.mended`, "")
        yield* RunRemoval.remove(one.id)
        assert.deepStrictEqual(lines(log), ["c", "b", "b", "b", "a"])
        assert.deepStrictEqual(present(root), [])
      })
    ))

  it.live.each<readonly [string, (id: RunId) => Effect.Effect<unknown, unknown, World>]>([
    ["removed", RunRemoval.remove],
    ["archived", RunArchive.archive]
  ])(
    "and meanwhile whoever has claimed it is named, once: %s",
    ([, leave]) =>
      inStore((root) =>
        Effect.gen(function*() {
          const log = `${root}-log`
          const one = made(root, [shell(`cat $LEASEHOLD_RUN_DIR/holders/*.json | grep role >> ${log}`)])
          yield* leave(one.id)
          assert.deepStrictEqual(lines(log).map((line) => line.trim()), [`"role": "claim",`])
        })
      )
  )

  it.live("what is done is on the disk, to survive a power cut, before the next is begun", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const one = made(root, [shell(`echo a >> ${log}`), shell(`echo b >> ${log}`)])
        const doneAtFlush: Array<number> = []
        const listen = watch((call, [path = ""]) =>
          Effect.sync(() => {
            if (call === "fsync" && path.startsWith(`${one.dir}/run.json`)) doneAtFlush.push(lines(log).length)
          })
        )
        yield* listen(RunRemoval.remove(one.id))
        assert.deepStrictEqual(doneAtFlush, [1, 2])
      })
    ))

  it.live("in its directory, told of the run, with nothing to read and no descriptor but that of the claim", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const one = made(root, [
          shell(
            [
              "pwd; readlink /proc/$$/fd/0; cd /proc/$$/fd; ls | tr '\\n' ' '; echo; readlink /proc/$$/fd/3",
              "echo $LEASEHOLD_ROOT; echo $LEASEHOLD_RUN_ID; echo $LEASEHOLD_RUN_DIR"
            ].map((part) => `{ ${part}; } >> ${log}`).join("; "),
            "/usr"
          )
        ])
        yield* RunRemoval.remove(one.id)
        const [cwd, stdin, descriptors, claim, ...environment] = lines(log)
        assert.deepStrictEqual([cwd, stdin], ["/usr", "/dev/null"])
        // The shell keeps the standard output that it redirects in one of its own, from 10 on.
        assert.deepStrictEqual(descriptors?.trim().split(" ").filter((fd) => Number(fd) < 10).sort(), [
          "0",
          "1",
          "2",
          "3"
        ])
        assert.strictEqual(claim, `${one.dir}/lease`)
        assert.deepStrictEqual(environment, [root, one.id, one.dir])
      })
    ))

  it.live("a failure is the end of what it said, of either stream, without secrets, and not more", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const script = "seq 1 100000; echo PASSWORD=hunter2; printf 'the last\\nof it' > /dev/stderr; exit 1"
        const one = made(root, [shell(script)])
        const message = yield* refusal(one)
        assert.match(message, /ended with 1: 99999 \| 100000 \| PASSWORD=\[redacted\] \| the last \| of it; see/)
        assert.isBelow(messageIn(one).length, 1100)
      })
    ))

  it.live.each<readonly [string, object, RegExp]>([
    [
      "whose directory has gone",
      shell("true", "/nonexistent"),
      /directory \/nonexistent to start it in does not exist/
    ],
    [
      "that is not there",
      { type: "command", argv: ["/nonexistent"], cwd: "/" },
      /cannot be started: .*nonexistent.*ENOENT/
    ],
    ["that a signal ends", shell("kill -9 $$"), /was ended by SIGKILL/]
  ])("a command %s has failed, and says so", ([_, undo, expected]) =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [undo])
        assert.match(yield* refusal(one), expected)
        assert.deepStrictEqual(registeredIn(one), ["a failed 1"])
      })
    ))

  it.live("one that takes longer than it may is told to end, and killed where it will not, with its children", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const deaf = `trap 'echo told >> ${log}' TERM; echo $$ >> ${log}; echo at-work; while :; do sleep 0.1; done`
        const both = { type: "command", argv: ["/bin/sh", "-c", `sh -c "$1" & ${deaf}`, "sh", deaf], cwd: "/" }
        const one = made(root, [both], { timeoutMs: 800 })
        assert.match(yield* refusal(one), /did not end within 800ms and was stopped: at-work/)
        const said = lines(log)
        const pids = said.filter((line) => line !== "told")
        assert.strictEqual(pids.length, 2)
        assert.include(said, "told")
        for (const pid of pids) yield* untilGone(pid)
      })
    ))

  it.live("one that ends when it is told to has failed all the same", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [shell("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done")], {
          timeoutMs: 500
        })
        assert.match(yield* refusal(one), /did not end within 500ms and was stopped: (?:Terminated \| )?bye/)
      })
    ))

  it.live("a pin that comes in between keeps the bundle, and nothing more is undone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore
        const log = `${root}-log`
        const one = made(root, [shell(`echo a >> ${log}`), shell(`echo b >> ${log}`)])
        const pins = once(
          (call, paths) => isAbout(`${one.dir}/run.json`)(call, paths) && lines(log).length > 0,
          Effect.asVoid(Effect.orDie(store.pin(one.id, "a release")))
        )
        assert.match(yield* watch(pins)(refusal(one)), /^Pinned/)
        assert.deepStrictEqual(lines(log), ["b"])
        assert.deepStrictEqual(registeredIn(one), ["a untried", "b done"])
        assert.strictEqual(recordOf(one).pin?.reason, "a release")
      })
    ))

  it.live("one that is pinned already has nothing undone", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [shell(`echo a >> ${root}-log`)])
        yield* Effect.flatMap(RunStore, (store) => store.pin(one.id, "a release"))
        assert.match(yield* refusal(one), /^Pinned/)
        assert.deepStrictEqual(
          (yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })).kept,
          { pinned: 1 }
        )
        assert.deepStrictEqual(lines(`${root}-log`), [])
      })
    ))

  it.live("whoever would go on with the run meanwhile is refused, and told by whom", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const lease = yield* Lease
        const log = `${root}-log`
        const one = made(root, [shell(`echo a >> ${log}`)])
        const answers: Array<string> = []
        const comes = once(
          (call, paths) => isAbout(`${one.dir}/run.json`)(call, paths) && lines(log).length > 0,
          Effect.gen(function*() {
            const error = yield* Effect.flip(Effect.scoped(lease.resume(one)))
            answers.push(error.message)
          }).pipe(Effect.orDie)
        )
        yield* watch(comes)(RunRemoval.remove(one.id))
        assert.strictEqual(answers.length, 1)
        assert.match(answers[0]!, new RegExp(`in use by pid ${process.pid} on .* \\(claim\\)$`))
        assert.deepStrictEqual(present(root), [])
      })
    ))

  it.live("on a full disk what is done cannot be written down, and the bundle goes, which frees space", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const one = made(root, [shell(`echo a >> ${log}`), shell(`echo b >> ${log}`)])
        const full: FilesApi = {
          ...node,
          write: (_, __, path) => Effect.fail(new Errno({ code: "ENOSPC", call: "write", path, cause: undefined }))
        }
        yield* Effect.provideService(RunRemoval.remove(one.id), Files, full)
        assert.deepStrictEqual([lines(log), present(root)], [["b", "a"], []])
      })
    ))
})

describe("what this program does not know how to undo", () => {
  it.live("keeps the bundle, with nothing of it undone, for whoever names it and for a pass, and is debt", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const log = `${root}-log`
        const one = made(root, [{ type: "container", name: "db" }, shell(`echo b >> ${log}`)])
        assert.match(yield* refusal(one), /^NotUndone: .*a, of the kind "container": cannot be undone by this program/)
        for (const dryRun of [true, false]) {
          const report = yield* Retention.run({ policy: { all: true }, dryRun })
          assert.deepStrictEqual([removedBy(report), report.debt?.reasons], [[], { notUndone: 1 }])
          assert.match(report.failed[0]?.reason ?? "", /newer leasehold/)
        }
        assert.deepStrictEqual([lines(log), registeredIn(one)], [[], ["a untried", "b untried"]])
      })
    ))
})

describe("a pass", () => {
  it.live("undoes and removes; one that fails is debt, stays whole, holds up nobody, and a later pass pays it", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const mended = `${root}-mended`
        const failing = made(root, [shell(`test -e ${mended}`)], {}, 3 * day)
        const fine = made(root, [shell(`echo fine >> ${root}-log`)], {}, 2 * day)
        const plain = bundle(root, { startedAt: Date.now() - day })
        const was = everything(`${failing.dir}/artifacts`)
        const policy = { maxAge: "1 hour" }
        const report = yield* Retention.run({ policy })
        assert.deepStrictEqual(removedBy(report), [fine.id, plain.id])
        assert.deepStrictEqual(report.failed.map(({ id }) => id), [failing.id])
        assert.match(report.failed[0]!.reason, /test -e .*ended with 1$/)
        assert.deepStrictEqual(report.debt, {
          bundles: 1,
          bytes: 0,
          reasons: { notUndone: 1 },
          passes: 0,
          pay: "leasehold prune --max-age 1h --max-time 10m"
        })
        assert.deepStrictEqual(lines(`${root}-log`), ["fine"])
        assert.deepStrictEqual(everything(`${failing.dir}/artifacts`), was)
        assert.deepStrictEqual((yield* Retention.run({ policy })).debt?.reasons, { notUndone: 1 })
        assert.deepStrictEqual(registeredIn(failing), ["a failed 2"])
        NFS.writeFileSync(mended, "")
        const last = yield* Retention.run({ policy })
        assert.deepStrictEqual([removedBy(last), last.debt], [[failing.id], null])
      })
    ))

  it.live("ends in time, whatever hangs, and takes what lies behind", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const pidFile = `${root}-pid`
        const hanging = made(
          root,
          [shell(`trap '' TERM; echo $$ > ${pidFile}; while :; do sleep 0.1; done`)],
          {},
          3 * day
        )
        const plain = bundle(root, { startedAt: Date.now() - day })
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "2 seconds" } })
        assert.isBelow(report.elapsedMs, 2500)
        assert.deepStrictEqual([removedBy(report), report.debt?.reasons], [[plain.id], { notUndone: 1 }])
        assert.match(messageIn(hanging), /did not end within .* and was stopped/)
        yield* untilGone(lines(pidFile)[0]!)
      })
    ))

  it.live("with no time left for it begins nothing, which is not a failure", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [shell(`echo a >> ${root}-log`)])
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: 150 } })
        assert.deepStrictEqual([removedBy(report), report.failed, report.debt?.reasons], [[], [], { budget: 1 }])
        assert.deepStrictEqual([lines(`${root}-log`), registeredIn(one)], [[], ["a untried"]])
      })
    ))

  it.live("that only says what it would do undoes and writes nothing", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [shell(`echo a >> ${root}-log`)])
        const was = everything(one.dir)
        const report = yield* Retention.run({ policy: { all: true }, dryRun: true })
        assert.deepStrictEqual([removedBy(report), lines(`${root}-log`)], [[one.id], []])
        assert.deepStrictEqual(everything(one.dir), was)
      })
    ))

  it.live("undoes what a crashed run has left", () =>
    inStore((root) =>
      Effect.gen(function*() {
        const one = made(root, [shell(`echo a >> ${root}-log`)])
        NFS.writeFileSync(`${one.dir}/run.json`, JSON.stringify({ ...recordOf(one), status: "running" }))
        const report = yield* Retention.run({ policy: { all: true }, budget: { maxTime: "1 minute" } })
        assert.deepStrictEqual([removedBy(report), lines(`${root}-log`)], [[one.id], ["a"]])
      })
    ))
})
