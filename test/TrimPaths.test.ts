import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { checkPaths, defaultPaths } from "../src/TrimPaths.ts"

const refusal = (...globs: ReadonlyArray<string>) =>
  Option.getOrUndefined(Option.map(Result.getFailure(checkPaths(globs)), ({ message }) => message))

const parsed = (...globs: ReadonlyArray<string>) => Result.getOrThrow(checkPaths(globs))

describe("a glob", () => {
  it.each<readonly [string, RegExp]>([
    ["", /^"" .*: it is empty; write temp/],
    ["/etc/**", /absolute/],
    ["C:/temp", /absolute/],
    ["../other/**", /each part/],
    ["temp/../run.json", /each part/],
    ["./temp", /each part/],
    ["temp/", /each part/],
    ["temp//x", /each part/],
    ["temp/\0", /NUL/],
    ["!temp/**", /begins with "!"/],
    ["run.json", /Leasehold's own/],
    ["run.json.*.tmp", /Leasehold's own/],
    ["lease", /Leasehold's own/],
    ["holders/**", /Leasehold's own/],
    ["x".repeat(1001), /^"x{57}\.\.\." .*longer/]
  ])("%j is refused", (glob, why) => {
    assert.match(refusal(glob) ?? "", why)
    assert.match(refusal("temp/**", glob) ?? "", why)
  })

  it("has to be there, and not without end", () => {
    assert.include(refusal(), "1 to 100")
    assert.include(refusal(...Array.from({ length: 101 }, (_, index) => `temp/${index}`)), "1 to 100")
    assert.deepStrictEqual(parsed("temp/**", "logs/*", "temp/**").globs, ["temp/**", "logs/*"])
  })

  const matches: ReadonlyArray<readonly [string, ReadonlyArray<string>, ReadonlyArray<string>]> = [
    ["temp/**", ["temp/a", "temp/.a", "temp/a/b", "temp/a\nb", "temp/\ufffd"], ["temp", "temporary", "artifacts/temp"]],
    ["temp", ["temp/a", "temp/.a"], ["temp", "temporary"]],
    ["*", ["x", ".x", "temp/a", "logs/a"], ["temp", "artifacts", "x/y"]],
    ["**", ["x", "x/y", "temp/a/b"], [
      "temp",
      "run.json",
      "run.json.draft-a1b2c3.tmp",
      "lease",
      "holders",
      "holders/x"
    ]],
    ["{lease,holders}/**", [], ["lease", "holders", "holders/x.json"]],
    ["[r]un.json", [], ["run.json"]],
    ["artifacts/*.img", ["artifacts/a.img"], ["artifacts/a", "artifacts/x/a.img"]],
    ["**/*.o", ["artifacts/a.o", "a.o", "temp/x/y/.o"], ["holders/a.o", "run.json.o"]],
    ["te\\mp/a\\*", ["temp/a*"], ["temp/ab"]],
    ["!(logs|telemetry)/**", ["temp/a", "artifacts/a"], ["logs/a", "telemetry/a", "holders/a"]],
    ["data/[", ["data/["], ["data/x"]]
  ]
  it.each(matches)("%j matches what it should, and nothing of Leasehold's own", (glob, matched, others) => {
    const { isMatch } = parsed(glob)
    assert.deepStrictEqual(matched.filter((way) => !isMatch(way)), [])
    assert.deepStrictEqual(others.filter(isMatch), [])
  })

  it.each(matches)("%j is looked for wherever it may match", (glob, matched) => {
    const { mayHold } = parsed(glob)
    const above = (way: string) =>
      way.split("/").slice(0, -1).map((_, index, parts) => parts.slice(0, index + 1).join("/"))
    assert.deepStrictEqual(matched.flatMap(above).filter((way) => !mayHold(way)), [])
    assert.isFalse(mayHold("holders"))
  })

  it("of a few places is looked for in no others", () => {
    const { mayHold } = parsed(...defaultPaths, "artifacts/x/*")
    assert.deepStrictEqual(
      ["temp", "temp/a", "artifacts", "artifacts/x", "artifacts/xy", "artifacts/y", "logs"].filter((way) =>
        !mayHold(way)
      ),
      ["artifacts/xy", "artifacts/y", "logs"]
    )
  })
})
