/**
 * The tables of the index and the questions that are asked of them. Each question goes down an index of its own and
 * reads no more rows than it answers with, however many there are.
 */
import * as Effect from "effect/Effect"
import { isDay, type RunId } from "../RunId.ts"
import { type IndexBroken, type Position, position, type Row, type Session, type Totals } from "../RunIndex.ts"
import {
  archiveDayFromCells,
  columns,
  dayFromCells,
  fromCells,
  idsOfDay,
  listed,
  toValues,
  whole
} from "./IndexRows.ts"
import type { Connection, Statements, Value } from "./Sqlite.ts"

/**
 * Has to change with {@link schema}; an index of another format is not read.
 *
 * @internal
 */
export const format = 2

/**
 * `ends` is the place in the order of ends: whoever claims to end in the future stands where it was first seen ended.
 * The totals are kept by triggers, since adding up is what a pass over a million bundles has no time for.
 */
const schema = `
  CREATE TABLE bundle (
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    status TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    first_seen_ended INTEGER,
    ends INTEGER NOT NULL AS (min(ended_at, coalesce(first_seen_ended, ended_at))) STORED,
    bytes INTEGER,
    failures INTEGER NOT NULL,
    trimmed INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,
    words TEXT NOT NULL
  ) STRICT;
  CREATE INDEX bundle_ends ON bundle (ends, id);
  CREATE INDEX bundle_claims ON bundle (ended_at);
  CREATE INDEX bundle_finished ON bundle (ends, id) WHERE state = 'finished';
  CREATE INDEX bundle_unmeasured ON bundle (ends, id) WHERE state = 'finished' AND bytes IS NULL;
  CREATE INDEX bundle_untrimmed ON bundle (ends, id) WHERE state = 'finished' AND trimmed = 0;
  CREATE INDEX bundle_unsettled ON bundle (looked_at, ends DESC, id DESC) WHERE state <> 'finished';

  CREATE TABLE totals (
    bundles INTEGER NOT NULL, bytes REAL NOT NULL, unmeasured INTEGER NOT NULL, unknowns INTEGER NOT NULL
  ) STRICT;
  INSERT INTO totals VALUES (0, 0, 0, 0);
  CREATE TRIGGER bundle_comes AFTER INSERT ON bundle BEGIN
    UPDATE totals SET bundles = bundles + 1, bytes = bytes + coalesce(new.bytes, 0),
      unmeasured = unmeasured + (new.state = 'finished' AND new.bytes IS NULL),
      unknowns = unknowns + (new.state = 'unknown');
  END;
  CREATE TRIGGER bundle_goes AFTER DELETE ON bundle BEGIN
    UPDATE totals SET bundles = bundles - 1, bytes = bytes - coalesce(old.bytes, 0),
      unmeasured = unmeasured - (old.state = 'finished' AND old.bytes IS NULL),
      unknowns = unknowns - (old.state = 'unknown');
  END;
  CREATE TRIGGER bundle_changes AFTER UPDATE OF bytes, state ON bundle
  WHEN new.bytes IS NOT old.bytes OR new.state <> old.state BEGIN
    UPDATE totals SET bytes = bytes + coalesce(new.bytes, 0) - coalesce(old.bytes, 0),
      unmeasured = unmeasured + (new.state = 'finished' AND new.bytes IS NULL)
        - (old.state = 'finished' AND old.bytes IS NULL),
      unknowns = unknowns + (new.state = 'unknown') - (old.state = 'unknown');
  END;

  CREATE TABLE day (day TEXT NOT NULL PRIMARY KEY, mtime TEXT NOT NULL, settled INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE archive_day (
    day TEXT NOT NULL PRIMARY KEY, mtime TEXT NOT NULL, settled INTEGER NOT NULL, archives INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE globs (key TEXT NOT NULL) STRICT;

  PRAGMA user_version = ${format};
`

/**
 * What is asked, for a test to look at how it is answered.
 *
 * @internal
 */
export const queries = {
  get: `SELECT rowid, ${columns} FROM bundle WHERE id = ?`,
  oldest: `SELECT rowid, ${columns} FROM bundle WHERE (ends, id) > (?, ?) ORDER BY ends, id LIMIT ?`,
  unsettled: `SELECT rowid, ${columns} FROM bundle WHERE state <> 'finished'
    ORDER BY looked_at, ends DESC, id DESC LIMIT ?`,
  newestFinished: `SELECT rowid, ${columns} FROM bundle WHERE state = 'finished' AND ends < ?
    ORDER BY ends DESC, id DESC LIMIT ?`,
  unmeasured: `SELECT rowid, ${columns} FROM bundle WHERE state = 'finished' AND bytes IS NULL
    ORDER BY ends DESC, id DESC LIMIT ?`,
  untrimmed: `SELECT rowid, ${columns} FROM bundle WHERE state = 'finished' AND trimmed = 0 AND (ends, id) > (?, ?)
    ORDER BY ends, id LIMIT ?`,
  count: "SELECT count(*) AS count FROM (SELECT 1 FROM bundle WHERE ends < ? LIMIT ?)",
  unfinished: `SELECT count(*) AS unfinished, count(*) FILTER (WHERE looked_at = 0) AS unread FROM bundle
    WHERE state <> 'finished'`,
  ahead: "SELECT count(*) AS ahead FROM bundle WHERE ended_at > ?",
  idsOfDay: "SELECT id FROM bundle WHERE id > ? AND id < ?",
  remove: "DELETE FROM bundle WHERE id = ?"
} as const

const put = `INSERT INTO bundle (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
  state = excluded.state, status = excluded.status, ended_at = excluded.ended_at,
  first_seen_ended = excluded.first_seen_ended, bytes = excluded.bytes, failures = excluded.failures,
  trimmed = excluded.trimmed, looked_at = excluded.looked_at, words = excluded.words`

// What stays as it is must not count as a change: a pass that learns nothing new then writes nothing.
const putDay = `INSERT INTO day VALUES (?, ?, ?) ON CONFLICT (day) DO UPDATE
  SET mtime = excluded.mtime, settled = excluded.settled
  WHERE mtime <> excluded.mtime OR settled <> excluded.settled`

/** How many rows are gone through before the event loop gets its turn. */
const piece = 1000

const inPieces = <A>(all: ReadonlyArray<A>, each: (part: ReadonlyArray<A>) => Effect.Effect<void, IndexBroken>) =>
  Effect.gen(function*() {
    for (let start = 0; start < all.length; start += piece) {
      if (start > 0) yield* Effect.yieldNow
      yield* each(all.slice(start, start + piece))
    }
  })

const limitOf = (limit: number): number => Math.max(0, whole(limit))

/** Rows that cannot be ours are deleted, and the question is asked again: a short answer would look like the last. */
const rows = (statements: Statements, sql: string, ...values: ReadonlyArray<Value>): ReadonlyArray<Row> => {
  for (;;) {
    const found = statements.all(sql, ...values)
    const answer = found.flatMap((cells) => fromCells(cells) ?? [])
    if (answer.length === found.length) return answer
    for (const cells of found) if (fromCells(cells) === undefined) statements.run(removeRow, Number(cells["rowid"]))
  }
}

const removeRow = "DELETE FROM bundle WHERE rowid = ?"

const natural = (value: unknown): number => Math.max(0, Number(value)) || 0

// == days

const days = (statements: Statements) =>
  statements.all("SELECT day, mtime, settled FROM day ORDER BY day").flatMap((cells) => {
    const day = dayFromCells(cells)
    if (day === undefined) statements.run("DELETE FROM day WHERE day IS ?", String(cells.day))
    return day ?? []
  })

const idsKnown = (connection: Connection, day: string): Effect.Effect<ReadonlyArray<string>, IndexBroken> =>
  isDay(day)
    ? connection.attempt(({ all }) => all(queries.idsOfDay, ...idsOfDay(day)).map(({ id }) => String(id)))
    : Effect.succeed([])

const removeAll = (connection: Connection, ids: ReadonlyArray<string>) =>
  inPieces(ids, (part) =>
    connection.attempt(({ run }) => {
      for (const id of part) run(queries.remove, id)
    }))

const addAll = (connection: Connection, ids: ReadonlyArray<RunId>) =>
  inPieces(ids, (part) =>
    connection.attempt(({ run }) => {
      for (const id of part) run(put, ...toValues(listed(id)))
    }))

const takeListing: (connection: Connection) => Session["putDay"] = (connection) =>
  Effect.fnUntraced(function*(day, ids) {
    const known = new Set(yield* idsKnown(connection, day.day))
    const [first, last] = idsOfDay(day.day)
    const isNew = (id: RunId) => !known.has(id) && id > first && id < last
    yield* removeAll(connection, [...known].filter((id) => !ids.has(id as RunId)))
    yield* addAll(connection, [...ids].filter(isNew))
    // Last, so that the day counts as listed only when all of its listing is here.
    const { mtimeNanos, settled } = day
    yield* connection.attempt(({ run }) => run(putDay, day.day, mtimeNanos.toString(), settled ? 1 : 0))
  })

const dropDay: (connection: Connection) => Session["dropDay"] = (connection) =>
  Effect.fnUntraced(function*(day) {
    yield* removeAll(connection, yield* idsKnown(connection, day))
    yield* connection.attempt(({ run }) => run("DELETE FROM day WHERE day = ?", day))
  })

// == archives

const archiveDays = (statements: Statements) =>
  statements.all("SELECT day, mtime, settled, archives, bytes FROM archive_day ORDER BY day").flatMap((cells) =>
    archiveDayFromCells(cells) ?? []
  )

const putArchiveDay = `INSERT INTO archive_day VALUES (?, ?, ?, ?, ?) ON CONFLICT (day) DO UPDATE
  SET mtime = excluded.mtime, settled = excluded.settled, archives = excluded.archives, bytes = excluded.bytes
  WHERE mtime <> excluded.mtime OR settled <> excluded.settled OR bytes <> excluded.bytes`

// == trims

/** What has been trimmed by other globs is not known to have been trimmed by these. */
const useGlobs = ({ get, run }: Statements, key: string) => {
  if (get("SELECT key FROM globs")?.["key"] === key) return
  run("DELETE FROM globs")
  run("INSERT INTO globs VALUES (?)", key)
  run("UPDATE bundle SET trimmed = 0 WHERE trimmed <> 0")
}

// == the session

const beginning: Position = { endedAt: Number.NEGATIVE_INFINITY, id: "" }

const totalsNow = ({ get }: Statements) => {
  const { bundles, bytes, unknowns, unmeasured } = get("SELECT bundles, bytes, unmeasured, unknowns FROM totals") ?? {}
  return {
    bundles: natural(bundles),
    bytes: natural(bytes),
    unmeasured: natural(unmeasured),
    unknowns: natural(unknowns)
  }
}

const totals = (statements: Statements, now: number): Totals => {
  const { unknowns: _, ...totals } = totalsNow(statements)
  return { ...totals, ahead: natural(statements.get(queries.ahead, now)?.["ahead"]) }
}

/**
 * A session on an open transaction, without what makes it last.
 *
 * @internal
 */
export const session = (
  connection: Connection,
  rest: { readonly kind: Session["kind"]; readonly commit: Session["commit"] }
): Session => {
  const { attempt } = connection
  const ask = (sql: string, ...values: ReadonlyArray<Value>) =>
    attempt((statements) => rows(statements, sql, ...values))
  const oldest = (after: Position | undefined, limit: number) => {
    const { endedAt, id } = after ?? beginning
    return ask(queries.oldest, endedAt, id, limitOf(limit))
  }
  return {
    ...rest,
    days: attempt(days),
    putDay: takeListing(connection),
    dropDay: dropDay(connection),
    totals: (now) => attempt((statements) => totals(statements, now)),
    get: (id) => Effect.map(ask(queries.get, id), ([row]) => row),
    unsettled: (limit) => ask(queries.unsettled, limitOf(limit)),
    oldest,
    newestFinished: (before, limit) => ask(queries.newestFinished, before, limitOf(limit)),
    unmeasured: (limit) => ask(queries.unmeasured, limitOf(limit)),
    untrimmed: (key, after, limit) =>
      attempt((statements) => {
        useGlobs(statements, key)
        const { endedAt, id } = after ?? beginning
        return rows(statements, queries.untrimmed, endedAt, id, limitOf(limit))
      }),
    archiveDays: attempt(archiveDays),
    putArchiveDay: ({ archives, bytes, day, mtimeNanos, settled }) =>
      attempt(({ run }) =>
        void run(putArchiveDay, day, mtimeNanos.toString(), settled ? 1 : 0, archives, whole(bytes))
      ),
    dropArchiveDay: (day) => attempt(({ run }) => void run("DELETE FROM archive_day WHERE day = ?", day)),
    all: Effect.gen(function*() {
      const all: Array<Row> = []
      for (let part = yield* oldest(undefined, piece);; part = yield* oldest(position(all[all.length - 1]!), piece)) {
        for (const row of part) all.push(row)
        if (part.length < piece) return all
        yield* Effect.yieldNow
      }
    }),
    put: (row) => attempt(({ run }) => void run(put, ...toValues(row))),
    remove: (id) => attempt(({ run }) => void run(queries.remove, id)),
    unknowns: attempt((statements) => totalsNow(statements).unknowns),
    unfinished: attempt(({ get }) => {
      const { unfinished, unread } = get(queries.unfinished) ?? {}
      return { all: natural(unfinished), unread: natural(unread) }
    }),
    count: ({ endedBefore }, atMost) =>
      attempt(({ get }) => natural(get(queries.count, endedBefore, limitOf(atMost))?.["count"]))
  }
}

// == transactions

/** Exclusive from the beginning, so that a commit cannot find somebody else reading. */
const beginStatement = "BEGIN EXCLUSIVE"

/**
 * Begins in a new database.
 *
 * @internal
 */
export const create = (connection: Connection): Effect.Effect<void, IndexBroken> =>
  connection.attempt(({ script }) => script(`${beginStatement}; ${schema}`))

/**
 * Begins in a database that is there.
 *
 * @internal
 */
export const begin = (connection: Connection): Effect.Effect<void, IndexBroken> =>
  connection.attempt(({ script }) => script(beginStatement))

/** @internal */
export const isOfThisFormat = (connection: Connection): Effect.Effect<boolean, IndexBroken> =>
  connection.attempt(({ get }) => get("PRAGMA user_version")?.["user_version"] === format)

/** @internal */
export const commit = (connection: Connection): Effect.Effect<void, IndexBroken> =>
  connection.attempt(({ script }) => script("COMMIT"))

/**
 * How many changes there have been since the database was opened.
 *
 * @internal
 */
export const changes = (connection: Connection): Effect.Effect<number, IndexBroken> =>
  connection.attempt(({ get }) => natural(get("SELECT total_changes() AS changes")?.["changes"]))
