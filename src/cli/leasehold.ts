import * as CliConfig from "effect/cli/CliConfig"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as RunMain from "../RunMain.ts"
import { attach } from "./attach.ts"
import { AllowTemp, Json, Root } from "./Context.ts"
import { du } from "./du.ts"
import { logs } from "./logs.ts"
import { ls } from "./ls.ts"
import { path } from "./path.ts"
import { pin, unpin } from "./pin.ts"
import { prune } from "./prune.ts"
import { recover } from "./recover.ts"
import * as Report from "./Report.ts"
import { resume } from "./resume.ts"
import { rm } from "./rm.ts"
import { run } from "./run.ts"
import * as Services from "./Services.ts"
import { show } from "./show.ts"
import { verify } from "./verify.ts"
import { version } from "./version.ts"

const leasehold = Command.make("leasehold").pipe(
  Command.withDescription("Keeps the directories that programs run in: a bundle and a lease for every run"),
  Command.withSubcommands([run, resume, attach, ls, show, logs, path, pin, unpin, prune, recover, rm, du, verify]),
  Command.withGlobalFlags([Root, Json, AllowTemp])
)

/** Without the wizard: it would ask on a standard input that is no terminal, too. */
const builtIns = GlobalFlag.BuiltIns.filter((flag) => flag !== GlobalFlag.Wizard)

/** Runs the command that the arguments of this process state. */
export const start = (): void => {
  Report.quietOnClosedPipe()
  RunMain.run(
    RunMain.interruptible(Command.run(leasehold, { version })).pipe(
      Report.errors,
      Effect.provideService(CliOutput.Presenter, Report.presenter),
      Effect.provideService(Logger.LogToStderr, true),
      Effect.provide([Services.layer, CliConfig.layer({ builtIns })])
    )
  )
}
