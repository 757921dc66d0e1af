import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import { Lease } from "../../src/Lease.ts"
import * as RunStore from "../../src/RunStore.ts"
import { bundles, json, names, onlyRecord, records, shell, withRoot } from "../support/CommandLine.ts"
import { directory, gate, leasehold, run } from "../support/Worker.ts"

// == a disk that is full

const mount = (path: string) =>
  NodeChildProcess.spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", path]).status === 0

/** A small disk of our own, taken away with the scope. */
const smallDisk = Effect.flatMap(directory, (dir) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      assert.isTrue(mount(dir))
      return dir
    }),
    () => Effect.sync(() => void NodeChildProcess.spawnSync("umount", ["-l", dir]))
  ))

const canMount = (() => {
  const dir = NFS.mkdtempSync("/tmp/leasehold-test-")
  const can = mount(dir)
  if (can) NodeChildProcess.spawnSync("umount", [dir])
  NFS.rmdirSync(dir)
  return can
})()

/** Leaves not a byte. */
const fill = (disk: string) => {
  const fd = NFS.openSync(`${disk}/filler`, "w")
  try {
    for (;;) NFS.writeSync(fd, Buffer.alloc(4096))
  } catch {
    NFS.closeSync(fd)
  }
}

describe.skipIf(!canMount)("a disk that is full", () => {
  it.live("at the start: nothing is left behind", () =>
    Effect.scoped(Effect.gen(function*() {
      const disk = yield* smallDisk
      const root = `${disk}/store`
      yield* run(root, ["run", "--name", "first", "--", "true"])
      fill(disk)
      for (const args of [["run"], ["run", "--json"]]) {
        const exit = yield* run(root, [...args, "--", "echo", "never"])
        assert.deepStrictEqual([exit.code, exit.stdout], [1, ""])
        assert.match(exit.stderr, /the disk is full \(ENOSPC/)
      }
      assert.deepStrictEqual(records(root).map((record) => record.name), ["first"])
      assert.deepStrictEqual(names(`${root}/staging`), [])
      NFS.rmSync(`${disk}/filler`)
      assert.strictEqual((yield* run(root, ["run", "--", "true"])).code, 0)
    })))

  it.live("at the end: the old record stays whole, hooks run, and the exit code tells", () =>
    Effect.scoped(Effect.gen(function*() {
      const disk = yield* smallDisk
      const root = `${disk}/store`
      const end = yield* gate(`${disk}/end`)
      // The holder file of a child's lease goes with the child and would give a block back.
      const flags = ["--no-inherit-lease", "--cleanup", "echo hook"]
      const worker = yield* leasehold(root, ["run", ...flags, ...shell(`echo at-work; ${end.wait}`)])
      yield* worker.line("at-work")
      fill(disk)
      yield* end.open
      const exit = yield* worker.exit
      assert.deepStrictEqual([exit.code, exit.stdout], [1, "at-work\nhook\n"])
      assert.match(exit.stderr, /the disk is full \(ENOSPC/)
      assert.strictEqual(onlyRecord(root).status, "running")
      assert.deepStrictEqual(names(`${bundles(root)[0]}`).filter((name) => name.endsWith(".tmp")), [])
      assert.deepInclude((yield* json(root, ["ls"])).runs[0], { status: "crashed", live: false })
      assert.include((yield* run(root, ["ls"])).stdout, "crashed")
    })))

  it.live.each([[], ["--quiet"]])(
    "in the middle, with %o: the command goes on, its output passes on, and what was lost is said",
    (flags) =>
      Effect.scoped(Effect.gen(function*() {
        const disk = yield* smallDisk
        const script = `head -c 4000000 /dev/zero; rm -f "$LEASEHOLD_RUN_DIR/logs/stdout.log"; echo after >&2; exit 4`
        const root = `${disk}/store`
        const exit = yield* run(root, ["run", ...flags, ...shell(script)])
        assert.strictEqual(exit.code, 4)
        assert.strictEqual(exit.stdout.length, flags.length === 0 ? 4_000_000 : 0)
        assert.match(exit.stderr, /output is not kept any more: .*the disk is full \(ENOSPC/)
        const { attempts, ...record } = onlyRecord(root)
        assert.deepInclude(record, { status: "error", exit: { code: 4 } })
        assert.isTrue(attempts[0]?.outputIncomplete)
        const shown = /^output +(.*)$/m
        const { stdout } = yield* run(root, ["show", "latest"])
        assert.strictEqual(shown.exec(stdout)?.[1], "incomplete: it could not all be kept")
        yield* run(root, ["resume", "latest", "--", "true"])
        assert.notMatch((yield* run(root, ["show", "latest"])).stdout, shown)
      }))
  )
})

// == many at once, and killed ones

/** What another process could do with every run that there is. */
const claims = (root: string) =>
  Effect.gen(function*() {
    const store = yield* RunStore.RunStore
    const lease = yield* Lease
    return yield* Effect.forEach(bundles(root), (bundle) =>
      Effect.gen(function*() {
        const entry = yield* store.find(bundle.slice(bundle.lastIndexOf("/") + 1))
        const claim = yield* Effect.result(Effect.scoped(lease.claim(entry)))
        return Result.isSuccess(claim) ? "claimed" : claim.failure.message
      }))
  }).pipe(Effect.provide(RunStore.layer({ root, allowTemp: true })))

describe("many runs", () => {
  it.live("that start at once in a store that is not there yet are all whole", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exits = yield* Effect.forEach(
          Array.from({ length: 50 }, (_, index) => index),
          (index) => run(root, ["run", "--name", `n${index}`, "--", "echo", `${index}`]),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          exits.map(({ code, stderr, stdout }) => [code, stderr, stdout]),
          exits.map((_, index) => [
            0,
            "",
            `${index}\n`
          ])
        )
        assert.strictEqual(new Set(records(root).map((record) => record.name)).size, 50)
        for (const record of records(root)) assert.deepInclude(record, { status: "ok", exit: { code: 0 } })
        assert.deepStrictEqual(names(`${root}/staging`), [])
      })
    ))

  it.live("that are killed at any moment are there or not, never half, and free at once", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const never = yield* gate(`${root}-never`)
        const begin = leasehold(root, ["run", "--no-inherit-lease", ...shell(`echo at-work; ${never.wait}`)])
        const [usual, first] = yield* Effect.timed(Effect.tap(begin, (worker) => worker.line("at-work")))
        const killedAfter = Effect.fnUntraced(function*(part: number) {
          const worker = yield* begin
          // Not to wait for anything, but to come at all moments.
          yield* Effect.sleep(Duration.times(usual, part))
          yield* worker.kill("SIGKILL")
          yield* worker.exit
          const { runs } = yield* json(root, ["ls", "--limit", "0"])
          for (const each of runs) {
            assert.notProperty(each, "problem")
            // A pass of a later one may have written down what became of an earlier one.
            assert.include(["running", "crashed"], each.status)
          }
        }, Effect.scoped)
        const parts = Array.from({ length: 20 }, (_, index) => 0.5 + index * 0.07 + Math.random() * 0.07)
        yield* Effect.forEach(parts, killedAfter, { concurrency: 2 })
        yield* first.kill("SIGTERM")
        yield* first.exit
        const all = yield* claims(root)
        assert.deepStrictEqual(all, all.map(() => "claimed"))
        const crashed = (yield* json(root, ["ls", "--limit", "0", "--status", "crashed"])).runs
        assert.strictEqual(crashed.length, all.length - 1)
        assert.isAbove(crashed.length, 0)
        // Whatever was being built when its process was killed is in nobody's way.
        assert.strictEqual((yield* run(root, ["run", "--", "true"])).code, 0)
      })
    ))
})
