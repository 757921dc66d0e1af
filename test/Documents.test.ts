import { assert, describe, it } from "@effect/vitest"
import * as NFS from "node:fs"
import { documents } from "../src/schemas/generate.ts"
import { repository } from "./support/Worker.ts"

describe("the published JSON Schemas", () => {
  it.each(Object.entries(documents()))("%s says what the code says", (name, text) => {
    const read = (directory: string) => NFS.readFileSync(`${repository}/${directory}/${name}`, "utf8")
    assert.strictEqual(read("src/schemas"), text, "run: npm run schemas")
    assert.strictEqual(read("dist/schemas"), text)
  })
})
