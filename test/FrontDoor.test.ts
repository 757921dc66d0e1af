/** What the front door understands it understands as the full parser does. */
import { assert, describe, it } from "@effect/vitest"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AllowTemp, commandAfterDashes, Json, Root } from "../src/cli/Context.ts"
import { flagsOf } from "../src/cli/Flags.ts"
import { understand } from "../src/cli/FrontDoor.ts"
import { options as listing } from "../src/cli/Listing.ts"
import type { Options } from "../src/cli/Options.ts"
import * as Services from "../src/cli/Services.ts"
import { settings } from "../src/cli/Settings.ts"
import { options as starting } from "../src/cli/Starting.ts"

/** What a command is given by the full parser, which refuses the rest. */
const parse = Effect.fnUntraced(function*(options: Options, words: ReadonlyArray<string>) {
  let said: unknown
  const command = Command.make("do", { ...flagsOf(options), command: commandAfterDashes(0) }).pipe(
    Command.withHandler(Effect.fnUntraced(function*({ command, ...given }) {
      const common = { root: yield* Root, json: yield* Json, allowTemp: yield* AllowTemp }
      said = { given: { ...given, ...common }, operands: command }
    }))
  )
  const globals = Command.withGlobalFlags([Root, Json, AllowTemp])
  yield* Command.runWith(globals(command), { version: "0", renderErrors: false })(words)
  return said
})

const common = ["--root", "/r", "--json", "--allow-temp", "--", "--", "x", "", "-", "-3", "true", "a=b", "--help"]
const ofStarting = [
  ["--name", "--name=x", "--name=", "--tag", "--tag=a=b", "-q", "--quiet", "--quiet=true", "--no-quiet", "-t", "-qt"],
  ["--cleanup", "--on-remove=true", "--no-inherit-lease", "--retention", "--retention=off", "before", "--retention=x"]
].flat()
const ofListing = [
  ["-n", "-n5", "-n=5", "5", "--limit=0", "--limit=-1", "--limit", "--name=x", "--status", "ok", "--status=crashed"],
  ["--status=great", "--tag=a", "--tree", "--archived", "--since=2h"]
].flat()

const cases = [
  ["run", starting, ofStarting, [
    "--name",
    "x",
    "--tag=a=b",
    "--tag",
    "c=d",
    "-q",
    "--root=/r",
    "--",
    "ls",
    "-l",
    "--"
  ]],
  ["ls", listing, ofListing, ["-n", "5", "--status", "ok", "--status=error", "--json", "--root", "/r"]]
] as const

describe.each(cases)("the words after %s", (_, options, words, usual) => {
  const Words = Schema.Array(Schema.Literals([...common, ...words])).check(Schema.isMaxLength(6))

  it.effect.prop(
    "say to the full parser what they say to the front door",
    [Words],
    ([said]) =>
      Effect.gen(function*() {
        const understood = understand({ ...options, ...settings }, said)
        if (understood === undefined) return
        assert.deepStrictEqual(yield* parse(options, said), understood)
      }).pipe(Effect.provide(Services.layer)),
    { arbitrary: { runs: 1500, seed: "front door" } }
  )

  it("are understood when they are the usual ones", () => {
    const understood = understand({ ...options, ...settings }, usual)
    assert.deepStrictEqual(understood?.given.root, Option.some("/r"))
    assert.deepStrictEqual(understand({ ...options, ...settings }, [])?.operands, [])
  })

  it.each([["--nonsense"], ["--help"], ["x"], ["--root", ""], ["--root=/r", "--root=/s"], ["--name"], [
    "--name",
    "-x"
  ]])(
    "are for the full parser: %s %s",
    (...said) => assert.isUndefined(understand({ ...options, ...settings }, said.filter((word) => word !== undefined)))
  )
})
