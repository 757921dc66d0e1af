import * as NodePath from "node:path"
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Programs that tests start load two hundred modules each; together they would compile for minutes.
    env: { NODE_COMPILE_CACHE: NodePath.join(import.meta.dirname, "node_modules/.cache/leasehold-tests") },
    // Tests of real processes wait, for ready lines as a rule: others may work meanwhile. The limit only catches a hang.
    maxWorkers: "100%",
    // Each file would load all of Effect anew. What a module remembers from one test to the next it does in a program, too.
    isolate: false,
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
