import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NodeCrypto from "node:crypto"
import * as NFS from "node:fs"
import type { Readable } from "node:stream"
import * as NodeTimers from "node:timers/promises"
import * as Child from "../../src/Child.ts"
import * as Run from "../../src/Run.ts"
import * as TestLayers from "../../src/testing/TestLayers.ts"
import { bundles, kept, names, onlyRecord, shell, withRoot } from "../support/CommandLine.ts"
import { command, gate, leasehold, run, start, wordsFor } from "../support/Worker.ts"

const mebibyte = 1024 * 1024

const sha256 = (bytes: Buffer) => NodeCrypto.createHash("sha256").update(bytes).digest("hex")

/** A reader that starts late and rests again and again; `seen` is called with every piece. */
const readSlowly = async (stream: Readable, seen: () => void) => {
  const hash = NodeCrypto.createHash("sha256")
  await NodeTimers.setTimeout(200)
  let rested = 0
  let length = 0
  for await (const piece of stream) {
    hash.update(piece)
    length += piece.length
    seen()
    if (length - rested < 2 * mebibyte) continue
    rested = length
    await NodeTimers.setTimeout(5)
  }
  return hash.digest("hex")
}

/** The most memory that a process has had so far. */
const peakMemory = (pid: number) =>
  Number(/VmHWM:\s+(\d+) kB/.exec(NFS.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024

describe("output", () => {
  it.live.skipIf(process.platform !== "linux")(
    "arrives byte for byte through a slow reader, and in the log, with flat memory",
    () =>
      withRoot((root) =>
        Effect.gen(function*() {
          const bytes = NodeCrypto.randomBytes(32 * mebibyte)
          NFS.writeFileSync(`${root}-bytes`, bytes)
          const other = Buffer.concat([bytes.subarray(1), Buffer.from("\n")])
          NFS.writeFileSync(`${root}-other`, other)
          const child = NodeChildProcess.spawn(process.execPath, [
            command,
            "run",
            "--root",
            root,
            "--allow-temp",
            ...shell(`cat ${root}-bytes & cat ${root}-other >&2; wait`)
          ], { stdio: ["ignore", "pipe", "pipe"] })
          let peak = 0
          const look = () => {
            if (child.pid !== undefined && child.exitCode === null) peak = Math.max(peak, peakMemory(child.pid))
          }
          const ended = new Promise((resolve) => child.once("exit", resolve))
          const [stdout, stderr] = yield* Effect.promise(() =>
            Promise.all([readSlowly(child.stdout, look), readSlowly(child.stderr, () => {})])
          )
          assert.strictEqual(yield* Effect.promise(() => ended), 0)
          assert.strictEqual(stdout, sha256(bytes))
          assert.strictEqual(stderr, sha256(other))
          assert.strictEqual(sha256(kept(root, "stdout.log")), stdout)
          assert.strictEqual(sha256(kept(root, "stderr.log")), stderr)
          assert.isAbove(peak, 0)
          assert.isBelow(peak, 200 * mebibyte)
        })
      )
  )

  it.live("ends a command that never would, once its reader has gone", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const run = `'${process.execPath}' '${command}' run --root ${root} --allow-temp`
        const script = `${run} -- yes | head -c 1; ${run} -- yes 2>&1 | cat | head -c 1`
        const worker = yield* start(["bash", "-c", `set -o pipefail; ${script}; echo " $?"`])
        assert.strictEqual((yield* worker.exit).stdout, "yy 141\n")
        assert.strictEqual(bundles(root).length, 2)
        for (const bundle of bundles(root)) {
          const record = JSON.parse(NFS.readFileSync(`${bundle}/run.json`, "utf8"))
          assert.deepInclude(record, { status: "error", exit: { signal: "SIGPIPE" } })
          assert.isString(record.releasedAt)
          assert.match(NFS.readFileSync(`${bundle}/logs/stdout.log`, "utf8").slice(0, 100), /^y\ny\n/)
        }
      })
    ))

  const toFull = (root: string, args: ReadonlyArray<string>) =>
    Effect.scoped(Effect.flatMap(
      start(["sh", "-c", "exec \"$@\" > /dev/full", "sh", process.execPath, command, ...wordsFor(root, args)]),
      (worker) => worker.exit
    ))

  it.live.skipIf(!NFS.existsSync("/dev/full"))(
    "that cannot be written is said in a line, and ends with 1",
    () =>
      withRoot((root) =>
        Effect.gen(function*() {
          const full = "standard output: the disk is full (ENOSPC on write)"
          yield* run(root, ["run", ...shell("echo out")])
          for (const args of [["ls"], ["ls", "--since", "1d"], ["show", "latest"], ["logs", "latest"], ["--help"]]) {
            const { code, stderr } = yield* toFull(root, args)
            assert.deepStrictEqual([code, stderr], [1, `leasehold: ${full}\n`], String(args))
          }
          const document = yield* toFull(root, ["ls", "--json"])
          assert.deepStrictEqual([document.code, JSON.parse(document.stderr)], [1, {
            error: "OutputError",
            message: full
          }])
          const passed = yield* toFull(root, ["run", ...shell("echo out")])
          const said = `leasehold: output is not passed on any more: ${full}\n`
          assert.deepStrictEqual([passed.code, passed.stderr], [1, said])
          assert.deepStrictEqual((yield* toFull(root, ["run", ...shell("echo out; exit 3")])).code, 3)
          assert.strictEqual((yield* toFull(root, ["run", "--quiet", ...shell("echo out")])).code, 0)
          for (const bundle of bundles(root)) {
            assert.strictEqual(NFS.readFileSync(`${bundle}/logs/stdout.log`, "utf8"), "out\n")
          }
        })
      )
  )

  it.live("is not waited for from a background process that goes on after the command", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const later = yield* gate(`${root}-later`)
        const silent = yield* run(root, ["run", ...shell(`{ ${later.wait}; } & echo done`)])
        assert.deepStrictEqual([silent.code, silent.stdout], [0, "done\n"])
        // It was handed a lease, so the run goes on for as long as it does.
        const shown = yield* run(root, ["ls"])
        assert.include(shown.stdout, "closing")
        yield* later.open
        const noisy = yield* run(root, ["run", "--name", "noisy", ...shell("yes & echo done")])
        assert.strictEqual(noisy.code, 0)
        assert.include(noisy.stdout, "done\n")
      })
    ))

  it.live("that was written just before the end is never lost", () =>
    Effect.gen(function*() {
      const current = yield* Run.Run
      const lengths = Array.from({ length: 40 }, (_, index) => index % 3 === 0 ? 150_000 + index : index)
      yield* Effect.forEach(lengths, (length, index) =>
        Effect.gen(function*() {
          const ended = yield* Child.run({
            argv: ["sh", "-c", `head -c ${length} /dev/zero & head -c ${length} /dev/zero >&2; wait`],
            logs: { stdout: `${index}.out`, stderr: `${index}.err` },
            output: "keep"
          })
          assert.strictEqual(ended.exitCode, 0)
          const sizeOf = (end: string) => NFS.statSync(`${current.paths.logs}/${index}.${end}`).size
          assert.deepStrictEqual([sizeOf("out"), sizeOf("err")], [length, length])
        }), { concurrency: 8, discard: true })
    }).pipe(Run.scoped({ name: "many" }), Effect.provide(TestLayers.layerStore)))

  it.live("may be written by way of /dev/stdout and /dev/stderr, as scripts do", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", ...shell("echo out > /dev/stdout; echo err | tee /dev/stderr")])
        assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "out\nerr\n", "err\n"])
        assert.deepStrictEqual(names(`${bundles(root)[0]}/temp`), [])
      })
    ))

  it.live("of short commands arrives whole, one after the other", () =>
    withRoot((root) =>
      Effect.forEach([1, 65_536, 65_537, 150_000, 1_000_000], (length) =>
        Effect.gen(function*() {
          const exit = yield* run(root, ["run", ...shell(`head -c ${length} /dev/zero; echo end >&2`)])
          assert.deepStrictEqual([exit.code, exit.stdout.length, exit.stderr], [0, length, "end\n"])
        }), { concurrency: 2 })
    ))
})

const python = NodeChildProcess.spawnSync("python3", ["-c", "import os, pty; os.waitstatus_to_exitcode"]).status === 0

/** Starts the command on a terminal. */
const onTerminal = (root: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const [verb = "", ...rest] = args
  return start(
    [
      "python3",
      `${import.meta.dirname}/fixtures/terminal.py`,
      process.execPath,
      command,
      verb,
      "--root",
      root,
      "--allow-temp",
      ...rest
    ],
    { env: { TERM: "xterm-256color", ...env } }
  ).pipe(Effect.flatMap((worker) => worker.exit))
}

const terminals = "for n in 0 1 2; do if test -t $n; then echo $n; fi; done"

describe.skipIf(!python)("on a terminal", () => {
  it.live("--tty gives the command the terminal itself; nothing is kept, and the record says so", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* onTerminal(root, ["run", "-t", ...shell(`${terminals}; exit 3`)])
        assert.deepStrictEqual([exit.code, exit.stdout], [3, "0\r\n1\r\n2\r\n"])
        const record = onlyRecord(root)
        assert.strictEqual(record.attempts[0]?.tty, true)
        assert.deepInclude(record, { status: "error", exit: { code: 3 } })
        assert.deepStrictEqual(names(`${bundles(root)[0]}/logs`), [])
        const shown = Effect.map(run(root, ["show", "latest"]), ({ stdout }) => stdout)
        assert.match(yield* shown, /output +not kept: it/)
        yield* run(root, ["resume", "latest", ...shell("true")])
        assert.notMatch(yield* shown, /output/)
        yield* onTerminal(root, ["resume", "--tty", "latest", ...shell("true")])
        assert.match(yield* shown, /output +not kept of the last attempt: it/)
        assert.deepStrictEqual(onlyRecord(root).attempts.map(({ tty }) => tty), [true, undefined, true])
      })
    ))

  it.live("without --tty the output is kept and passed on, and standard input is the terminal", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* onTerminal(root, ["run", ...shell(terminals)])
        assert.deepStrictEqual([exit.code, exit.stdout], [0, "0\r\n"])
        assert.strictEqual(String(kept(root, "stdout.log")), "0\n")
        assert.isUndefined(onlyRecord(root).attempts[0]?.tty)
      })
    ))

  it.live.each([["run"], ["run", "--tty"]])(
    "%o: ^C ends the command, and the record says by what",
    (flags) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const argv = ["--", process.execPath, "-e", "setInterval(() => {}, 1e9); console.log('at-work')"]
          const exit = yield* onTerminal(root, [...flags, "--cleanup", "echo hook", ...argv])
          assert.deepStrictEqual([exit.code, exit.stdout], [130, "at-work\r\n^Chook\r\n"])
          assert.deepInclude(onlyRecord(root), { status: "interrupted", exit: { signal: "SIGINT" } })
        })
      )
  )

  it.live("listings are coloured, unless that is not wanted", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.flatMap(leasehold(root, ["run", "--", "true"]), (worker) => worker.exit))
        assert.include((yield* onTerminal(root, ["ls"])).stdout, "\u001b[32mok\u001b[39m")
        assert.notInclude((yield* onTerminal(root, ["ls"], { NO_COLOR: "1" })).stdout, "\u001b")
        assert.notInclude((yield* run(root, ["ls"])).stdout, "\u001b")
      })
    ))
})
