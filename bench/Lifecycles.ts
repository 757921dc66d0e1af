/**
 * Start and end of a run with nothing in between, twice: by the library as it is built, and by hand, with only those
 * system calls that the design asks for, in its order. What both leave on the disk is alike.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Run from "leasehold/Run"
import * as RunStore from "leasehold/RunStore"
import * as NFS from "node:fs"
import { createRequire } from "node:module"
import type * as Door from "../src/internal/Files.ts"

export interface Options {
  readonly telemetry: boolean
  readonly fsync: boolean
}

/** Makes so many runs, all at once, each from its start to its end. */
export type Batch = (count: number) => Promise<void>

// == by the library

// There is no option that turns flushes off, so the door to the disk does.
const { Files, node }: typeof Door = await import(new URL("../dist/internal/Files.js", import.meta.url).href)

const noSinks = { events: false, spans: false, otlp: false }

/** The store is opened once, as a program with many runs would. */
export const ours = async (root: string, { fsync, telemetry }: Options): Promise<Batch> => {
  const store = Layer.build(RunStore.layer({ root, allowTemp: true }))
  const services = await Effect.runPromise(Scope.provide(store, Scope.makeUnsafe()))
  const one = Effect.void.pipe(
    Run.scoped({ name: "bench", retention: "off", telemetry: telemetry ? {} : noSinks }),
    Effect.provideService(Files, fsync ? node : { ...node, fsync: () => Effect.void }),
    Effect.provideContext(services)
  )
  return (count) =>
    Effect.runPromise(Effect.all(Array.from({ length: count }, () => one), { concurrency: "unbounded", discard: true }))
}

// == by hand

interface Native {
  readonly tryLock: (fd: number, options?: { readonly shared?: boolean }) => boolean
}

const { tryLock } = createRequire(import.meta.url)("fs-native-extensions") as Native

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR } = NFS.constants
const create = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW

const ensure = (isSo: boolean): void => {
  if (!isSo) throw new Error("somebody else is at work here")
}

const isStillThere = (fd: number, path: string): boolean => NFS.fstatSync(fd).ino === NFS.lstatSync(path).ino

const flush = (fd: number): Promise<void> =>
  new Promise((resolve, reject) => NFS.fsync(fd, (cause) => cause === null ? resolve() : reject(cause)))

const write = async (path: string, text: string, fsync = false): Promise<void> => {
  const fd = NFS.openSync(path, create, 0o600)
  NFS.writeSync(fd, text)
  if (fsync) await flush(fd)
  NFS.closeSync(fd)
}

/** Under the lock of the record, since others may pin the run at this moment. */
const change = async (dir: string, more: object, fsync: boolean): Promise<void> => {
  const path = `${dir}/run.json`
  const fd = NFS.openSync(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK)
  ensure(tryLock(fd) && isStillThere(fd, path))
  const buffer = Buffer.alloc(4096)
  const record = JSON.parse(buffer.toString("utf8", 0, NFS.readSync(fd, buffer)))
  await write(`${path}.tmp`, JSON.stringify({ ...record, ...more }, undefined, 2), fsync)
  NFS.renameSync(`${path}.tmp`, path)
  if (fsync) {
    const directory = NFS.openSync(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    await flush(directory)
    NFS.closeSync(directory)
  }
  NFS.closeSync(fd)
}

let made = 0

const oneByHand = async (root: string, day: string, fsync: boolean): Promise<void> => {
  const id = `${Date.now()}-${String(made++).padStart(8, "0")}`
  const staged = `${root}/staging/${id}`
  const dir = `${root}/runs/${day}/${id}`
  NFS.mkdirSync(staged, 0o700)
  const lease = NFS.openSync(`${staged}/lease`, create, 0o600)
  ensure(tryLock(lease, { shared: true }) && isStillThere(lease, `${staged}/lease`))
  for (const part of ["holders", "logs", "telemetry", "temp", "artifacts"]) NFS.mkdirSync(`${staged}/${part}`, 0o700)
  const startedAt = new Date().toISOString()
  const holder = { version: 1, id, role: "owner", pid: process.pid, host: "here", boot: "this", since: startedAt }
  await write(`${staged}/holders/${process.pid}.json`, JSON.stringify(holder, undefined, 2))
  const record = { version: 1, id, name: "bench", status: "running", startedAt, attempts: [{ startedAt }], tags: {} }
  await write(`${staged}/run.json`, JSON.stringify(record, undefined, 2))
  NFS.renameSync(staged, dir)
  // From here on it is there for all, and the program would run. Its outcome is written before anything is cleaned up.
  await change(dir, { status: "ok", endedAt: new Date().toISOString(), exit: { code: 0 } }, false)
  await change(dir, { releasedAt: new Date().toISOString() }, fsync)
  NFS.unlinkSync(`${dir}/holders/${process.pid}.json`)
  NFS.closeSync(lease)
}

export const byHand = (root: string, { fsync }: Options): Batch => {
  const day = new Date().toISOString().slice(0, 10)
  for (const way of [`${root}/staging`, `${root}/runs/${day}`]) NFS.mkdirSync(way, { recursive: true })
  return async (count) => {
    await Promise.all(Array.from({ length: count }, () => oneByHand(root, day, fsync)))
  }
}
