import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Tests of real processes wait for ready lines; the limit only catches a hang.
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
