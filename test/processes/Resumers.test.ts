/**
 * Many who resume the same run at once: one goes on with it, and everybody else is told who. So for a run that has
 * crashed as for one that has been archived, once, or as often as `LEASEHOLD_ROUNDS` says:
 *
 *     LEASEHOLD_ROUNDS=100 npx vitest run test/processes/Resumers.test.ts
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { bundles, names, onlyRecord } from "../support/CommandLine.ts"
import { filed, withRoot } from "../support/Stores.ts"
import { gate, leasehold, run, untilGone } from "../support/Worker.ts"

const rounds = Number(process.env["LEASEHOLD_ROUNDS"] ?? 1)

const resumers = 20

/** A run whose owner was killed, with a child that held nothing and has gone. */
const crash = Effect.fnUntraced(function*(root: string, fill = "true") {
  const end = yield* gate(`${root}-end`)
  const script = `cd "$LEASEHOLD_RUN_DIR/artifacts"; echo kept > kept; ${fill}; echo "child $$"; ${end.wait}`
  const owner = yield* leasehold(root, ["run", "--retention=off", "--no-inherit-lease", "--", "sh", "-c", script])
  const child = yield* owner.line("child ")
  yield* owner.kill("SIGKILL")
  yield* owner.exit
  yield* end.open
  yield* untilGone(child)
}, Effect.scoped)

/** With so much in it that others come while it is still being unpacked. */
const archive = Effect.fnUntraced(function*(root: string) {
  yield* crash(root, "head -c 20000000 /dev/urandom > large; for nth in $(seq 300); do echo $nth > $nth; done")
  assert.strictEqual((yield* run(root, ["archive", "latest"])).code, 0)
  assert.deepStrictEqual(bundles(root), [])
})

/** Everybody comes at once, and whoever gets it stays until all others have had an answer. */
const allAtOnce = Effect.fnUntraced(function*(root: string, id: string) {
  const finish = yield* gate(`${root}-finish`)
  const script = `cat "$LEASEHOLD_RUN_DIR/artifacts/kept"; ${finish.wait}`
  const come = leasehold(root, ["resume", id, "--retention=off", "--", "sh", "-c", script])
  const all = yield* Effect.all(Array.from({ length: resumers }, () => come), { concurrency: "unbounded" })
  let answered = 0
  return yield* Effect.forEach(all, ({ exit, pid }) =>
    exit.pipe(
      Effect.tap(() => ++answered === resumers - 1 ? finish.open : Effect.void),
      Effect.map((ended) => ({ ...ended, pid }))
    ), { concurrency: "unbounded" })
})

/** Those who come too early to be told who has it are told that it is being restored. */
const busy = /another process is archiving, restoring or removing it/

const idOf = (root: string) => filed(root, ".tar.zst")[0] ?? onlyRecord(root).id

const hold = (
  stage: (root: string) => Effect.Effect<void, never, Scope.Scope>,
  others: (winner: number) => ReadonlyArray<RegExp>
) =>
  withRoot((root) =>
    Effect.gen(function*() {
      yield* stage(root)
      const exits = yield* allAtOnce(root, idOf(root))
      const told = exits.map(({ code, pid, stderr }) => `${pid}: ${code} ${stderr}`).join("")
      const winners = exits.filter(({ code }) => code === 0)
      assert.deepStrictEqual(exits.map(({ code }) => code).sort(), [0, ...Array(resumers - 1).fill(4)], told)
      const [winner] = winners
      assert.strictEqual(winner!.stdout, "kept\n")
      const allowed = others(winner!.pid)
      for (const { code, stderr, stdout } of exits) {
        if (code === 0) continue
        assert.strictEqual(stdout, "")
        assert.isTrue(allowed.some((pattern) => pattern.test(stderr)), told)
      }
      assert.deepStrictEqual(onlyRecord(root).attempts.map(({ status }) => status), ["crashed", "ok"])
      const left = names(`${bundles(root)[0]}/holders`)
      assert.isTrue(exits.every(({ pid }) => !left.some((name) => name.startsWith(`${pid}-`))), left.join(" "))
      assert.deepStrictEqual([names(`${root}/staging`), filed(root, ".tar.zst")], [[], []])
      assert.strictEqual(NFS.readFileSync(`${bundles(root)[0]}/artifacts/kept`, "utf8"), "kept\n")
    })
  )

const namesOwner = (pid: number) => new RegExp(`in use by .*pid ${pid} on \\S+ \\(owner\\)`)

describe(`of twenty who resume at once, ${rounds} times over, one goes and nineteen exit 4`, () => {
  it.live(
    "bug 12: naming the one, when the run has crashed",
    () => Effect.repeat(hold((root) => crash(root), (winner) => [namesOwner(winner)]), { times: rounds - 1 }),
    60_000 + rounds * 20_000
  )

  it.live(
    "naming the one, or as busy, when the run has been archived",
    () => Effect.repeat(hold(archive, (winner) => [namesOwner(winner), busy]), { times: rounds - 1 }),
    60_000 + rounds * 20_000
  )
})
