/**
 * Takes one safety after another out of a copy of the program, and runs the tests that are there for it: each of them has
 * to fail. A part of a name chooses some of the mutants.
 *
 * npm run test:mutants -- --only lease
 */
import * as NodeChildProcess from "node:child_process"
import * as NFS from "node:fs"
import * as NodeOs from "node:os"
import { parseArgs } from "node:util"
import { repository } from "../support/Worker.ts"
import { type Mutant, mutants } from "./Mutants.ts"

const { values } = parseArgs({ options: { only: { type: "string", multiple: true, default: [""] } } })

const chosen = mutants.filter(({ name }) => values.only.some((part) => name.includes(part)))

/** One that makes a test wait for ever has failed it. */
const patience = 240_000

/** What tests need, but for what is installed and for what is built. */
const copied = ["src", "test", "examples", "bench", "package.json", "tsconfig.json", "tsconfig.build.json"]
const configs = ["vitest.config.ts", "rolldown.config.ts", "README.md", "CHANGELOG.md"]

const copy = (to: string) => {
  for (const name of [...copied, ...configs]) {
    NFS.cpSync(`${repository}/${name}`, `${to}/${name}`, { recursive: true })
  }
  NFS.symlinkSync(NFS.realpathSync(`${repository}/node_modules`), `${to}/node_modules`)
}

const execute = (dir: string, file: string, args: ReadonlyArray<string>) =>
  NodeChildProcess.spawnSync(`${dir}/node_modules/.bin/${file}`, args, {
    cwd: dir,
    encoding: "utf8",
    timeout: patience,
    killSignal: "SIGKILL",
    env: { ...process.env, PATH: `${dir}/node_modules/.bin:${process.env["PATH"]}` }
  })

interface Told {
  readonly numTotalTests: number
  readonly testResults: ReadonlyArray<{
    readonly message: string
    readonly assertionResults: ReadonlyArray<{ readonly fullName: string; readonly status: string }>
  }>
}

type Verdict =
  | { readonly _tag: "Passed"; readonly count: number }
  | { readonly _tag: "Failed"; readonly test: string }
  | { readonly _tag: "Broken"; readonly why: string }

/** Only a test that was run and failed counts: not a file that could not be loaded. */
const judge = (dir: string, test: string): Verdict => {
  const out = `${dir}/told.json`
  NFS.rmSync(out, { force: true })
  const run = execute(dir, "vitest", ["run", test, "--bail=1", "--reporter=json", `--outputFile=${out}`])
  if (run.signal !== null) return { _tag: "Failed", test: "did not come to an end" }
  if (!NFS.existsSync(out)) return { _tag: "Broken", why: run.stderr.trim().slice(-400) }
  const told = JSON.parse(NFS.readFileSync(out, "utf8")) as Told
  const failed = told.testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status === "failed")
  )
  if (failed[0] !== undefined) return { _tag: "Failed", test: failed[0].fullName }
  if (run.status !== 0) {
    return {
      _tag: "Broken",
      why: told.testResults.map(({ message }) => message).join().slice(0, 400)
    }
  }
  return { _tag: "Passed", count: told.numTotalTests }
}

const isOfCommand = (test: string) => test.startsWith("test/processes/")

const build = (dir: string) => {
  const { status, stderr } = execute(dir, "rolldown", ["-c", "rolldown.config.ts"])
  return status === 0 ? undefined : stderr.slice(-400)
}

/** The text of a file with the edits made, each of which has to find its place. */
const edited = (text: string, { edits, file, name }: Mutant): string =>
  edits.reduce((before, [from, to]) => {
    const count = before.split(from).length - 1
    if (count !== 1) throw new Error(`${name}: ${file} has this ${count} times, and not once:\n${from}`)
    return before.replace(from, () => to)
  }, text)

const dir = NFS.mkdtempSync(`${NodeOs.tmpdir()}/leasehold-mutants-`)
let survivors = 0

const say = (name: string, verdict: string) => console.log(`${name.padEnd(62)}  ${verdict}`)

const describe = (test: string, verdict: Verdict): string => {
  switch (verdict._tag) {
    case "Failed":
      return `${test}: ${verdict.test}`
    case "Passed":
      return `SURVIVED ${test}, all ${verdict.count}`
    case "Broken":
      return `BROKEN ${test}: ${verdict.why}`
  }
}

try {
  // Some tests have a user without rights look at it.
  NFS.chmodSync(dir, 0o755)
  copy(dir)
  // Found before anything takes long.
  for (const mutant of chosen) edited(NFS.readFileSync(`${dir}/${mutant.file}`, "utf8"), mutant)
  const tests = [...new Set(chosen.flatMap((mutant) => mutant.tests))]
  if (tests.some(isOfCommand)) build(dir)
  for (const test of tests) {
    const verdict = judge(dir, test)
    if (verdict._tag === "Passed") continue
    survivors++
    say("(nothing is missing)", `NO BASIS ${describe(test, verdict)}`)
  }
  for (const mutant of chosen) {
    const path = `${dir}/${mutant.file}`
    const text = NFS.readFileSync(path, "utf8")
    NFS.writeFileSync(path, edited(text, mutant))
    const fault = mutant.tests.some(isOfCommand) ? build(dir) : undefined
    for (const test of mutant.tests) {
      const verdict: Verdict = fault === undefined ? judge(dir, test) : { _tag: "Broken", why: fault }
      if (verdict._tag !== "Failed") survivors++
      say(mutant.name, describe(test, verdict))
    }
    NFS.writeFileSync(path, text)
  }
} finally {
  NFS.rmSync(dir, { recursive: true, force: true })
}
console.log(`${chosen.length} mutants, ${survivors} not caught`)
process.exitCode = survivors === 0 ? 0 : 1
