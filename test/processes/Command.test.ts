import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import { bundles, json, kept, makeStore, names, onlyRecord, records, shell, withRoot } from "../support/CommandLine.ts"
import { command, directory, gate, leasehold, run, start, wordsFor } from "../support/Worker.ts"

describe("run exits as its command did", () => {
  it.live("with its code, and records it", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* run(root, ["run", "--name", "fine", ...shell("exit 0")])).code, 0)
        assert.strictEqual((yield* run(root, ["run", "--name", "poor", ...shell("exit 42")])).code, 42)
        const [fine, poor] = records(root)
        assert.deepInclude(fine, { name: "fine", status: "ok", exit: { code: 0 } })
        assert.deepInclude(poor, { name: "poor", status: "error", exit: { code: 42 } })
        assert.deepStrictEqual(poor?.command, { argv: ["sh", "-c", "exit 42"], cwd: process.cwd() })
        assert.isString(poor?.releasedAt)
      })
    ))

  it.live("with 128 and the number of the signal that ended it, which nobody had sent through Leasehold", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* run(root, ["run", ...shell("kill -KILL $$")])).code, 137)
        assert.deepInclude(onlyRecord(root), { status: "error", exit: { signal: "SIGKILL" } })
      })
    ))

  it.live("with 127 for a command that is not there, and a record that says so", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", "--", "/nowhere/at-all"])
        assert.strictEqual(exit.code, 127)
        assert.match(exit.stderr, /^leasehold: cannot start "\/nowhere\/at-all": no such command/)
        const record = onlyRecord(root)
        assert.deepInclude(record, { name: "at-all", status: "error" })
        assert.strictEqual(record.exit?.code, 127)
        assert.match(record.exit?.message ?? "", /no such command/)
        assert.isString(record.releasedAt)
      })
    ))

  it.live.each(
    [
      ["one that may not be executed", import.meta.filename, /not executable \(EACCES\)/],
      ["one below a file", `${import.meta.filename}/x`, /\(ENOTDIR\)/],
      ["one whose name is too long", `/${"x".repeat(300)}`, /\(ENAMETOOLONG\)/]
    ] as const
  )("with 126 for %s, and a record that says so", ([_, path, problem]) =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", "--name", "n", "--cleanup", "echo cleaned", "--", path])
        assert.strictEqual(exit.code, 126)
        assert.match(exit.stderr, problem)
        assert.strictEqual(exit.stdout, "cleaned\n")
        const record = onlyRecord(root)
        assert.strictEqual(record.exit?.code, 126)
        assert.match(record.exit?.message ?? "", problem)
      })
    ))
})

describe("a command line that makes no sense", () => {
  const wrong: ReadonlyArray<readonly [string, ReadonlyArray<string>, RegExp]> = [
    ["no command", ["run"], /CMD/],
    ["an empty command", ["run", "--", ""], /give a command/],
    ["an unknown flag", ["run", "--nonsense", "--", "true"], /--nonsense/],
    ["a directory to run in, which is no flag", ["run", "--cwd", "/", "--", "true"], /--cwd/],
    ["a name of nothing", ["run", "--name", "", "--", "true"], /name/],
    ["a tag without a value", ["run", "--tag", "branch", "--", "true"], /"branch" is not a tag: write KEY=VALUE/],
    ["a tag without a key", ["run", "--tag", "=main", "--", "true"], /"=main" is not a tag/],
    ["a terminal that is not there", ["run", "--tty", "--", "true"], /needs a terminal/],
    ["a flag that is nearly one", ["ls", "--limits", "3"], /; did you mean --limit\?/],
    ["a command with flags and no dashes", ["run", "echo", "-n", "x"], /flags of its own goes after --/],
    ["a pass without time", ["prune", "--max-time", "0s"], /maxTime cannot be/],
    ["a pass without time or unit", ["prune", "--max-time", "0"], /maxTime cannot be/],
    [
      "an age of nothing",
      ["prune", "--max-age", "0"],
      /write a length of time above zero, such as 14d; to remove every finished bundle write --all$/m
    ],
    ["a glob that leads out", ["prune", "--trim", "1s:../x"], /"\.\.\/x" cannot say what to trim/],
    ["an unknown subcommand", ["frobnicate"], /frobnicate/],
    ["an age of words", ["ls", "--since", "yesterday"], /flag --since: "yesterday": not a duration; write/],
    ["a rule that cannot be", ["prune", "--keep-last", "0"], /--keep-last: keepLast cannot be "0"/],
    ["an unknown status", ["ls", "--status", "great"], /great/],
    ["an age without a unit", ["ls", "--since", "14"], /14 of what\? write 14s/],
    ["a negative limit", ["ls", "--limit", "-1"], /limit: "-1". Expected a value/],
    ["a path for an id", ["show", "../x"], /names no run/],
    ["an id of ten thousand characters", ["show", "9".repeat(10_000)], /names no run/],
    ["an unknown status of the latest", ["path", "latest:great"], /names no run/],
    ["no run to show", ["show"], /RUN/]
  ]
  it.live.each(wrong)(
    "ends with 2 and leaves nothing behind: %s",
    ([_, args, message]) =>
      withRoot((root) =>
        Effect.gen(function*() {
          yield* makeStore(root)
          const exit = yield* run(root, args)
          assert.strictEqual(exit.code, 2)
          assert.strictEqual(exit.stdout, "")
          assert.match(exit.stderr, message)
          assert.match(exit.stderr, /^leasehold: [^\n]{1,300}\n$/)
          assert.deepStrictEqual([bundles(root), names(`${root}/staging`)], [[], []])
        })
      )
  )

  it.live("is told as one JSON object where JSON was asked for", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* makeStore(root)
        for (const args of [["ls", "--json", "--nonsense"], ["show", "--json", "../x"], ["--json", "run"]]) {
          const exit = yield* run(root, args)
          assert.deepStrictEqual([exit.code, exit.stdout], [2, ""])
          const document = JSON.parse(exit.stderr)
          assert.hasAllKeys(document, ["error", "message"])
          assert.match(document.error, /^(UsageError|StoreError.MalformedName)$/)
        }
        const missing = yield* run(root, ["run", "--json", "--", "/nowhere"])
        assert.deepStrictEqual([missing.code, missing.stdout], [127, ""])
        assert.strictEqual(JSON.parse(missing.stderr).error, "ChildError")
        // What the command is given is its own affair.
        assert.match((yield* run(root, ["run", "--", "/nowhere", "--json"])).stderr, /^leasehold: cannot start/)
      })
    ))
})

describe("a run in trouble", () => {
  const troubles = ["rm $LEASEHOLD_RUN_DIR/lease", "rm -rf $LEASEHOLD_RUN_DIR"]
  it.live.each(troubles)(
    "still exits as its command did, and with 1 or 5 only where that was 0: %s",
    (script) =>
      withRoot((root) =>
        Effect.gen(function*() {
          assert.strictEqual((yield* run(root, ["run", ...shell(`${script}; exit 3`)])).code, 3)
          assert.include([1, 5], (yield* run(root, ["run", ...shell(script)])).code)
        })
      )
  )

  it.live("keeps secrets out of its name and message as well", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", "--", "PASSWORD=hunter2", "mycmd"])
        assert.strictEqual(exit.code, 127)
        assert.notInclude(JSON.stringify(onlyRecord(root)), "hunter2")
      })
    ))
})

describe("other errors", () => {
  it.live("5 says that there is no store, and a mistyped root does not become one", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        for (const args of [["ls"], ["show", "latest"], ["prune", "--all"], ["verify"]]) {
          const exit = yield* run(root, args)
          assert.strictEqual(exit.code, 5, args[0])
          assert.include(exit.stderr, `there is no store at ${root}`)
        }
        assert.isFalse(NFS.existsSync(root))
        NFS.mkdirSync(root, { mode: 0o700 })
        assert.strictEqual((yield* run(root, ["ls"])).code, 5)
        assert.deepStrictEqual(names(root), [])
      })
    ))

  it.live("1 says that the working directory is gone, where one is needed", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* run(root, ["run", "--", "true"])
        const gone = `${root}-gone`
        const inGone = Effect.fnUntraced(function*(root: string, args: ReadonlyArray<string>) {
          const words = [process.execPath, command, ...wordsFor(root, args)]
          const script = `mkdir '${gone}' && cd '${gone}' && rmdir '${gone}' && exec "$@"`
          return yield* Effect.flatMap(start(["sh", "-c", script, "sh", ...words]), ({ exit }) => exit)
        }, Effect.scoped)
        for (const args of [["ls"], ["show", "latest"], ["resume", "latest"]]) {
          assert.strictEqual((yield* inGone(root, args)).code, 0, args[0])
        }
        const lost = [
          ["store", ["ls"], 1],
          [root, ["run", "--", "true"], 1],
          [root, ["resume", "latest", "--", "true"], 1],
          [root, ["resume", "latest", "--on-remove", "true"], 1],
          [root, ["attach", "latest", "--", "true"], 127]
        ] as const
        for (const [root, args, code] of lost) {
          const exit = yield* inGone(root, args)
          assert.strictEqual(exit.code, code, args[0])
          assert.match(exit.stderr, /^leasehold: .*the working directory: does not exist \(ENOENT on getcwd\)\n$/)
        }
      })
    ))

  it.live("2 says that a root of nothing is not wherever somebody happens to be", () =>
    Effect.scoped(Effect.gen(function*() {
      const cwd = yield* directory
      for (const args of [["ls", "--root", ""], ["run", "--allow-temp", "--root=", "--", "true"]]) {
        const worker = yield* start([process.execPath, command, ...args], { cwd })
        const exit = yield* worker.exit
        assert.deepStrictEqual([exit.code, exit.stdout], [2, ""])
        assert.match(exit.stderr, /--root\. Expected the path of a directory/)
      }
      assert.deepStrictEqual(names(cwd), [])
    })))

  it.live("5 says that there is no such run", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        yield* makeStore(root)
        for (const name of ["latest", "latest:error", "2026", "20260101T000000000Z-aaaaaaaa"]) {
          const exit = yield* run(root, ["show", name, "--json"])
          assert.deepStrictEqual([exit.code, exit.stdout], [5, ""], name)
          assert.strictEqual(JSON.parse(exit.stderr).error, "StoreError.NoSuchRun")
        }
      })
    ))

  it.live("6 says that the store is unsafe or of a newer format, and nothing was touched", () =>
    Effect.scoped(Effect.gen(function*() {
      const dir = yield* directory
      const open = `${dir}/open`
      NFS.mkdirSync(open)
      NFS.chmodSync(open, 0o777)
      const newer = `${dir}/newer`
      NFS.mkdirSync(newer, { mode: 0o700 })
      NFS.writeFileSync(`${newer}/store.json`, `{"version":2,"surprise":[]}`)
      const before = NFS.readdirSync(dir, { recursive: true })
      const cases = [[open, "UnsafeRoot", /chmod go-w/], [newer, "NewerFormat", /use a newer leasehold/]] as const
      for (const [root, error, message] of cases) {
        for (const args of [["run", "--json", "--", "true"], ["ls", "--json"]]) {
          const exit = yield* run(root, args)
          assert.deepStrictEqual([exit.code, exit.stdout], [6, ""])
          const document = JSON.parse(exit.stderr)
          assert.strictEqual(document.error, `StoreError.${error}`)
          assert.match(document.message, message)
        }
      }
      const swept = yield* start([process.execPath, command, "run", "--root", `${dir}/store`, "--", "true"])
      assert.strictEqual((yield* swept.exit).code, 6)
      assert.deepStrictEqual(NFS.readdirSync(dir, { recursive: true }), before)
    })))
})

describe("what a command finds", () => {
  it.live("is its run in the environment, its bundle, and our standard input", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const script = "echo $LEASEHOLD_ROOT $LEASEHOLD_RUN_ID $LEASEHOLD_RUN_DIR; ls $LEASEHOLD_RUN_DIR; cat"
        const exit = yield* run(root, ["run", ...shell(script)], { input: "from outside" })
        const { id } = onlyRecord(root)
        const [dir] = bundles(root)
        assert.strictEqual(
          exit.stdout,
          `${root} ${id} ${dir}\nartifacts\nholders\nlease\nlogs\nrun.json\ntelemetry\ntemp\nfrom outside`
        )
      })
    ))

  it.live("is a store given by the environment", () =>
    withRoot((root) =>
      Effect.scoped(Effect.gen(function*() {
        const argv = [process.execPath, command, "run", "--allow-temp", "--", "true"] as const
        const worker = yield* start(argv, { env: { LEASEHOLD_ROOT: root } })
        assert.strictEqual((yield* worker.exit).code, 0)
        assert.strictEqual(onlyRecord(root).status, "ok")
      }))
    ))

  it.live("is another run around it, which is its parent", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const inner =
          `"${process.execPath}" "${command}" run --allow-temp --name inner -- sh -c 'echo $LEASEHOLD_RUN_ID'`
        const exit = yield* run(root, ["run", "--name", "outer", ...shell(`echo $LEASEHOLD_RUN_ID; ${inner}`)])
        const [outer, nested] = records(root)
        assert.deepStrictEqual([outer?.name, nested?.name], ["outer", "inner"])
        assert.strictEqual(exit.stdout, `${outer?.id}\n${nested?.id}\n`)
        assert.isUndefined(outer?.parent)
        assert.strictEqual(nested?.parent, outer?.id)
      })
    ))

  it.live("is its tags on record, but none of its secrets on the disk", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, [
          "run",
          "--quiet",
          "--tag",
          "branch=main",
          "--tag",
          "note=a=b c",
          "--tag",
          "empty=",
          "--",
          "true",
          "--password",
          "hunter2",
          "API_KEY=hunter2",
          "https://me:hunter2@example.org/",
          "plain"
        ])
        assert.strictEqual(exit.code, 0)
        const record = onlyRecord(root)
        assert.deepStrictEqual(record.tags, { branch: "main", note: "a=b c", empty: "" })
        assert.strictEqual(record.command?.argv.at(-1), "plain")
        const files = NFS.readdirSync(root, { recursive: true, withFileTypes: true }).filter((file) => file.isFile())
        assert.isAtLeast(files.length, 3)
        for (const file of files) {
          assert.notInclude(NFS.readFileSync(`${file.parentPath}/${file.name}`, "latin1"), "hunter2", file.name)
        }
      })
    ))

  it.live("is nobody who hears it, when it is to be quiet; its output is kept", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* run(root, ["run", "--quiet", "--cleanup", "echo hook", ...shell("echo out; echo err >&2")])
        assert.deepStrictEqual([exit.stdout, exit.stderr], ["", ""])
        assert.strictEqual(String(kept(root, "stdout.log")), "out\n")
        assert.strictEqual(String(kept(root, "stderr.log")), "err\n")
        assert.strictEqual(String(kept(root, "cleanup.log")), "hook\n")
      })
    ))
})

describe("clean-up hooks", () => {
  it.live("run last given first, one after the other, and change neither exit code nor status", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const hooks = ["echo third", "echo second; exit 9", "kill -KILL $$", "echo first; test -d $LEASEHOLD_RUN_DIR"]
        const cleanup = hooks.flatMap((script) => ["--cleanup", script])
        const exit = yield* run(root, ["run", ...cleanup, ...shell("echo work; exit 7")])
        assert.strictEqual(exit.code, 7)
        assert.strictEqual(exit.stdout, "work\nfirst\nsecond\nthird\n")
        assert.strictEqual(
          exit.stderr,
          "leasehold: clean-up ended with 137: kill -KILL $$\n" +
            "leasehold: clean-up ended with 9: echo second; exit 9\n"
        )
        assert.deepInclude(onlyRecord(root), { status: "error", exit: { code: 7 } })
        assert.strictEqual(
          String(kept(root, "cleanup.log")),
          "first\n--- clean-up ended with 137 ---\nsecond\n--- clean-up ended with 9 ---\nthird\n"
        )
        assert.deepStrictEqual(yield* json(root, ["ls", "--status", "ok"]).pipe(Effect.map((it) => it.runs)), [])
      })
    ))

  it.live("run to their end when nobody reads standard error any more", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const opened = yield* gate(`${root}-gate`)
        const worker = yield* leasehold(root, [
          "run",
          "--cleanup",
          "echo last",
          "--cleanup",
          "exit 3",
          ...shell(`echo at-work; ${opened.wait}`)
        ])
        yield* worker.line("at-work")
        yield* worker.leave("stderr")
        yield* opened.open
        const exit = yield* worker.exit
        assert.deepStrictEqual([exit.code, exit.stdout], [0, "at-work\nlast\n"])
        assert.isString(onlyRecord(root).releasedAt)
      })
    ))
})

describe("help", () => {
  it.live("of every command is an answer on standard output", () =>
    withRoot((root) =>
      Effect.forEach(
        [[], ["run"], ["ls"], ["show"], ["logs"], ["path"], ["pin"], ["unpin"]],
        (path) =>
          Effect.gen(function*() {
            const exit = yield* run(root, [...path, "--help"])
            assert.deepStrictEqual([exit.code, exit.stderr], [0, ""])
            assert.include(exit.stdout, ["leasehold", ...path].join(" "))
            assert.notInclude(exit.stdout, "\u001b")
          }),
        { concurrency: 2 }
      )
    ))

  it.live("is the version, and completions for shells", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const { version } = JSON.parse(NFS.readFileSync(`${import.meta.dirname}/../../package.json`, "utf8"))
        // Alone it needs no parser, and beside another word it does.
        for (const words of [["--version"], ["--json", "--version"]]) {
          assert.strictEqual((yield* run(root, words)).stdout, `leasehold v${version}\n`)
        }
        for (const name of ["bash", "zsh", "fish"]) {
          const exit = yield* run(root, ["--completions", name])
          assert.deepStrictEqual([exit.code, exit.stderr], [0, ""])
          for (const word of ["leasehold", "no-inherit-lease", "unpin"]) assert.include(exit.stdout, word, name)
        }
        assert.isFalse(NFS.existsSync(root))
      })
    ))

  it.live("bash takes its completions", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const script = yield* run(root, ["--completions", "bash"])
        const checked = yield* Effect.flatMap(start(["bash", "-n"], { input: script.stdout }), (bash) => bash.exit)
        assert.deepStrictEqual([checked.code, checked.stderr], [0, ""])
      })
    ))
})
