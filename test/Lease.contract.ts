/** What every lease layer must keep, whatever its locks are made of. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as NFS from "node:fs"
import { Lease, type Target } from "../src/Lease.ts"
import * as RunStore from "../src/RunStore.ts"
import { directory } from "./support/Worker.ts"

const reason = Effect.match({
  onSuccess: () => "granted",
  onFailure: (error: { readonly reason: { readonly _tag: string } }) => error.reason._tag
})

export const leaseContract = (name: string, layer: Layer.Layer<Lease>): void => {
  const withBundle = <A, E>(test: (target: Target, lease: Lease["Service"]) => Effect.Effect<A, E, Scope.Scope>) =>
    Effect.scoped(Effect.gen(function*() {
      const root = `${yield* directory}/store`
      const run = Effect.gen(function*() {
        const store = yield* RunStore.RunStore
        const lease = yield* Lease
        const { dir, id } = yield* Effect.scoped(store.create({ name: "x", tags: {} }))
        return yield* test({ id, dir }, lease)
      })
      const store = RunStore.layerWithoutLease({ root, allowTemp: true })
      return yield* Effect.provide(run, Layer.provideMerge(store, layer))
    }))

  const look = (target: Target, lease: Lease["Service"]) => Effect.map(lease.probe(target), (liveness) => liveness._tag)

  describe(`the contract of leases: ${name}`, () => {
    it.live("a free lease can be claimed, and says so to a look", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* look(target, lease), "Dead")
          const claim = yield* lease.claim(target)
          assert.strictEqual(claim.record.id, target.id)
        })
      ))

    it.live("while it is held there is no claim, and after the last holder there is", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          const first = yield* Scope.make()
          const second = yield* Scope.make()
          yield* Scope.provide(lease.hold(target, { role: "owner" }), first)
          yield* Scope.provide(lease.hold(target, { role: "joined" }), second)
          yield* Scope.close(first, Exit.void)
          assert.strictEqual(yield* look(target, lease), "Live")
          assert.strictEqual(yield* reason(Effect.scoped(lease.claim(target))), "Held")
          yield* Scope.close(second, Exit.void)
          assert.strictEqual(yield* reason(Effect.scoped(lease.claim(target))), "granted")
        })
      ))

    it.live("while it is claimed there is neither a lease nor a second claim", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          yield* lease.claim(target)
          const hold = lease.hold(target, { role: "joined", patience: "20 millis" })
          assert.strictEqual(yield* reason(Effect.scoped(hold)), "Claimed")
          assert.strictEqual(yield* reason(Effect.scoped(lease.claim(target))), "Held")
        })
      ))

    it.live("holding waits for a claim that ends, and can be interrupted while it waits", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          const claim = yield* Scope.make()
          yield* Scope.provide(lease.claim(target), claim)
          const hold = Effect.scoped(lease.hold(target, { role: "joined", patience: "1 minute" }))
          const waiting = yield* Effect.forkChild(hold)
          const giving = yield* Effect.forkChild(hold)
          yield* Effect.yieldNow
          yield* Fiber.interrupt(giving)
          yield* Scope.close(claim, Exit.void)
          assert.isTrue(Exit.isSuccess(yield* Fiber.await(waiting)))
        })
      ))

    it.live("a claim turned into a lease keeps claimants and a second resumer out, and lets others join", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          const owner = yield* Scope.make()
          const { record } = yield* Scope.provide(lease.resume(target), owner)
          assert.strictEqual(record.id, target.id)
          assert.strictEqual(yield* reason(Effect.scoped(lease.resume(target))), "Held")
          assert.strictEqual(yield* reason(Effect.scoped(lease.claim(target))), "Held")
          yield* Effect.scoped(lease.hold(target, { role: "joined" }))
          yield* Scope.close(owner, Exit.void)
          assert.strictEqual(yield* look(target, lease), "Dead")
        })
      ))

    it.live("of twenty that resume at once one goes and nineteen are told that it is held", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          for (let round = 0; round < 20; round++) {
            const done = yield* Deferred.make<void>()
            let decided = 0
            // The winner stays until everybody has had an answer.
            const resume = Effect.scoped(Effect.gen(function*() {
              const answer = yield* reason(lease.resume(target))
              if (++decided === 20) yield* Deferred.succeed(done, undefined)
              if (answer === "granted") yield* Deferred.await(done)
              return answer
            }))
            const answers = yield* Effect.all(Array.from({ length: 20 }, () => resume), { concurrency: "unbounded" })
            assert.strictEqual(answers.filter((answer) => answer === "granted").length, 1)
            assert.strictEqual(answers.filter((answer) => answer === "Held").length, 19)
          }
        })
      ))

    it.live("looking leaves nothing behind", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          const before = NFS.readdirSync(target.dir, { recursive: true })
          for (let index = 0; index < 5; index++) yield* lease.probe(target)
          assert.deepStrictEqual(NFS.readdirSync(target.dir, { recursive: true }), before)
          yield* lease.hold(target, { role: "joined", patience: "1 second" })
        })
      ))

    it.live("a record that cannot be read makes the answer unknown, and held stays held", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          NFS.writeFileSync(`${target.dir}/run.json`, "{")
          assert.strictEqual(yield* look(target, lease), "Unknown")
          assert.strictEqual(yield* reason(Effect.scoped(lease.claim(target))), "Undecided")
          yield* lease.hold(target, { role: "joined" })
          assert.strictEqual(yield* look(target, lease), "Live")
        })
      ))

    it.live("many holders, lookers and claimants at once never make two claims or a claim beside a holder", () =>
      withBundle((target, lease) =>
        Effect.gen(function*() {
          let claims = 0
          let holders = 0
          let granted = 0
          const claim = Effect.scoped(Effect.gen(function*() {
            yield* lease.claim(target)
            granted++
            assert.strictEqual(++claims, 1)
            assert.strictEqual(holders, 0)
            yield* Effect.yieldNow
            claims--
          })).pipe(Effect.ignore)
          const hold = Effect.scoped(Effect.gen(function*() {
            yield* lease.hold(target, { role: "joined" })
            holders++
            assert.strictEqual(claims, 0)
            yield* Effect.yieldNow
            holders--
          }))
          const all = Array.from({ length: 60 }, (_, index) =>
            index % 3 === 0 ? hold : index % 3 === 1 ? claim : lease.probe(target))
          yield* Effect.all(all, { concurrency: "unbounded", discard: true })
          yield* claim
          assert.isAbove(granted, 0)
        })
      ))
  })
}
