/** What is taken away must be there to be taken; `npm run test:mutants` does it and sees the tests fail. */
import { assert, describe, it } from "@effect/vitest"
import * as NFS from "node:fs"
import { repository } from "../support/Worker.ts"
import { mutants } from "./Mutants.ts"

describe("every mutant", () => {
  it.each(mutants)("$name", ({ edits, file, tests }) => {
    const text = NFS.readFileSync(`${repository}/${file}`, "utf8")
    for (const [from] of edits) assert.strictEqual(text.split(from).length, 2, from)
    for (const test of tests) assert.isTrue(NFS.existsSync(`${repository}/${test}`), test)
  })
})
