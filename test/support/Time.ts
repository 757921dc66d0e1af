import * as DateTime from "effect/DateTime"

export const at = (millis: number): DateTime.Utc => DateTime.makeUnsafe(millis)

export const minute = 60_000
export const hour = 60 * minute
export const day = 24 * hour
