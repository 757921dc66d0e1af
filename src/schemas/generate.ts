/** Writes the published JSON Schemas into the directory that is named. */
import * as Schema from "effect/Schema"
import * as NFS from "node:fs"
import { published } from "../Documents.ts"

/** JSON Schema of draft 2020-12, by the name of its file. */
export const documents = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(published).map(([name, schema]) => {
      const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema)
      const document = {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        ...root,
        ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
      }
      return [`${name}.schema.json`, `${JSON.stringify(document, undefined, 2)}\n`]
    })
  )

const [directory] = process.argv.slice(2)
if (import.meta.main && directory !== undefined) {
  NFS.mkdirSync(directory, { recursive: true })
  for (const [name, text] of Object.entries(documents())) NFS.writeFileSync(`${directory}/${name}`, text)
}
