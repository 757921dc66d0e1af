/** From the arguments of this process to its exit code. */
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as RunMain from "../RunMain.ts"
import { enter } from "./FrontDoor.ts"
import * as Report from "./Report.ts"

export const start = async (): Promise<void> => {
  const command = enter(process.argv.slice(2)) ?? await (await import("./leasehold.ts")).leasehold()
  RunMain.run(
    RunMain.interruptible(command).pipe(
      Report.errors,
      Effect.provideService(Logger.CurrentLoggers, new Set([Report.logger]))
    )
  )
}
