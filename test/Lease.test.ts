import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { Errno } from "../src/internal/Errno.ts"
import { Kernel } from "../src/internal/Kernel.ts"
import { Locks, native } from "../src/internal/Locks.ts"
import * as KernelLease from "../src/KernelLease.ts"
import { Lease, type LeaseError, type Target } from "../src/Lease.ts"
import { describeLiveness } from "../src/Liveness.ts"
import * as RunStore from "../src/RunStore.ts"
import * as TestLayers from "../src/testing/TestLayers.ts"
import { leaseContract } from "./Lease.contract.ts"
import { once, watch } from "./support/Doors.ts"

leaseContract("kernel locks", KernelLease.layer)
leaseContract("within a process", TestLayers.layerLease)

const withBundle = <A, E, R>(test: (target: Target, lease: Lease["Service"]) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const store = yield* RunStore.RunStore
    const lease = yield* Lease
    const { dir, id } = yield* Effect.scoped(store.create({ name: "x", tags: {} }))
    return yield* test({ id, dir }, lease)
  }).pipe(Effect.scoped, Effect.provide(TestLayers.layerStore))

const reasonOf = <A, R>(effect: Effect.Effect<A, { readonly reason: { readonly _tag: string } }, R>) =>
  Effect.map(Effect.flip(effect), (error) => error.reason._tag)

describe("kernel leases", () => {
  it.live("hold fails with the claimant named when a long verb does not end in time", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        yield* lease.claim(target, { announce: true })
        const error = yield* Effect.flip(Effect.scoped(lease.hold(target, { role: "joined", patience: "10 millis" })))
        assert.include(error.message, `pid ${process.pid}`)
        assert.include(error.message, "(claim)")
      })
    ))

  it.live("a refused claim names who holds it", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        yield* lease.hold(target, { role: "owner" })
        const error = yield* Effect.flip(Effect.scoped(lease.claim(target)))
        assert.include(error.message, `in use by pid ${process.pid}`)
      })
    ))

  it.live("who goes on with a run is named before anybody can be refused for its lease", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        let named: unknown
        const isTheMoment = (call: string) => call === "tryDowngrade"
        const step = Effect.sync(() => void (named = NFS.readdirSync(`${target.dir}/holders`).length))
        yield* watch(once(isTheMoment, step))(lease.resume(target))
        assert.strictEqual(named, 1)
      })
    ))

  it.live("a claim that failed keeps nobody out, though its caller goes on", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        NFS.writeFileSync(`${target.dir}/holders/odd.json`, "{")
        assert.strictEqual(yield* reasonOf(lease.claim(target)), "Undecided")
        assert.strictEqual(yield* reasonOf(lease.claimBare(target)), "Undecided")
        assert.strictEqual(yield* reasonOf(lease.resume(target)), "Undecided")
        NFS.rmSync(`${target.dir}/holders`, { recursive: true })
        NFS.writeFileSync(`${target.dir}/holders`, "")
        assert.strictEqual(yield* reasonOf(lease.hold(target, { role: "joined" })), "System")
        NFS.rmSync(`${target.dir}/holders`)
        assert.strictEqual((yield* lease.probe(target))._tag, "Dead")
      })
    ))

  it.live("half a bundle gets a directory for the names of those who hold it", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const named = Effect.sync(() => NFS.readdirSync(`${target.dir}/holders`).length)
        const ways: ReadonlyArray<Effect.Effect<unknown, LeaseError, Scope.Scope>> = [
          lease.claim(target, { announce: true }),
          lease.hold(target, { role: "joined" }),
          lease.resume(target)
        ]
        for (const way of ways) {
          NFS.rmSync(`${target.dir}/holders`, { recursive: true })
          assert.strictEqual(yield* Effect.scoped(Effect.andThen(way, named)), 1)
        }
        NFS.rmdirSync(`${target.dir}/holders`)
        NFS.symlinkSync("nowhere", `${target.dir}/holders`)
        for (const [nth, way] of ways.entries()) {
          // Who claims reads the names of others first.
          assert.strictEqual(yield* reasonOf(Effect.scoped(way)), nth === 1 ? "System" : "Undecided")
        }
        assert.isFalse(NFS.existsSync(`${target.dir}/nowhere`))
      })
    ))

  it.effect("waits for other processes in their time, not in the test's", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        yield* Effect.all([store.pin(target.id, "a"), store.pin(target.id, "b"), store.unpin(target.id)], {
          concurrency: "unbounded"
        })
        const looks = yield* Effect.all(Array.from({ length: 6 }, () => lease.probe(target)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(new Set(looks.map(({ _tag }) => _tag)), new Set(["Dead"]))
      })
    ))

  it.live("bug 33: a lease file that was replaced keeps nobody's lock, and its holder learns it", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const held = yield* lease.hold(target, { role: "owner" })
        NFS.rmSync(`${target.dir}/lease`)
        NFS.writeFileSync(`${target.dir}/lease`, "")
        assert.strictEqual((yield* lease.probe(target))._tag, "Unknown")
        assert.strictEqual(yield* reasonOf(Effect.scoped(lease.claim(target))), "Undecided")
        assert.strictEqual(yield* reasonOf(held.check), "LeaseLost")
        assert.strictEqual(yield* reasonOf(Effect.scoped(held.share)), "LeaseLost")
      })
    ))

  it.live("a file replaced between opening and locking is not taken for the lease", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const swapping = {
          ...native,
          tryExclusive: (fd: number, path: string) => {
            NFS.rmSync(path)
            NFS.writeFileSync(path, "")
            return native.tryExclusive(fd, path)
          }
        }
        const liveness = yield* Effect.provideService(lease.probe(target), Locks, swapping)
        assert.include(describeLiveness(liveness), "replaced")
      })
    ))

  it.live("a bundle that was removed is gone, for holders and claimants", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        NFS.rmSync(target.dir, { recursive: true })
        assert.strictEqual(yield* reasonOf(Effect.scoped(lease.hold(target, { role: "joined" }))), "RunGone")
        assert.strictEqual(yield* reasonOf(Effect.scoped(lease.claim(target))), "RunGone")
      })
    ))

  it.live("an older bundle without a lease gets one with its first claim", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        yield* store.update(target.id, (record) => ({ ...record, status: "ok" }))
        NFS.rmSync(`${target.dir}/lease`)
        assert.strictEqual((yield* lease.probe(target))._tag, "Dead")
        assert.isFalse(NFS.existsSync(`${target.dir}/lease`))
        yield* lease.claim(target)
        assert.strictEqual(yield* reasonOf(Effect.scoped(lease.claim(target))), "Held")
      })
    ))

  it.live.each(["EACCES", "ENOSYS", "EIO", "ENOLCK"])(
    "bug 14: %s from a lock call is unknown, never dead",
    (code) =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          const refuse = (_: number, path: string) =>
            Effect.fail(new Errno({ code, call: "lock", path, cause: undefined }))
          const broken = { tryShared: refuse, tryExclusive: refuse, tryDowngrade: refuse }
          const liveness = yield* Effect.provideService(lease.probe(target), Locks, broken)
          assert.strictEqual(liveness._tag, "Unknown")
          assert.include(describeLiveness(liveness), code)
        })
      )
  )

  it.live("bug 23: a lock call that never answers is given up", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const hanging = {
          tryShared: () => Effect.never,
          tryExclusive: () => Effect.never,
          tryDowngrade: () => Effect.never,
          timeout: "100 millis"
        } as const
        const liveness = yield* Effect.provideService(lease.probe(target), Locks, hanging)
        assert.include(describeLiveness(liveness), "ETIMEDOUT")
      })
    ))

  it.live("bugs 17, 18, 21: a pid in use and another host name do not keep a dead run", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          yield* lease.hold(target, { role: "owner" })
          const [file = ""] = NFS.readdirSync(`${target.dir}/holders`)
          const path = `${target.dir}/holders/${file}`
          const holder = JSON.parse(NFS.readFileSync(path, "utf8"))
          for (const pid of [1, process.pid, process.ppid]) {
            const left = { ...holder, id: `left-${pid}`, pid, host: "old-host" }
            NFS.writeFileSync(`${target.dir}/holders/left-${pid}.json`, JSON.stringify(left))
          }
        }))
        assert.strictEqual(NFS.readdirSync(`${target.dir}/holders`).length, 3)
        assert.strictEqual((yield* lease.probe(target))._tag, "Dead")
        yield* lease.claim(target)
      })
    ))

  it.live("a holder of another machine is not proved dead by a free lock", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const kernel = yield* Kernel
        const elsewhere = { ...kernel, boot: "another-boot", machine: "another-machine" }
        const left = yield* Effect.scoped(Effect.gen(function*() {
          yield* Effect.provideService(lease.hold(target, { role: "owner" }), Kernel, elsewhere)
          const [file = ""] = NFS.readdirSync(`${target.dir}/holders`)
          return [file, NFS.readFileSync(`${target.dir}/holders/${file}`)] as const
        }))
        NFS.writeFileSync(`${target.dir}/holders/${left[0]}`, left[1])
        const liveness = yield* lease.probe(target)
        assert.strictEqual(liveness._tag, "Unknown")
        assert.include(describeLiveness(liveness), "another kernel")
      })
    ))

  it.live("ten lookers at once at a free lease do not take one another for its holder", () =>
    withBundle((target, lease) =>
      Effect.gen(function*() {
        const looks = yield* Effect.all(Array.from({ length: 10 }, () => lease.probe(target)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(new Set(looks.map((look) => look._tag)), new Set(["Dead"]))
      })
    ))
})
