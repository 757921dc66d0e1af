/** The words that name commands, for those who must not load the commands. */
const words = [
  "run",
  "resume",
  "attach",
  "ls",
  "show",
  "logs",
  "path",
  "pin",
  "unpin",
  "prune",
  "explain",
  "recover",
  "rm",
  "trim",
  "archive",
  "restore",
  "du",
  "verify"
] as const

export type Word = (typeof words)[number]

export const isWord = (text: string): text is Word => words.some((word) => word === text)
