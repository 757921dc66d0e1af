import { defineConfig } from "rolldown"

// Few files for the command: a tree of two hundred modules costs more to load than to run.
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
    banner: (chunk) => chunk.isEntry ? "#!/usr/bin/env node" : "",
    chunkFileNames: "command/[name]-[hash].js"
  }
})
