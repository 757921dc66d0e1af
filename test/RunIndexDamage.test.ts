/** An index that somebody or something has been at, and surroundings in which none can be kept. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeSqlite from "node:sqlite"
import { Errno } from "../src/internal/Errno.ts"
import { Files, Flags, node } from "../src/internal/Files.ts"
import type { Session } from "../src/RunIndex.ts"
import {
  child,
  clockTicks,
  contents,
  empty,
  filled,
  hasStrace,
  id,
  ids,
  inChild,
  inPlace,
  kindOf,
  many,
  now,
  type Place,
  placeAt,
  refill,
  reseal,
  sql,
  succeeds,
  world
} from "./support/IndexPlace.ts"
import { directory } from "./support/Worker.ts"

const inPlaceOfIndex = (root: string, make: (path: string) => void) => {
  NFS.rmSync(`${root}/index.db`)
  make(`${root}/index.db`)
}

const isRoot = process.getuid?.() === 0

const damages: ReadonlyArray<readonly [string, (root: string) => void]> = [
  ["deleted", (root) => NFS.rmSync(`${root}/index.db`)],
  ["cut short", (root) => NFS.truncateSync(`${root}/index.db`, 20_000)],
  ["empty", (root) => NFS.truncateSync(`${root}/index.db`, 0)],
  ["noise", (root) => NFS.writeFileSync(`${root}/index.db`, Buffer.alloc(NFS.statSync(`${root}/index.db`).size, 7))],
  ["wrong in one byte", (root) => {
    const fd = NFS.openSync(`${root}/index.db`, "r+")
    NFS.writeSync(fd, Buffer.of(7), 0, 1, 5000)
    NFS.closeSync(fd)
  }],
  ["a liar", (root) => sql(root, "UPDATE bundle SET state = 'finished', bytes = 1; DELETE FROM day")],
  ["of a newer format", (root) => {
    sql(root, "PRAGMA user_version = 99")
    reseal(root, { format: 99 })
  }],
  ["of a newer format, sealed as ours", (root) => {
    sql(root, "PRAGMA user_version = 99")
    reseal(root)
  }],
  ["no database, sealed as ours", (root) => {
    NFS.writeFileSync(`${root}/index.db`, "SQLite format 4".repeat(400))
    reseal(root)
  }],
  ["in the mode of another program", (root) => sql(root, "PRAGMA journal_mode = WAL")],
  ["an older copy put over it", (root) => {
    NFS.copyFileSync(`${root}/index.db`, `${root}/copy`)
    sql(root, "DELETE FROM day")
    reseal(root)
    NFS.copyFileSync(`${root}/copy`, `${root}/index.db`)
    NFS.rmSync(`${root}/copy`)
  }],
  [
    "a copy of itself with the same times",
    (root) => void NodeChildProcess.execSync("cp -p index.db copy && mv copy index.db", { cwd: root })
  ],
  ["beside a journal", (root) => NFS.writeFileSync(`${root}/index.db-journal`, "x".repeat(600))],
  ["beside a directory for a journal", (root) => NFS.mkdirSync(`${root}/index.db-journal`)],
  ["beside a log", (root) => NFS.writeFileSync(`${root}/index.db-wal`, "x")],
  ["gone, with a journal left", (root) => NFS.renameSync(`${root}/index.db`, `${root}/index.db-journal`)],
  ["a link", (root) => {
    NFS.renameSync(`${root}/index.db`, `${root}/real`)
    NFS.symlinkSync("real", `${root}/index.db`)
  }],
  ["a link to nowhere", (root) => inPlaceOfIndex(root, (path) => NFS.symlinkSync(`${root}/canary`, path))],
  ["a FIFO", (root) => inPlaceOfIndex(root, (path) => NodeChildProcess.execFileSync("mkfifo", [path]))],
  ["a directory", (root) => inPlaceOfIndex(root, (path) => NFS.mkdirSync(`${path}/full`, { recursive: true }))],
  ["noise, with another one set aside before", (root) => {
    NFS.writeFileSync(`${root}/index.db.aside`, "")
    NFS.appendFileSync(`${root}/index.db`, "x")
  }],
  ["noise, with no place to set it aside", (root) => {
    NFS.mkdirSync(`${root}/index.db.aside/full`, { recursive: true })
    NFS.appendFileSync(`${root}/index.db`, "x")
  }],
  ["without a seal", (root) => NFS.writeFileSync(`${root}/retention.lock`, "")],
  ["without the file of the seal", (root) => NFS.rmSync(`${root}/retention.lock`)],
  ["under a seal that is noise", (root) => NFS.writeFileSync(`${root}/retention.lock`, Buffer.alloc(9000, 200))],
  ["sealed before the machine went down", (root) => reseal(root, { boot: "another" })],
  ...(isRoot ? [["of another user", (root: string) => NFS.chownSync(`${root}/index.db`, 1234, 1234)] as const] : [])
]

describe("an index that is not as the last pass left it", () => {
  it.effect.each(damages)(
    "is set aside and filled anew: %s",
    ([_, damage]) =>
      inPlace(({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          clockTicks(root)
          damage(root)
          yield* pass((session) =>
            Effect.gen(function*() {
              assert.strictEqual(kindOf(session), "file")
              assert.deepStrictEqual(yield* contents(session), empty)
              yield* refill(session)
            })
          )
          assert.isFalse(NFS.existsSync(`${root}/canary`))
          yield* pass((session) =>
            Effect.gen(function*() {
              assert.strictEqual(kindOf(session), "file")
              assert.deepStrictEqual(yield* contents(session), filled)
            })
          )
        })
      )
  )

  it.effect("is out of reach for a moment: done without, left where it is, and good again afterwards", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const failing: Array<readonly [string, string]> = [
          [`${root}/index.db`, "EMFILE"],
          [`${root}/retention.lock`, "EMFILE"],
          [`${root}/index.db`, "EROFS"],
          [`${root}/index.db`, "EIO"]
        ]
        for (const [path, code] of failing) {
          const files = {
            ...node,
            open: (name: string, flags: number, mode?: number) =>
              name === path
                ? Effect.fail(new Errno({ code, call: "open", path, cause: undefined }))
                : node.open(name, flags, mode)
          }
          const kind = yield* Effect.provideService(
            pass((session) => Effect.as(refill(session), kindOf(session))),
            Files,
            files
          )
          assert.include(kind, code)
        }
        assert.deepStrictEqual(yield* pass(contents), filled)
      })
    ))

  it.effect("is unreadable: set aside", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const path = `${root}/index.db`
        const files = {
          ...node,
          open: (name: string, flags: number, mode?: number) =>
            name === path && flags === Flags.lock
              ? Effect.fail(new Errno({ code: "EACCES", call: "open", path, cause: undefined }))
              : node.open(name, flags, mode)
        }
        assert.deepStrictEqual(yield* Effect.provideService(pass(contents), Files, files), empty)
      })
    ))

  it.effect("cannot be sealed: done without", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        NFS.mkdirSync(`${root}/retention.lock`)
        const kind = yield* pass((session) => Effect.as(refill(session), kindOf(session)))
        assert.match(kind, /there is no index.db yet, and none can be begun: .*EISDIR/)
        assert.deepStrictEqual(NFS.readdirSync(root), ["retention.lock"])
      })
    ))

  it.effect("lies in a root that is not there: done without", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        NFS.rmdirSync(root)
        assert.match(yield* pass((session) => Effect.as(refill(session), kindOf(session))), /ENOENT/)
        NFS.mkdirSync(root)
      })
    ))

  it.effect("holds rows that nobody can have written, under a good seal: they are dropped and deleted", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const bad = (columns: string) =>
          `INSERT INTO bundle (id, state, status, ended_at, failures, trimmed, looked_at, words) VALUES (${columns});`
        const words = `'["a",{},null,null]'`
        const good = "'20261130T142233123Z-k3f9x2mq'"
        sql(
          root,
          [
            `'../../etc', 'finished', 'ok', 1, 0, 0, 0, ${words}`,
            `'20261399T142233123Z-k3f9x2mq', 'finished', 'ok', 2, 0, 0, 0, ${words}`,
            `${good}, 'dead', 'ok', 3, 0, 0, 0, ${words}`,
            `'20261130T142233124Z-k3f9x2mq', 'finished', 'fine', 4, 0, 0, 0, ${words}`,
            `'20261130T142233125Z-k3f9x2mq', 'finished', 'ok', 5, -1, 0, 0, ${words}`,
            `'20261130T142233126Z-k3f9x2mq', 'finished', 'ok', 6, 0, 0, 0, '{'`,
            `'20261130T142233127Z-k3f9x2mq', 'finished', 'ok', 7, 0, 0, 0, '["a",{"b":1},null,null]'`,
            `'20261130T142233128Z-k3f9x2mq', 'finished', 'ok', 8, 0, 2, 0, ${words}`
          ].map(bad).join("") + "INSERT INTO day VALUES ('../x', '1', 1), ('2026-11-01', 'x', 1)"
        )
        reseal(root)
        yield* pass((session) =>
          Effect.gen(function*() {
            assert.strictEqual(kindOf(session), "file")
            assert.deepStrictEqual(ids(yield* session.oldest(undefined, 2)), [id(31), id(30)])
            assert.deepStrictEqual(yield* contents(session), filled)
            yield* session.commit
          })
        )
        const database = new NodeSqlite.DatabaseSync(`${root}/index.db`)
        assert.strictEqual(database.prepare("SELECT id FROM bundle").all().length, world.length)
        database.close()
      })
    ))

  const hidden: ReadonlyArray<readonly [string, (root: string) => void]> = [
    ["torn pages", (root) => {
      const fd = NFS.openSync(`${root}/index.db`, "r+")
      NFS.writeSync(fd, Buffer.alloc(40_000, 7), 0, 36_000, 4096)
      NFS.closeSync(fd)
    }],
    ["other tables", (root) => sql(root, "DROP TABLE bundle")],
    ["numbers beyond all", (root) => sql(root, "UPDATE bundle SET ended_at = 9223372036854775807")]
  ]
  it.effect.each(hidden)(
    "breaks in use under a good seal, and the next pass begins anew: %s",
    ([_, damage]) =>
      inPlace(({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          clockTicks(root)
          damage(root)
          reseal(root)
          const error = yield* Effect.flip(pass((session) =>
            Effect.andThen(
              session.putDay({ day: "2026-11-30", mtimeNanos: 1n, settled: true }, new Set()),
              contents(session)
            )
          ))
          assert.strictEqual(error._tag, "IndexBroken")
          assert.isTrue(NFS.existsSync(`${root}/index.db.aside`))
          assert.deepStrictEqual(yield* pass((session) => Effect.andThen(refill(session), contents(session))), filled)
        })
      )
  )
})

/** A file system of its own, of so many bytes. */
const mounted = (path: string, size: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      NFS.mkdirSync(path)
      NodeChildProcess.execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path])
    }),
    () => Effect.sync(() => NodeChildProcess.execFileSync("umount", [path]))
  )

const canMount = isRoot && succeeds(
  "sh",
  "-c",
  "dir=$(mktemp -d) && mount -t tmpfs tmpfs $dir && umount $dir && rmdir $dir"
)

const onDisk = <A, E>(size: string, test: (place: Place) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.gen(function*() {
    const path = `${yield* directory}/disk`
    yield* mounted(path, size)
    return yield* test(yield* placeAt(path))
  }))

describe("surroundings", () => {
  it.effect.skipIf(!canMount)(
    "a disk that is full from the beginning: in memory, and nothing left behind",
    () =>
      onDisk("64k", ({ pass, root }) =>
        Effect.gen(function*() {
          const ballast = `${root}/ballast`
          NodeChildProcess.spawnSync("dd", ["if=/dev/zero", `of=${ballast}`, "bs=4096"], { stdio: "ignore" })
          const kind = yield* pass((session) => Effect.as(refill(session), kindOf(session)))
          assert.match(kind, /there is no index.db yet, and none can be begun/)
          assert.isFalse(NFS.existsSync(`${root}/index.db`))
          NFS.rmSync(ballast)
          assert.strictEqual(yield* pass((session) => Effect.as(refill(session), kindOf(session))), "file")
          assert.deepStrictEqual(yield* pass(contents), filled)
        }))
  )

  it.effect.skipIf(!canMount)(
    "a disk that fills up under a session: broken, and begun anew once there is room",
    () =>
      onDisk("200k", ({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          const growing = (session: Session) =>
            Effect.andThen(session.putDay({ day: "2026-11-27", mtimeNanos: 9n, settled: true }, many), session.commit)
          const error = yield* Effect.flip(pass(growing))
          assert.match(error.message, /full/)
          yield* pass((session) => Effect.andThen(refill(session), session.totals(now)))
          assert.deepStrictEqual(yield* pass(contents), filled)
          assert.isAtMost(NFS.readdirSync(root).length, 3)
        }))
  )

  it.effect.skipIf(!canMount)(
    "a disk that cannot be written to: in memory",
    () =>
      onDisk("1m", ({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          NodeChildProcess.execFileSync("mount", ["-o", "remount,ro", root])
          for (const dryRun of [false, true]) {
            const kind = yield* pass((session) => Effect.as(refill(session), kindOf(session)), dryRun)
            assert.match(kind, /read-only.*EROFS/)
          }
          NodeChildProcess.execFileSync("mount", ["-o", "remount,rw", root])
          assert.deepStrictEqual(yield* pass(contents), filled)
        }))
  )

  it.live("a process that has it open for itself: in memory, and good again afterwards", () =>
    inPlace(({ pass, root }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        yield* Effect.scoped(Effect.gen(function*() {
          const holder = yield* child(root, "hold")
          yield* holder.line("held")
          for (const dryRun of [false, true]) {
            const kind = yield* pass((session) => Effect.as(refill(session), kindOf(session)), dryRun)
            assert.match(kind, /locked/)
          }
          yield* holder.kill("SIGKILL")
          yield* holder.exit
        }))
        assert.deepStrictEqual(yield* pass(contents), filled)
      })
    ))

  it.live("a process with no descriptor left for SQLite: in memory", () =>
    inPlace(({ pass }) =>
      Effect.gen(function*() {
        yield* pass(refill)
        const opened: Array<number> = []
        const files = {
          ...node,
          // The last descriptor there is goes to the door; SQLite opens its own.
          open: (path: string, flags: number, mode?: number) =>
            Effect.tap(node.open(path, flags, mode), () =>
              Effect.sync(() => {
                if (path.endsWith("index.db")) exhaust(opened)
              }))
        }
        const kind = yield* Effect.provideService(
          pass((session) => Effect.as(session.commit, kindOf(session))),
          Files,
          files
        )
          .pipe(Effect.ensuring(Effect.sync(() => opened.forEach((fd) => NFS.closeSync(fd)))))
        assert.match(kind, /unable to open/)
        assert.deepStrictEqual(yield* pass(contents), filled)
      })
    ))

  // The first write is that of a seal that ends with a reboot, the second wipes it out, then come those of a commit.
  const deaths = hasStrace ? [1, 2, 3, 6] : []
  it.live.each(deaths)(
    "a process killed at its write number %i: whole, or not believed",
    (nth) =>
      inPlace(({ pass, root }) =>
        Effect.gen(function*() {
          yield* pass(refill)
          const at = [`${root}/index.db`, `${root}/retention.lock`].flatMap((path) => ["-P", path])
          const kill = ["-e", "trace=write,pwrite64", "-e", `inject=write,pwrite64:signal=KILL:when=${nth}`]
          yield* inChild(root, "fill", ["strace", "-f", "-o", "/dev/null", ...at, ...kill])
          assert.strictEqual((yield* pass((session) => Effect.succeed(kindOf(session)), true)) === "file", nth <= 2)
          assert.deepStrictEqual(yield* pass((session) => Effect.andThen(refill(session), contents(session))), filled)
        })
      )
  )
})

/** Takes every descriptor that is left. */
const exhaust = (opened: Array<number>) => {
  try {
    for (;;) opened.push(NFS.openSync("/dev/null", "r"))
  } catch {}
}
