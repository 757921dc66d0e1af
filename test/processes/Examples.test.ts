import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeHttp from "node:http"
import type { AddressInfo } from "node:net"
import * as NodeOs from "node:os"
import * as RunStore from "../../src/RunStore.ts"
import { bundles, names, onlyRecord, recordAt } from "../support/CommandLine.ts"
import { command, type Exit, repository, start } from "../support/Worker.ts"

/** The examples use a store as users do, which is not below the temp directory. */
const home = [NodeOs.homedir(), "/dev/shm"].find((dir) => {
  const isSwept = ["/tmp", "/var/tmp", NodeOs.tmpdir()].some((temp) => `${dir}/`.startsWith(`${temp}/`))
  return !isSwept && NodeChildProcess.spawnSync("test", ["-w", dir]).status === 0
})

const withRoot = <A, E>(test: (root: string) => Effect.Effect<A, E, Scope.Scope>) =>
  Effect.scoped(Effect.flatMap(
    Effect.acquireRelease(
      Effect.sync(() => NFS.mkdtempSync(`${home}/.leasehold-test-`)),
      (dir) => Effect.sync(() => NFS.rmSync(dir, { recursive: true, force: true }))
    ),
    (dir) => test(`${dir}/store`)
  ))

const example = (name: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) =>
  Effect.flatMap(
    start([process.execPath, `${repository}/examples/${name}`, ...args], { cwd: repository, env }),
    (worker) => worker.exit
  )

const lines = (path: string) => NFS.readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line))

describe.skipIf(home === undefined)("examples", () => {
  it.live("report.ts leaves a report, its events and its spans with the run", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* example("report.ts", ["LICENSE", "package.json"], { LEASEHOLD_ROOT: root })
        const [bundle = ""] = bundles(root)
        assert.deepStrictEqual([exit.code, exit.stdout], [0, `${bundle}/artifacts/report.txt\n`])
        assert.match(NFS.readFileSync(`${bundle}/artifacts/report.txt`, "utf8"), /^\d+ LICENSE\n\d+ package.json\n$/)
        assert.deepInclude(recordAt(bundle), { name: "report", status: "ok", tags: { files: "2" } })
        assert.deepStrictEqual(lines(`${bundle}/logs/events.jsonl`).map((event) => event.message), [
          "closing the report"
        ])
        assert.deepStrictEqual(lines(`${bundle}/telemetry/spans.jsonl`).map((span) => span.name), [
          "wordsOf",
          "wordsOf"
        ])
      })
    ))

  it.live("report.ts cleans up and says so when it fails", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const exit = yield* example("report.ts", ["LICENSE", "no-such-file"], { LEASEHOLD_ROOT: root })
        assert.deepStrictEqual([exit.code, exit.stdout], [1, ""])
        assert.include(exit.stderr, "closing the report")
        assert.deepInclude(onlyRecord(root), {
          status: "error",
          exit: { code: 1, message: "cannot read no-such-file" }
        })
      })
    ))

  it.live("build.sh builds in the run's temp space, cleans up, and exits as the build did", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        // As npm would have put it into the path.
        const bin = `${root}-bin`
        NFS.mkdirSync(bin)
        NFS.writeFileSync(`${bin}/leasehold`, `#!/bin/sh\nexec '${process.execPath}' '${command}' "$@"\n`, {
          mode: 0o755
        })
        const env = { LEASEHOLD_ROOT: root, PATH: `${bin}:${process.env["PATH"]}` }
        const build = (directory: string): Effect.Effect<Exit, never, Scope.Scope> =>
          Effect.flatMap(start([`${repository}/examples/build.sh`, directory], { env }), (worker) => worker.exit)
        const exit = yield* build(`${repository}/examples`)
        const [bundle = ""] = bundles(root)
        assert.deepStrictEqual([exit.code, exit.stdout], [0, `${bundle}/artifacts/tree.tar\n`])
        assert.strictEqual(exit.stderr, "cleaned up\n")
        assert.deepInclude(recordAt(bundle), { name: "build", status: "ok", tags: { directory: "examples" } })
        assert.deepStrictEqual(names(`${bundle}/temp`), [])
        assert.include(NFS.readFileSync(`${bundle}/artifacts/checksums.txt`, "utf8"), "./build.sh")
        const contents = NodeChildProcess.execFileSync("tar", ["-tf", `${bundle}/artifacts/tree.tar`], {
          encoding: "utf8"
        })
        assert.include(contents, "./report.ts")

        // A file that goes away under the build: its list of checksums is a directory already.
        const failed = yield* build(`${root}-bin/nothing`)
        assert.isAbove(failed.code ?? 0, 0)
        assert.strictEqual(bundles(root).length, 1)
      })
    ))

  it.live("telemetry.ts exports its spans, the clean-up's too, before its lease goes", () =>
    withRoot((root) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const liveness = Effect.map(Effect.flatMap(store.latest(), store.liveness), ({ _tag }) => _tag)
        const heard: Array<{ readonly path: string | undefined; readonly body: string; readonly lease: string }> = []
        const runPromise = Effect.runPromiseWith(yield* Effect.context<never>())
        const collector = yield* listening((path, body) =>
          runPromise(Effect.map(liveness, (lease) => void heard.push({ path, body, lease })))
        )
        const exit = yield* example("telemetry.ts", [], {
          LEASEHOLD_ROOT: root,
          OTEL_EXPORTER_OTLP_ENDPOINT: collector
        })
        assert.deepStrictEqual([exit.code, exit.stdout], [0, "550\n"])
        assert.strictEqual(yield* liveness, "Dead")
        assert.deepStrictEqual([...new Set(heard.map(({ lease }) => lease))], ["Live"])
        const bodiesTo = (path: string) => heard.filter((each) => each.path === path).map(({ body }) => body).join("\n")
        const traces = bodiesTo("/v1/traces")
        for (const span of ["countPrimes", "telemetry", "cleanup"]) assert.include(traces, `"name":"${span}"`)
        assert.include(bodiesTo("/v1/logs"), "cleaning up")
        assert.include(bodiesTo("/v1/metrics"), "numbers_checked")
        const [bundle = ""] = bundles(root)
        const spans = lines(`${bundle}/telemetry/spans.jsonl`).map((span) => span.name)
        assert.sameMembers(spans, [...Array.from({ length: 4 }, () => "countPrimes"), "telemetry", "cleanup"])
        assert.isString(recordAt(bundle).releasedAt)
      }).pipe(Effect.provide(Layer.fresh(RunStore.layer({ root }))))
    ))
})

/** A collector that is told everything it is sent; the answer waits for what is done with it. */
const listening = (heard: (path: string | undefined, body: string) => Promise<void>) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<NodeHttp.Server>((resume) => {
        const server = NodeHttp.createServer(async (request, response) => {
          const pieces: Array<Buffer> = []
          for await (const piece of request) pieces.push(piece)
          await heard(request.url, Buffer.concat(pieces).toString())
          response.setHeader("content-type", "application/json").end("{}")
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => void server.close())
    ),
    (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  )
