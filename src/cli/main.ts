import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as RunMain from "../RunMain.ts"
import { AllowTemp, Json, Root } from "./Context.ts"
import { logs } from "./logs.ts"
import { ls } from "./ls.ts"
import { path } from "./path.ts"
import { pin, unpin } from "./pin.ts"
import * as Report from "./Report.ts"
import { run } from "./run.ts"
import { show } from "./show.ts"
import { version } from "./version.ts"

const leasehold = Command.make("leasehold").pipe(
  Command.withDescription("Keeps the directories that programs run in: a bundle and a lease for every run"),
  Command.withSubcommands([run, ls, show, logs, path, pin, unpin]),
  Command.withGlobalFlags([Root, Json, AllowTemp])
)

Report.quietOnClosedPipe()

RunMain.run(
  RunMain.interruptible(Command.run(leasehold, { version, renderErrors: false })).pipe(
    Report.errors,
    Effect.provideService(Logger.LogToStderr, true),
    Effect.provide(NodeServices.layer)
  )
)
