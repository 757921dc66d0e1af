/**
 * Words as a shell reads them, so that a line can be copied to one.
 */

/** @internal */
export const quoted = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`

/** @internal */
export const commandLine = (argv: ReadonlyArray<string>): string => argv.map(quoted).join(" ")
