/**
 * The one door to `node:sqlite`, as far as the index needs it: one connection, one transaction after another, and one
 * error for everything that can go wrong.
 *
 * Every call holds up the event loop until it is done, so whoever has many rows to go through takes them in pieces.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as NodeSqlite from "node:sqlite"
import { IndexBroken } from "../RunIndex.ts"

/** @internal */
export type Value = string | number | null

/** @internal */
export type Cells = Readonly<Record<string, unknown>>

/**
 * Statements are prepared once for each text, so texts must be constants.
 *
 * @internal
 */
export interface Statements {
  readonly all: (sql: string, ...values: ReadonlyArray<Value>) => ReadonlyArray<Cells>
  readonly get: (sql: string, ...values: ReadonlyArray<Value>) => Cells | undefined
  /** Gives the number of rows that were changed, without those that triggers have. */
  readonly run: (sql: string, ...values: ReadonlyArray<Value>) => number
  readonly script: (sql: string) => void
}

/** @internal */
export interface Connection {
  /** Does something in one go. After the first failure nothing is done any more, and every answer is that failure. */
  readonly attempt: <A>(evaluate: (statements: Statements) => A) => Effect.Effect<A, IndexBroken>
  /** Makes something that went wrong elsewhere the failure. */
  readonly fail: (cause: unknown) => Effect.Effect<never, IndexBroken>
  readonly failure: () => IndexBroken | undefined
}

const begins = (value: unknown, beginning: string) => typeof value === "string" && value.startsWith(beginning)

/**
 * Loaded at the first need of it, so that the start of a run does not pay for it. Node 22 says on stderr that it is
 * experimental; that one sentence is swallowed, and it can only come while the module loads.
 */
const load = (): typeof NodeSqlite => {
  const emitWarning = process.emitWarning
  const others = (...args: Parameters<typeof emitWarning>) => {
    const [warning, kind] = args as ReadonlyArray<unknown>
    if (kind === "ExperimentalWarning" && begins(warning, "SQLite")) return
    emitWarning.apply(process, args)
  }
  try {
    process.emitWarning = others as typeof emitWarning
    const loaded: typeof NodeSqlite | undefined = process.getBuiltinModule("node:sqlite")
    if (loaded === undefined) throw new Error("this node has no node:sqlite")
    return loaded
  } finally {
    process.emitWarning = emitWarning
  }
}

const toStatements = (database: NodeSqlite.DatabaseSync): Statements => {
  const prepared = new Map<string, NodeSqlite.StatementSync>()
  const statement = (sql: string) => {
    const known = prepared.get(sql)
    if (known !== undefined) return known
    const made = database.prepare(sql)
    prepared.set(sql, made)
    return made
  }
  return {
    all: (sql, ...values) => statement(sql).all(...values),
    get: (sql, ...values) => statement(sql).get(...values),
    run: (sql, ...values) => Number(statement(sql).run(...values).changes),
    script: (sql) => database.exec(sql)
  }
}

/**
 * The file is only ever written by a commit: until then the pages that have changed, and what they were before, stay in
 * memory, and no journal comes to lie beside it. A process that is killed before its commit has then not touched the
 * index, and a rollback does not either. One that is killed in the middle of a commit leaves a torn file, which a
 * journal could mend; but the file would not look as it was remembered, and is not believed anyway.
 *
 * For the same reason nothing is flushed here: it is a cache, and what a power cut has torn is not believed.
 */
const settings = `
  PRAGMA busy_timeout = 100;
  PRAGMA journal_mode = MEMORY;
  PRAGMA cache_spill = OFF;
  PRAGMA temp_store = MEMORY;
  PRAGMA synchronous = OFF;
  PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA trusted_schema = OFF;
`

const connect = (path: string): NodeSqlite.DatabaseSync => {
  const { DatabaseSync } = load()
  const database = new DatabaseSync(path)
  try {
    database.exec(settings)
    return database
  } catch (cause) {
    database.close()
    throw cause
  }
}

const close = (database: NodeSqlite.DatabaseSync) => {
  try {
    database.close()
  } catch {}
}

/**
 * Opens a database, `:memory:` for one without a file. Closing it with the scope rolls back what was not committed.
 * The path must be that of a regular file of ours: a link would be followed.
 *
 * @internal
 */
export const open = (path: string): Effect.Effect<Connection, IndexBroken, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({ try: () => connect(path), catch: (cause) => new IndexBroken({ cause }) }),
    (database) => Effect.sync(() => close(database))
  ).pipe(Effect.map((database) => {
    const statements = toStatements(database)
    let broken: IndexBroken | undefined
    const breakBy = (cause: unknown) => broken ??= new IndexBroken({ cause })
    return {
      attempt: (evaluate) =>
        Effect.suspend(() =>
          broken === undefined
            ? Effect.try({ try: () => evaluate(statements), catch: breakBy })
            : Effect.fail(broken)
        ),
      fail: (cause) => Effect.suspend(() => Effect.fail(breakBy(cause))),
      failure: () => broken
    }
  }))

/**
 * What is left where there can be no database, not even in memory.
 *
 * @internal
 */
export const none = (failure: IndexBroken): Connection => ({
  attempt: () => Effect.fail(failure),
  fail: () => Effect.fail(failure),
  failure: () => failure
})

/** PERM, BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, FULL, CANTOPEN and PROTOCOL, which speak of the surroundings. */
const circumstances: ReadonlySet<number> = new Set([3, 5, 6, 7, 8, 9, 13, 14, 15])

/**
 * Whether a failure says that the content of the file is not to be relied on, and not only that this is no moment to
 * use it.
 *
 * @internal
 */
export const speaksAgainstContent = ({ cause }: IndexBroken): boolean =>
  typeof cause === "object" && cause !== null && (
    ("errcode" in cause && typeof cause.errcode === "number" && !circumstances.has(cause.errcode & 0xff)) ||
    // A number beyond those that we write.
    ("code" in cause && cause.code === "ERR_OUT_OF_RANGE")
  )
