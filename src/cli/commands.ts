/** Every command, in the order in which help lists them. */
import { archive } from "./archive.ts"
import { attach } from "./attach.ts"
import { du } from "./du.ts"
import { explain } from "./explain.ts"
import { logs } from "./logs.ts"
import { ls } from "./ls.ts"
import { path } from "./path.ts"
import { pin, unpin } from "./pin.ts"
import { prune } from "./prune.ts"
import { recover } from "./recover.ts"
import { restore } from "./restore.ts"
import { resume } from "./resume.ts"
import { rm } from "./rm.ts"
import { run } from "./run.ts"
import { show } from "./show.ts"
import { trim } from "./trim.ts"
import { verify } from "./verify.ts"
import type { Word } from "./Words.ts"

export const commands = [
  run,
  resume,
  attach,
  ls,
  show,
  logs,
  path,
  pin,
  unpin,
  prune,
  explain,
  recover,
  rm,
  trim,
  archive,
  restore,
  du,
  verify
] as const satisfies ReadonlyArray<{ readonly name: Word }>
