import * as CliConfig from "effect/cli/CliConfig"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as RunMain from "../RunMain.ts"
import { AllowTemp, Json, Root } from "./Context.ts"
import * as Report from "./Report.ts"
import * as Services from "./Services.ts"
import { version } from "./version.ts"

/** Without the wizard: it would ask on a standard input that is no terminal, too. */
const builtIns = GlobalFlag.BuiltIns.filter((flag) => flag !== GlobalFlag.Wizard)

const root = Command.make("leasehold").pipe(
  Command.withDescription("Keeps the directories that programs run in: a bundle and a lease for every run")
)

const globals = Command.withGlobalFlags([Root, Json, AllowTemp])

/** What people wait for most often loads nothing of the other commands. */
const commandFor = async (word: string | undefined) => {
  if (word === "run") return globals(Command.withSubcommands(root, [(await import("./run.ts")).run]))
  if (word === "ls") return globals(Command.withSubcommands(root, [(await import("./ls.ts")).ls]))
  const { commands } = await import("./commands.ts")
  return globals(Command.withSubcommands(root, commands))
}

/** Runs the command that the arguments of this process state. */
export const start = async (): Promise<void> => {
  Report.quietOnClosedPipe()
  const leasehold = await commandFor(process.argv[2])
  RunMain.run(
    RunMain.interruptible(Command.run(leasehold, { version })).pipe(
      Report.errors,
      Effect.provideService(CliOutput.Presenter, Report.presenter),
      Effect.provideService(Logger.LogToStderr, true),
      Effect.provide([Services.layer, CliConfig.layer({ builtIns })])
    )
  )
}
