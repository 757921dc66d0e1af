/**
 * Every safety that has a line of its own, taken away by an edit of that line; and the tests that are there so that
 * nobody takes it away.
 */

export interface Mutant {
  /** What is missing then. */
  readonly name: string
  readonly file: string
  /** Each text is there exactly once, and is replaced by the other. */
  readonly edits: ReadonlyArray<readonly [from: string, to: string]>
  /** In each of these files a test fails. */
  readonly tests: ReadonlyArray<string>
}

const mutant = (
  name: string,
  file: string,
  tests: ReadonlyArray<string>,
  ...edits: ReadonlyArray<readonly [from: string, to: string]>
): Mutant => ({ name, file: `src/${file}`, tests: tests.map((test) => `test/${test}.test.ts`), edits })

export const mutants: ReadonlyArray<Mutant> = [
  // == leases
  mutant("the inode of a lease is looked at after locking", "internal/LeaseFile.ts", ["Lease"], [
    "Result.isFailure(there) || !sameFile(there.success, info)",
    "Result.isFailure(there)"
  ]),
  mutant("whose file a lease is", "internal/LeaseFile.ts", ["LeaseDoubts"], [
    "if (info.uid !== kernel.uid) return without(LockEvidence.NotOurs())",
    ""
  ]),
  mutant("a lease is a regular file", "internal/LeaseFile.ts", ["RunStore"], [
    "if (info.kind !== \"file\") return without(LockEvidence.NotAFile({ kind: info.kind }))",
    ""
  ]),
  mutant("a lock that cannot be had for want of locks is none", "internal/LeaseFile.ts", ["Lease"], [
    "Effect.catch((errno) => Effect.succeed(without(LockEvidence.Unusable({ code: errno.code }))))",
    "Effect.catch(() => Effect.succeed(without(LockEvidence.Absent())))"
  ]),
  mutant("no record is read through a link", "internal/Files.ts", ["RunStore"], [
    "read: O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)",
    "read: O_RDONLY | (O_NONBLOCK ?? 0)"
  ]),
  mutant("a holder that locked another file is a doubt", "Liveness.ts", ["Liveness"], [
    "if (trace.holder.inode !== String(inode)) return Doubt.LeaseReplaced()",
    ""
  ]),
  mutant("a holder of another kernel is a doubt", "Liveness.ts", ["Liveness"], [
    "if (!isProvedDead(trace.holder, evidence)) return Doubt.ForeignHolder({ holder: trace.holder })",
    ""
  ]),
  mutant("two kernels that say unknown are not the same", "Liveness.ts", ["Liveness"], [
    "(known(boot) && holder.boot === boot)",
    "holder.boot === boot"
  ]),
  mutant("a run that says running and has no lease is a doubt", "Liveness.ts", ["Liveness"], [
    "isTerminal(record.success) && evidence.holders.length === 0",
    "evidence.holders.length === 0"
  ]),
  mutant("a child has a lock of its own", "KernelLease.ts", ["Lease", "processes/Lifetime"], [
    "const { evidence, locked: second } = yield* take(dir, \"shared\")",
    "const evidence = { _tag: \"Taken\" } as LockEvidence\n      const second = locked as Attempt[\"locked\"]"
  ]),
  mutant("a downgrade in which somebody came in between gives up", "KernelLease.ts", ["LeaseDoubts"], [
    "if (!kept) return yield* refuse(target, LeaseReason.Held({ holders: [] }))",
    ""
  ]),
  mutant("an owner learns that his lease was replaced", "KernelLease.ts", ["Lease"], [
    "if (!sameFile(there.success, locked.info)) return yield* lost",
    ""
  ]),

  // == runs
  mutant("the lease is there before anything else", "internal/BundleBuilder.ts", ["model/Walk"], [
    "const lease = yield* place.lease.create({ id, dir: staged }, { role: \"owner\", unprotected: draft.unprotected })\n  for",
    "const unleased = { role: \"owner\", unprotected: draft.unprotected } as const\n  for"
  ], [
    "  const record = recordOf(id, draft, lease)\n  yield* RecordFile.create(staged, record)",
    "  const record = recordOf(id, draft, { protected: true } as Held)\n  yield* RecordFile.create(staged, record)\n" +
    "  const lease = yield* place.lease.create({ id, dir: staged }, unleased)"
  ]),
  mutant("the hooks are over before the lease goes", "Run.ts", ["Run"], [
    "const hooks = yield* Scope.fork(lifetime, \"sequential\")",
    "const hooks = yield* Scope.make(\"sequential\")"
  ], [
    "yield* current.finish(exit).pipe(\n        Effect.ensuring(\n          Scope.close(hooks, exit)",
    "yield* Effect.andThen(current.finish(exit), Scope.close(lifetime, exit)).pipe(\n" +
    "        Effect.ensuring(\n          Scope.close(hooks, exit)"
  ]),
  mutant("the outcome is written before the hooks", "Run.ts", ["Run"], [
    "yield* current.finish(exit).pipe(",
    "yield* Effect.void.pipe("
  ]),
  mutant("a hook that dies changes no outcome", "Run.ts", ["Run"], [
    "Effect.catchCause((cause) => Effect.logError(\"a clean-up hook failed\", cause)),",
    ""
  ]),
  mutant("the final record is flushed", "internal/RunSession.ts", ["LeaseDoubts"], [
    "yield* orRemember(write((record) => ({ ...record, releasedAt }), true))",
    "yield* orRemember(write((record) => ({ ...record, releasedAt })))"
  ]),
  mutant("a record is replaced whole", "internal/io.ts", ["model/Walk"], [
    "yield* files.rename(temporary, path).pipe(",
    "yield* Effect.ignore(files.unlink(path))\n    yield* writeNew(path, text)\n" +
    "    yield* Effect.andThen(files.unlink(temporary), Effect.void).pipe("
  ]),
  mutant("who changes a record locks the one that is there", "internal/RecordLock.ts", ["LeaseDoubts"], [
    "return Result.isSuccess(there) && sameFile(info, there.success) ? { fd, info } : undefined",
    "return Result.isSuccess(there) ? { fd, info } : undefined"
  ]),
  mutant("a lock that failed is not one that was granted", "internal/RecordLock.ts", ["LeaseDoubts"], [
    "({ code }) => cannotLock(code)",
    "() => true"
  ]),
  mutant("a record of a newer version is not written over", "internal/RecordFile.ts", ["LeaseDoubts"], [
    "error.reason._tag === \"NewerVersion\" || error.reason._tag === \"NotAFile\" ? undefined : known",
    "known"
  ]),

  // == removal
  mutant("the record is read again under the claim", "internal/Withdrawal.ts", ["RunRemoval"], [
    "const record = yield* Effect.fromResult(yield* RecordFile.read(dir))",
    "const record = claim.record"
  ]),
  mutant("nobody changes the record while its bundle goes", "internal/Withdrawal.ts", ["model/Walk"], [
    "yield* RecordLock.takeIfOpen(dir, { brief: until !== undefined })",
    ""
  ]),
  mutant("a pin keeps", "RetentionFacts.ts", ["RetentionDecision", "Retention"], [
    "if (facts.pinned) return KeepReason.Pinned({ detail: facts.pinReason ?? \"\" })",
    ""
  ]),
  mutant("what is live is kept, whatever selects it", "RetentionFacts.ts", ["RetentionDecision"], [
    "if (state === \"live\") return KeepReason.Live()",
    ""
  ]),
  mutant("what is not known is kept", "RetentionFacts.ts", ["RetentionDecision"], [
    "return KeepReason.Unknown({ detail })",
    "return undefined"
  ]),
  mutant("a bundle leaves by one rename", "internal/Trash.ts", ["model/Walk", "RunRemoval"], [
    "const move = files.rename(dir, `${trash}/${id}-${yield* nonce}`)",
    "const move = files.removeOwnTree(dir)"
  ]),
  mutant("nothing goes into a trash that is a link", "internal/Trash.ts", ["RetentionClaims"], [
    "} else if (there.success.kind !== \"directory\") {",
    "} else if (there.success.kind === \"file\") {"
  ]),
  mutant("what is removed was claimed", "retention/Acting.ts", ["RetentionClaims"], [
    "const claim = yield* pass.lease.claim({ id: row.id, dir: pass.store.dir(row.id) })",
    "const claim = yield* pass.lease.claim({ id: row.id, dir: pass.store.dir(row.id) }).pipe(\n" +
    "    Effect.catchIf((error) => error.reason._tag === \"Held\", () =>\n" +
    "      Effect.succeed({ target: { id: row.id, dir: pass.store.dir(row.id) } } as never))\n  )"
  ]),
  mutant("a decision is asked again of the record as it is", "retention/Acting.ts", ["Retention"], [
    "if (keep === undefined) return undefined",
    "if (keep !== undefined || keep === undefined) return undefined"
  ]),
  mutant("what a run made outside is undone before it goes", "internal/Withdrawal.ts", ["OutsideResources"], [
    "if (next !== undefined) return { _tag: \"Undo\", next } as const",
    ""
  ]),
  mutant("there is one pass at a time", "retention/PassLock.ts", ["RetentionClaims"], [
    "return yield* Effect.orElseSucceed(locks.tryExclusive(fd.success, path), () => true)",
    "return yield* Effect.as(Effect.ignore(locks.tryExclusive(fd.success, path)), true)"
  ]),
  mutant("a policy that says nothing removes nothing", "RetentionDecision.ts", ["RetentionDecision"], [
    "if (!hasLimits(policy) && hasKeepRules(policy)) wantAll",
    "if (!hasLimits(policy)) wantAll"
  ]),
  mutant("a clock that is ahead costs others nothing", "RetentionDecision.ts", ["RetentionDecision"], [
    "if (!item.clockAhead && !goes(item)) over += weigh(item)",
    "if (!goes(item)) over += weigh(item)"
  ]),
  mutant("who resumed meanwhile is younger than was decided on", "RetentionDecision.ts", ["RetentionDecision"], [
    "if (end > endOf(decidedOn, now)) return KeepReason.Changed()",
    ""
  ]),
  mutant("a pin in a broken record counts", "RunRemoval.ts", ["RunRemoval"], [
    "return hasPin(head.success) ? RemovalReason.PerhapsPinned() : undefined",
    "return undefined"
  ]),
  mutant("half a record of a newer version counts", "RunRemoval.ts", ["RunRemoval"], [
    "if (version > knownVersion) return RemovalReason.NewerVersion({ version })",
    ""
  ]),

  // == deletion
  mutant("mounts are not crossed", "internal/Tree.ts", ["TrashSweepShapes"], [
    "isMounted(name)\n      ? Effect.fail(new Barred({ why: \"a mount point\" }))\n      : byDescriptor",
    "byDescriptor"
  ], [
    "if (info.dev !== topInfo.dev || (yield* Mounts.idOf(fd)) !== mount) {",
    "if (mount === \"none\") {"
  ]),
  mutant("links are not followed into", "internal/Files.ts", ["TrashSweepShapes"], [
    "anchor: (process.platform === \"linux\" ? 0o10000000 : O_RDONLY) | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0)",
    "anchor: (process.platform === \"linux\" ? 0o10000000 : O_RDONLY) | (O_DIRECTORY ?? 0)"
  ]),
  mutant("a sweep ends in time", "TrashSweep.ts", ["TrashSweep"], [
    "if (until !== undefined && (yield* Clock.currentTimeMillis) >= until) isLate = true",
    ""
  ]),
  mutant("a trash of any size is gone through in parts", "internal/TrashQueue.ts", ["Crowds"], [
    "if (fresh.length >= maxRemembered || work.isSpent()) return true",
    "if (fresh.length >= 1e9) return true"
  ]),

  // == trims and archives
  mutant("a trim says so first", "internal/Trimming.ts", ["RunTrimUnfinished"], [
    "yield* write(claim, TrimHistory.begin(before, plan))\n  // The lock",
    "// The lock"
  ]),
  mutant("a pinned run is not trimmed", "internal/Trimming.ts", ["RunTrim"], [
    "pin === undefined ? Effect.void : refuse(id, TrimReason.Pinned({ reason: pin.reason }))",
    "pin === undefined || id !== undefined ? Effect.void : refuse(id, TrimReason.Pinned({ reason: pin.reason }))"
  ]),
  mutant("an archive is read back", "archive/Archiving.ts", ["ArchiveDrafts"], [
    "const { digest, record } = yield* Reading.readWhole(source)",
    "const digest = packed?.digest\n    const record = Result.succeed(yield* Reading.readRecord(source))"
  ]),
  mutant("an archive is flushed before its bundle goes", "archive/Archiving.ts", ["RunArchiveFaults"], [
    "yield* Effect.andThen(files.futimes(fd, endedAt, draft), files.fsync(fd, draft)).pipe(asError(target, draft))",
    "yield* files.futimes(fd, endedAt, draft).pipe(asError(target, draft))"
  ]),
  mutant("an archive is in its place for good before its bundle goes", "archive/Archiving.ts", ["ArchiveRefusals"], [
    "return yield* syncDirectory(Place.dayOf(root, id)).pipe(",
    "return yield* Effect.ignore(syncDirectory(Place.dayOf(root, id))).pipe("
  ]),
  mutant("a bundle is in its place for good before its archive goes", "archive/Restoring.ts", ["ArchiveRefusals"], [
    "Effect.andThen(flush, Place.remove(root, id))",
    "Effect.andThen(Effect.ignore(flush), Place.remove(root, id))"
  ]),
  mutant("what cannot be looked at has not gone", "internal/io.ts", ["ArchiveRefusals", "RetentionArchiveLimits"], [
    "code === \"ENOENT\" || code === \"ENOTDIR\"",
    "code !== \"\""
  ]),
  mutant("nothing comes between packing and going", "archive/Archiving.ts", ["RunArchiveRefusals"], [
    "Effect.succeed(pinned(found) ?? (isPacked(found) ? undefined : ArchiveReason.Changed()))",
    "Effect.succeed(isPacked(found) ? undefined : undefined)"
  ]),
  mutant("an archive that is written is locked", "archive/Archiving.ts", ["ArchiveDrafts"], [
    "if (!(yield* locks.tryExclusive(fd, path))) return yield* asBusy(target.id)",
    "if (locks === undefined) return yield* asBusy(target.id)"
  ]),
  mutant("the lock of an archive is that of the file at its path", "internal/ArchivePlace.ts", ["ArchiveDrafts"], [
    "there !== undefined && sameFile(there, info) ? { fd, path, info } : \"absent\"",
    "there !== undefined ? { fd, path, info } : \"absent\""
  ]),
  mutant("there is a lease before the first restored file", "archive/Restoring.ts", ["model/Walk"], [
    "const held = yield* tentatively(lay(store, id, staged)).pipe(",
    "const held = yield* tentatively(Effect.andThen(\n" +
    "      makeDirectoryIn(`${root}/staging`, staged),\n" +
    "      Effect.andThen(\n        Effect.ignore(unpack({ id, fd, path, linksOut }, staged)),\n" +
    "        store.lease.create({ id, dir: staged }, { role: \"owner\" })\n      )\n    )).pipe("
  ]),
  mutant("a restored run is as young as its restoring", "archive/Restoring.ts", ["RetentionClaims"], [
    "yield* Effect.andThen(Place.writeMark(root, id, at), publish(staged, dir(id))).pipe(",
    "yield* Effect.andThen(Effect.succeed(at), publish(staged, dir(id))).pipe("
  ]),
  mutant("an archive goes after its bundle has come", "archive/Restoring.ts", ["model/Walk"], [
    "const at = timestamp(yield* DateTime.now)",
    "const at = timestamp(yield* DateTime.now)\n    yield* Effect.ignore(Place.remove(root, id))"
  ]),
  mutant(
    "an archive writes nowhere but in its bundle",
    "archive/ArchiveEntry.ts",
    ["ArchiveEntry", "HostileArchives"],
    [
      "if (parts.some(isDots)) return \"its path has . or .. in it\"",
      ""
    ]
  ),
  mutant("links that lead out of the bundle are refused", "archive/ArchiveEntry.ts", ["ArchiveEntry"], [
    "if (target[0] === slash) return true",
    ""
  ]),
  mutant("an archive beside a removed bundle goes with it", "internal/Withdrawal.ts", ["RunArchiveRefusals"], [
    "if (archived !== true && record.id === id) yield* ArchivePlace.discard(root, id)",
    ""
  ]),
  mutant("what a crash left of an archive goes under its lock", "internal/ArchivePlace.ts", [
    "RunArchiveRefusals",
    "model/Walk"
  ], [
    "if ((yield* look(root, id)) === undefined || (yield* removeAlone(root, id))) return",
    "if (nth === 0) return yield* remove(root, id)"
  ]),

  // == stores
  mutant("a root that others may write to is refused", "internal/StoreRoot.ts", ["RunStore"], [
    "(info.mode & 0o022) !== 0",
    "(info.mode & 0o022) === -1"
  ]),
  mutant("a root of another user is refused", "internal/StoreRoot.ts", ["RunStore"], [
    "if (info.uid !== kernel.uid) {",
    "if (info.uid === -1) {"
  ]),
  mutant("a store of a newer format is left alone", "internal/StoreRoot.ts", ["RunStore"], [
    "({ version }) => version > formatVersion)",
    "({ version }) => version > 9 ** 9)"
  ]),
  mutant("an id from outside never comes near a path", "RunId.ts", ["RunId"], [
    "export const isRunId = (text: string): text is RunId => !Number.isNaN(instantOf(text))",
    "export const isRunId = (text: string): text is RunId => text.length > 20"
  ]),

  // == what others have put there
  mutant("a log with a second name is not written on", "internal/OwnFile.ts", ["Planted"], [
    "kind === \"file\" && nlink <= 1 && uid === user",
    "kind === \"file\" && uid === user"
  ]),
  mutant("an index with a second name is not written to", "internal/IndexFile.ts", ["Planted"], [
    "if (held.nlink > 1) return yield* refuse(\"index.db has a second name\")",
    ""
  ]),
  mutant("no bundle is published behind a link", "internal/BundleBuilder.ts", ["Planted", "RunStore"], [
    "  yield* checkWay(day.slice(0, day.lastIndexOf(\"/\")))\n  yield* checkWay(day)\n",
    ""
  ]),
  mutant("no holder is read or written behind a link", "internal/io.ts", ["Planted"], [
    "yield* requireDirectory(path).pipe(\n      Effect.andThen(eachEntry(path, take)),",
    "yield* eachEntry(path, take).pipe("
  ]),
  mutant("the last whole copy of a run stays", "retention/Archives.ts", ["RetentionArchiveLimits"], [
    "if (beside === \"something\") return \"kept\"",
    ""
  ])
]
