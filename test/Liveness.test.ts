import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { Holder } from "../src/Holder.ts"
import { decide, Doubt, type Evidence, Liveness, LockEvidence } from "../src/Liveness.ts"
import type { RunId } from "../src/RunId.ts"
import { RecordError, type RunRecord, type Timestamp } from "../src/RunRecord.ts"

const at = "2026-11-30T14:22:33.123Z" as Timestamp

const record = (status: RunRecord["status"]): RunRecord => ({
  version: 1,
  id: "20261130T142233123Z-k3f9x2mq" as RunId,
  name: "build",
  status,
  startedAt: at,
  attempts: [],
  tags: {}
})

const holder = (over: Partial<Holder> = {}): Holder => ({
  version: 1,
  id: "1-abc",
  role: "owner",
  pid: 1,
  host: "here",
  boot: "boot-1",
  machine: "machine-1",
  inode: "7",
  since: at,
  ...over
})

const named = (over: Partial<Holder> = {}) => ({ _tag: "Named" as const, holder: holder(over) })

const taken = LockEvidence.Taken({ inode: 7n })

const evidence = (over: Partial<Evidence> = {}): Evidence => ({
  lock: taken,
  holders: [],
  record: Result.succeed(record("ok")),
  boot: "boot-1",
  machine: "machine-1",
  localFileSystem: true,
  ...over
})

const answer = (over: Partial<Evidence>): string => {
  const liveness = decide(evidence(over))
  return liveness._tag === "Unknown" ? `Unknown ${liveness.doubt._tag}` : liveness._tag
}

const unusable = (reason: RecordError["reason"]) => Result.fail(new RecordError({ reason }))
const running = Result.succeed(record("running"))
const terminal = Result.succeed(record("ok"))

describe("the liveness table", () => {
  const rows: ReadonlyArray<readonly [string, Partial<Evidence>, string]> = [
    ["record terminal, lease held", { lock: LockEvidence.Refused({ by: "holder" }), record: terminal }, "Live"],
    ["record running, lease held", { lock: LockEvidence.Refused({ by: "holder" }), record: running }, "Live"],
    ["record unreadable, lease held", {
      lock: LockEvidence.Refused({ by: "holder" }),
      record: unusable({ _tag: "Missing" })
    }, "Live"],
    ["record running, lease free, holder of this kernel", { record: running, holders: [named()] }, "Dead"],
    ["record running, lease free, no holder", { record: running }, "Dead"],
    ["record terminal, lease free", { record: terminal }, "Dead"],
    ["older layout: terminal, no lease, no holder", { lock: LockEvidence.Absent(), record: terminal }, "Dead"],
    ["terminal, no lease, but a holder file", {
      lock: LockEvidence.Absent(),
      record: terminal,
      holders: [named()]
    }, "Unknown LeaseMissing"],
    ["not terminal, no lease", { lock: LockEvidence.Absent(), record: running }, "Unknown LeaseMissing"],
    ["lease is a link", { lock: LockEvidence.NotAFile({ kind: "link" }) }, "Unknown LeaseNotAFile"],
    ["lease is a FIFO", { lock: LockEvidence.NotAFile({ kind: "fifo" }) }, "Unknown LeaseNotAFile"],
    ["lease is a directory", { lock: LockEvidence.NotAFile({ kind: "directory" }) }, "Unknown LeaseNotAFile"],
    ["lease is unreadable", { lock: LockEvidence.Unusable({ code: "EACCES" }) }, "Unknown LeaseUnusable"],
    ["locks unsupported", { lock: LockEvidence.Unusable({ code: "ENOLCK" }) }, "Unknown LeaseUnusable"],
    ["lease of another user", { lock: LockEvidence.NotOurs() }, "Unknown LeaseNotOurs"],
    ["lease replaced after the lock", { lock: LockEvidence.Replaced() }, "Unknown LeaseReplaced"],
    ["a holder file names another inode", { holders: [named({ inode: "8" })] }, "Unknown LeaseReplaced"],
    ["record missing", { record: unusable({ _tag: "Missing" }) }, "Unknown RecordUnusable"],
    ["record malformed", { record: unusable({ _tag: "Malformed", detail: "x" }) }, "Unknown RecordUnusable"],
    ["record of a newer version", { record: unusable({ _tag: "NewerVersion", version: 2 }) }, "Unknown RecordUnusable"],
    ["no record and no lease", {
      lock: LockEvidence.Absent(),
      record: unusable({ _tag: "Missing" })
    }, "Unknown RecordUnusable"],
    ["pid reused, host renamed, another container of this kernel", {
      record: running,
      holders: [named({ pid: process.pid, host: "elsewhere", machine: "container" })]
    }, "Dead"],
    ["same machine after a reboot, local file system", { holders: [named({ boot: "boot-0" })] }, "Dead"],
    ["same machine after a reboot, network file system", {
      holders: [named({ boot: "boot-0" })],
      localFileSystem: false
    }, "Unknown ForeignHolder"],
    ["other machine, holder file still there", {
      holders: [named({ boot: "boot-9", machine: "machine-9" })]
    }, "Unknown ForeignHolder"],
    ["other machine, no holder file left", { localFileSystem: false }, "Dead"],
    ["no boot id, same machine, local file system", { holders: [named({ boot: "unknown" })] }, "Dead"],
    ["no boot ids, network file system", {
      holders: [named({ boot: "unknown" })],
      boot: "unknown",
      localFileSystem: false
    }, "Unknown ForeignHolder"],
    ["neither knows its machine", {
      holders: [named({ boot: "boot-0", machine: "unknown" })],
      machine: "unknown"
    }, "Unknown ForeignHolder"],
    ["a holder file that cannot be read", {
      holders: [{ _tag: "Illegible", file: "x.json", why: "empty" }]
    }, "Unknown IllegibleHolder"],
    ["a dead holder beside a foreign one", {
      holders: [named(), named({ boot: "boot-9", machine: "machine-9" })]
    }, "Unknown ForeignHolder"]
  ]
  it.each(rows)("%s", (_, over, expected) => assert.strictEqual(answer(over), expected))

  it("only a free lock or the older layout is ever Dead, whatever the rest says", () => {
    const locks = [
      LockEvidence.Refused({ by: "holder" }),
      LockEvidence.Absent(),
      LockEvidence.NotAFile({ kind: "directory" }),
      LockEvidence.NotOurs(),
      LockEvidence.Replaced(),
      LockEvidence.Unusable({ code: "EIO" })
    ]
    const records = [terminal, running, unusable({ _tag: "Missing" })]
    const traces = [[], [named()], [named({ boot: "boot-0" })]]
    for (const lock of locks) {
      for (const given of records) {
        for (const holders of traces) {
          const isOlderLayout = lock._tag === "Absent" && given === terminal && holders.length === 0
          const liveness = decide(evidence({ lock, record: given, holders }))
          assert.strictEqual(Liveness.$is("Dead")(liveness), isOlderLayout, `${lock._tag} ${holders.length}`)
        }
      }
    }
  })

  it("names the holders of a live run and the doubt about an unknown one", () => {
    const live = decide(evidence({ lock: LockEvidence.Refused({ by: "holder" }), holders: [named({ pid: 4711 })] }))
    assert.deepStrictEqual(live, Liveness.Live({ holders: [holder({ pid: 4711 })] }))
    const unknown = decide(evidence({ lock: LockEvidence.Unusable({ code: "EIO" }) }))
    assert.deepStrictEqual(unknown, Liveness.Unknown({ doubt: Doubt.LeaseUnusable({ code: "EIO" }) }))
  })
})
