/**
 * Soaks a store for so many minutes. A seed brings back what everybody sets about, and who is struck when; how they meet
 * is for the machine to say.
 *
 * npm run test:soak -- --minutes 10 --processes 6 --seed 1
 */
import * as NFS from "node:fs"
import { parseArgs } from "node:util"
import { soak } from "./Soak.ts"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    processes: { type: "string", default: "6" },
    runs: { type: "string", default: "8" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) }
  }
})

const numberOf = (name: keyof typeof values) => {
  const number = Number(values[name])
  if (!Number.isFinite(number) || number <= 0) throw new Error(`--${name} ${values[name]} is no number above zero`)
  return number
}

const parent = NFS.existsSync("/dev/shm") ? "/dev/shm" : "/tmp"
const dir = NFS.mkdtempSync(`${parent}/leasehold-soak-`)
const seed = numberOf("seed")

console.log(`seed ${seed}, in ${dir}`)
const { counts, line, violations } = await soak({
  dir,
  millis: numberOf("minutes") * 60_000,
  processes: numberOf("processes"),
  runs: numberOf("runs"),
  seed,
  onMinute: (text) => console.log(text)
})
console.log(counts)
console.log(line)
for (const violation of violations.slice(0, 50)) console.log(`VIOLATION ${violation}`)
if (violations.length > 0) {
  console.log(`${violations.length} violations with seed ${seed}; the store and the journal are in ${dir}`)
  process.exitCode = 1
} else NFS.rmSync(dir, { recursive: true })
