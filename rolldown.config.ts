import { defineConfig } from "rolldown"

// One file for the command: a tree of two hundred modules costs more to load than to run.
export default defineConfig({
  input: { leasehold: "src/cli/main.ts" },
  platform: "node",
  external: ["fs-native-extensions"],
  output: {
    dir: "dist",
    format: "esm",
    cleanDir: true,
    minify: true,
    comments: false,
    codeSplitting: false,
    banner: "#!/usr/bin/env node"
  }
})
