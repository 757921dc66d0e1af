/** The whole command line, by the parser that knows all of it: every command, help, completions, and what is wrong. */
import * as CliConfig from "effect/cli/CliConfig"
import * as CliError from "effect/cli/CliError"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import * as Effect from "effect/Effect"
import { AllowTemp, Json, Root } from "./Context.ts"
import { UsageError } from "./ExitCode.ts"
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

/** A wrong command line is said in a line, and not in a page of help on standard output. */
const presenter: CliOutput.Presenter = {
  present: (event) => event._tag === "InvalidInvocation" ? Effect.void : CliOutput.defaultPresenter.present(event)
}

/** The parser lays its errors out for a page, and says how it has found them. */
const inWords = ({ message }: CliError.CliError): string =>
  message
    .replace(/\. Expected: Schema validation failed: (".*?": )?/, (_, again) => again === undefined ? ". " : ": ")
    .replace(/\s*Did you mean this\?\s*(.*)$/s, (_, names: string) =>
      `; did you mean ${names.split(/\s+/).join(" or ")}?`)

/** What stands there without `--` before it has its own flags taken for ours. */
const hintAt = ({ commandPath: [, word = ""], errors }: CliError.ShowHelp): string =>
  ["run", "resume", "attach"].includes(word) && !process.argv.includes("--") &&
    errors.some(({ _tag }) => _tag === "UnrecognizedOption")
    ? "; a command with flags of its own goes after --"
    : ""

/** Help that was asked for is an answer; help that was not is a usage error. */
const usageMessage = (error: CliError.CliError): string | undefined => {
  if (error._tag !== "ShowHelp") return inWords(error)
  if (error.errors.length === 0) return undefined
  const path = error.commandPath.join(" ")
  return `${error.errors.map(inWords).join("; ")}${hintAt(error)} (see '${path} --help')`
}

const wrongUsage = (error: CliError.CliError) => {
  const message = usageMessage(error)
  return message === undefined ? Effect.void : Effect.fail(new UsageError(message))
}

/** Does what the arguments of this process ask for. */
export const leasehold = async (): Promise<Effect.Effect<void, unknown>> => {
  Report.endWithOutput()
  return Command.run(await commandFor(process.argv[2]), { version }).pipe(
    Effect.catchIf(CliError.isCliError, wrongUsage),
    Effect.provideService(CliOutput.Presenter, presenter),
    Effect.provide([Services.layer, CliConfig.layer({ builtIns })])
  )
}
