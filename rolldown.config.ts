import { defineConfig, type Plugin, type RolldownOptions } from "rolldown"

/** An import of all that is in a module of node looks at all of it, and some is only loaded when it is looked at. */
const builtinsUnseen: Plugin = {
  name: "builtins-unseen",
  transform: {
    filter: { id: /\.ts$/ },
    handler: (code) =>
      code.replaceAll(
        /^import \* as (\w+) from ("node:\w+")$/gm,
        (_, name, module) => `const ${name} = /* @__PURE__ */ process.getBuiltinModule(${module})`
      )
  }
}

const common: RolldownOptions = { platform: "node", external: ["fs-native-extensions"], plugins: [builtinsUnseen] }

// The first file loads the second one with what was compiled of it before. That and all others are few, since a tree of two hundred
// modules costs more to load than to run, and scripts, since node gives no compiled code of ES modules away.
export default defineConfig([
  {
    ...common,
    input: { leasehold: "src/cli/main.ts" },
    output: { dir: "dist", cleanDir: true, minify: true, banner: "#!/usr/bin/env node" }
  },
  {
    ...common,
    input: { Entry: "src/cli/Entry.ts" },
    output: {
      dir: "dist/command",
      format: "cjs",
      minify: true,
      comments: false,
      entryFileNames: "[name].cjs",
      chunkFileNames: "[name]-[hash].cjs"
    }
  }
])
