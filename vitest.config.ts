import * as NodePath from "node:path"
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Programs that tests start load two hundred modules each; together they would compile for minutes.
    env: { NODE_COMPILE_CACHE: NodePath.join(import.meta.dirname, "node_modules/.cache/leasehold-tests") },
    // Tests of real processes wait for ready lines; the limit only catches a hang.
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
