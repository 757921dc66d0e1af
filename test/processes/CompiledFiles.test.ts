/** What V8 has compiled is kept for the next start, is run only where it is this user's own, and is never needed. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NFS from "node:fs"
import * as NodePath from "node:path"
import { fifo } from "../support/Archives.ts"
import { shell, withRoot } from "../support/CommandLine.ts"
import { command, repository, run, start as startProgram, wordsFor } from "../support/Worker.ts"

const filesIn = (cache: string): ReadonlyArray<string> =>
  NFS.existsSync(cache)
    ? NFS.readdirSync(cache, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`)
    : []

const inodesOf = (paths: ReadonlyArray<string>) => paths.map((path) => NFS.lstatSync(path).ino)

/** Gives a test a root, and what starts commands there with a cache of their own. */
const withCache = <A, E>(
  test: (
    start: (args: ReadonlyArray<string>, env?: Readonly<Record<string, string>>) => ReturnType<typeof run>,
    cache: string
  ) => Effect.Effect<A, E>
) =>
  withRoot((root) => {
    const cache = `${root}-cache`
    return test(
      (args, env) => run(root, args, { env: { ...env, XDG_CACHE_HOME: cache } }),
      `${cache}/leasehold`
    )
  })

const hello = ["run", "--", "echo", "hello"] as const

describe("compiled files", () => {
  it.live("are kept by the first start, and left alone by those that find them whole", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* start(hello)).stdout, "hello\n")
        const kept = filesIn(cache)
        assert.isNotEmpty(kept)
        for (const path of kept) assert.strictEqual(NFS.statSync(path).mode & 0o777, 0o600, path)
        const inodes = inodesOf(kept)
        assert.strictEqual((yield* start(hello)).stdout, "hello\n")
        assert.deepStrictEqual([filesIn(cache), inodesOf(kept)], [kept, inodes])
      })
    ))

  it.live.each(["", "cache", "../cache"])(
    "are not kept below the directory of a start: %o",
    (XDG_CACHE_HOME) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const [home, cwd] = [`${root}-home`, `${root}-cwd/in`]
          NFS.mkdirSync(home)
          NFS.mkdirSync(cwd, { recursive: true })
          yield* run(root, hello, { cwd, env: { HOME: home, XDG_CACHE_HOME } })
          assert.isNotEmpty(filesIn(`${home}/.cache/leasehold`))
          assert.deepStrictEqual(filesIn(`${root}-cwd`), [])
        })
      )
  )

  const damages: ReadonlyArray<readonly [string, (path: string) => void]> = [
    ["is empty", (path) => NFS.writeFileSync(path, "")],
    ["was cut off", (path) => NFS.truncateSync(path, NFS.statSync(path).size - 8)],
    ["is something else", (path) => NFS.writeFileSync(path, Buffer.alloc(NFS.statSync(path).size))],
    ["others may write to", (path) => NFS.chmodSync(path, 0o620)],
    ["is a FIFO", (path) => {
      NFS.rmSync(path)
      fifo(path)
    }],
    ["is a link", (path) => {
      const elsewhere = `${path.slice(0, path.indexOf("/leasehold/"))}/${NodePath.basename(path)}`
      NFS.renameSync(path, elsewhere)
      NFS.symlinkSync(elsewhere, path)
    }]
  ]
  it.live.each(damages)(
    "are not run and made anew where one %s",
    ([_, damage]) =>
      withCache((start, cache) =>
        Effect.gen(function*() {
          yield* start(hello)
          const kept = filesIn(cache)
          const inodes = inodesOf(kept)
          kept.forEach(damage)
          const exit = yield* start(hello)
          assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "hello\n", ""])
          assert.deepStrictEqual(filesIn(cache), kept)
          for (const [at, inode] of inodesOf(kept).entries()) assert.notStrictEqual(inode, inodes[at], kept[at])
        })
      )
  )

  it.live("are kept apart for a node with other flags", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        const flags = { NODE_OPTIONS: "--stack-trace-limit=5" }
        yield* start(hello)
        yield* start(hello, flags)
        const kept = filesIn(cache)
        const inodes = inodesOf(kept)
        yield* start(hello)
        yield* start(hello, flags)
        assert.deepStrictEqual([filesIn(cache), inodesOf(kept)], [kept, inodes])
      })
    ))

  it.live("take the place of those of an earlier version, and of what was not written to its end", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        yield* start(hello)
        const kept = filesIn(cache)
        const [first] = kept
        const older = first!.replace(/-[\w-]{8}\.cjs$/, "-00000000.cjs")
        NFS.renameSync(first!, older)
        NFS.writeFileSync(`${first}.1.tmp`, "")
        const foreign = `${first!.slice(0, first!.lastIndexOf("/"))}/another`
        NFS.writeFileSync(foreign, "")
        yield* start(hello)
        assert.sameMembers([...filesIn(cache)], [...kept, foreign])
      })
    ))

  it.live("are done without where they cannot be kept", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        NFS.mkdirSync(cache.slice(0, cache.lastIndexOf("/")))
        NFS.writeFileSync(cache, "")
        const exit = yield* start(hello)
        assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "hello\n", ""])
      })
    ))

  it.live("are kept in one place for all words that are no command", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        for (const word of ["frobnicate", "toString", "--help"]) yield* start([word])
        assert.strictEqual(NFS.readdirSync(cache).length, 1)
      })
    ))

  it.live("are kept whatever the command ends with", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* start(["run", ...shell("exit 2")])).code, 2)
        assert.isNotEmpty(filesIn(cache))
      })
    ))

  it.live("are kept apart for installations beside each other", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        const other = `${cache}-other`
        NFS.cpSync(NodePath.dirname(command), `${other}/dist`, { recursive: true })
        NFS.symlinkSync(`${repository}/node_modules`, `${other}/node_modules`)
        yield* start(hello)
        const kept = filesIn(cache)
        yield* Effect.scoped(Effect.flatMap(
          startProgram([process.execPath, `${other}/dist/leasehold.js`, ...wordsFor(`${other}/store`, hello)], {
            env: { XDG_CACHE_HOME: NodePath.dirname(cache) }
          }),
          (worker) => worker.exit
        ))
        assert.strictEqual(filesIn(cache).length, 2 * kept.length)
        assert.includeMembers([...filesIn(cache)], [...kept])
      })
    ))

  it.live("go when nobody has added to them for long, and nothing else does", () =>
    withCache((start, cache) =>
      Effect.gen(function*() {
        const long = new Date(Date.now() - 40 * 24 * 60 * 60 * 1000)
        for (const name of ["v1.2.3-x64/run", "v1.2.3-x64-0a1b2c3d-run", "runs", "v1.2.4-x64-0a1b2c3d-run"]) {
          NFS.mkdirSync(`${cache}/${name}`, { recursive: true })
        }
        for (const name of ["v1.2.3-x64", "v1.2.3-x64-0a1b2c3d-run", "runs"]) {
          NFS.utimesSync(`${cache}/${name}`, long, long)
        }
        yield* start(hello)
        const left = NFS.readdirSync(cache).filter((name) => !name.startsWith(process.version))
        assert.sameMembers(left, ["runs", "v1.2.4-x64-0a1b2c3d-run"])
      })
    ))

  it.live.each(["", "cache"])(
    "are in the home directory where XDG_CACHE_HOME is %o",
    (XDG_CACHE_HOME) =>
      withRoot((root) =>
        Effect.gen(function*() {
          const [home, cwd] = [`${root}-home`, `${root}-cwd`]
          NFS.mkdirSync(cwd)
          yield* run(root, hello, { cwd, env: { HOME: home, XDG_CACHE_HOME } })
          assert.deepStrictEqual(NFS.readdirSync(cwd), [])
          assert.isNotEmpty(filesIn(`${home}/.cache/leasehold`))
        })
      )
  )

  it.live("are not kept in the directory that a relative home is in", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const cwd = `${root}-cwd`
        NFS.mkdirSync(cwd)
        const exit = yield* run(root, hello, { cwd, env: { HOME: "", XDG_CACHE_HOME: undefined } })
        assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "hello\n", ""])
        assert.deepStrictEqual(NFS.readdirSync(cwd), [])
      })
    ))
})

describe.skipIf(process.getuid?.() !== 0)("a user whom the system does not know, and who has no home", () => {
  const uid = 54_321
  const nobody = { uid, cwd: "/", env: { HOME: undefined, XDG_CACHE_HOME: undefined, XDG_STATE_HOME: undefined } }

  it.live("has runs where a root is given", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        NFS.chownSync(NodePath.dirname(root), uid, uid)
        const exit = yield* run(root, hello, nobody)
        assert.deepStrictEqual([exit.code, exit.stdout, exit.stderr], [0, "hello\n", ""])
      })
    ))

  it.live("is told what to do where none is", () =>
    Effect.gen(function*() {
      const { code, stderr } = yield* Effect.scoped(
        Effect.flatMap(startProgram([process.execPath, command, ...hello], nobody), (worker) => worker.exit)
      )
      assert.strictEqual(code, 2)
      assert.match(stderr, /^leasehold: there is no home directory .*--root, LEASEHOLD_ROOT.*HOME\n$/)
    }))
})
