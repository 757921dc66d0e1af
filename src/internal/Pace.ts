/** How long names take to be removed, as one sweep finds it on its way. */

/**
 * Whether names take so long here that several are to be removed at a time: a disk that is told of each block that
 * comes free, or one in another machine, is waited for, and that can be done side by side.
 *
 * @internal
 */
export interface Pace {
  /** Asked for each name. Now and then the answer is no, to see whether they still take long. */
  readonly isSlow: () => boolean
  /** Takes what a name took that was removed alone, in milliseconds. */
  readonly took: (millis: number) => void
}

/** From here on the way to the thread pool and back is the smaller part of what a name takes. */
const slowMillis = 0.1

const namesPerSample = 32

/** @internal */
export const make = (): Pace => {
  let mean = 0
  let asked = 0
  return {
    isSlow: () => mean > slowMillis && asked++ % namesPerSample !== 0,
    // One that took very long was kept waiting by something else, as a busy processor.
    took: (millis) => void (mean += (Math.min(millis, 4 * slowMillis) - mean) / 16)
  }
}
