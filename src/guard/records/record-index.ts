/**
 * An index of the segments, to find requests by time, model, tenant and verdict without reading everything. It holds the
 * offset of each line and its keys, and is rebuilt from the segments where it is missing, broken, or of another version.
 * SQLite blocks its thread, and a line costs as much as proxying a request, so lines are indexed in small batches. After a
 * burst of traffic the index lags behind for a while.
 */
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Database as SqliteDatabase, JSValue } from 'node-sqlite3-wasm';
import sqlite from 'node-sqlite3-wasm';
import { meanAcceptedLength } from '../observation.js';
import type { LogEntry } from './record-schema.js';
import { parseEntry } from './record-schema.js';
import { listSegments, readSegment, type ReadEntry } from './record-segments.js';

export interface RecordQuery {
  readonly kind?: LogEntry['kind'];
  readonly fromMs?: number;
  readonly toMs?: number;
  readonly model?: string;
  readonly tenant?: string;
  readonly verdict?: string;
  /** Newest first. */
  readonly limit?: number;
}

const version = 2;
const schema = `
  CREATE TABLE segments (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, indexed INTEGER NOT NULL);
  CREATE TABLE entries (
    segment INTEGER NOT NULL REFERENCES segments(id) ON DELETE CASCADE,
    start INTEGER NOT NULL, bytes INTEGER NOT NULL,
    kind TEXT NOT NULL, at INTEGER NOT NULL, model TEXT, tenant TEXT, verdict TEXT, length REAL,
    PRIMARY KEY (segment, start)
  ) WITHOUT ROWID;
  CREATE INDEX by_time ON entries (kind, at);
  PRAGMA user_version = ${version};
`;
/** Per batch: some hundred microseconds. */
const linesAtOnce = 50;
const maxFound = 1000;

export class RecordIndex {
  private working: Promise<void> | undefined;
  private isClosed = false;
  private hasMore = false;

  private constructor(
    private readonly folder: string,
    private database: SqliteDatabase,
  ) {}

  static async open(folder: string): Promise<RecordIndex> {
    const path = join(folder, 'index.sqlite');
    try {
      return new RecordIndex(folder, openDatabase(path));
    } catch {
      for (const suffix of ['', '-journal', '-wal', '-shm', '.lock']) {
        await rm(path + suffix, { force: true, recursive: true });
      }
      return new RecordIndex(folder, openDatabase(path));
    }
  }

  /** Whether there are lines that are not indexed yet. */
  get isBehind(): boolean {
    return this.hasMore;
  }

  /** Indexes new lines of the segments, up to a limit, and drops removed segments. */
  async catchUp(maxLines = Infinity): Promise<void> {
    while (this.working !== undefined) await this.working;
    if (this.isClosed) return;
    this.working = this.read(maxLines).finally(() => {
      this.working = undefined;
    });
    await this.working;
  }

  /** Reads the lines from the segments; removed ones are left out. */
  async find(query: RecordQuery = {}): Promise<LogEntry[]> {
    const { sql, values } = compose(query);
    const rows = this.database.all(sql, values) as unknown as readonly {
      readonly name: string;
      readonly start: number;
      readonly bytes: number;
    }[];
    const files = new Map<string, Awaited<ReturnType<typeof open>> | undefined>();
    const entries: LogEntry[] = [];
    try {
      for (const { name, start, bytes } of rows) {
        if (!files.has(name)) {
          files.set(name, await open(join(this.folder, name)).catch(() => undefined));
        }
        const line = Buffer.alloc(bytes);
        await files.get(name)?.read(line, 0, bytes, start);
        const entry = parseEntry(line.toString());
        if (entry !== undefined) entries.push(entry);
      }
    } finally {
      for (const file of files.values()) await file?.close();
    }
    return entries;
  }

  async close(): Promise<void> {
    this.isClosed = true;
    await this.working;
    this.database.close();
  }

  private async read(maxLines: number): Promise<void> {
    const segments = await listSegments(this.folder);
    const known = new Map(
      (
        this.database.all('SELECT id, name, indexed FROM segments') as unknown as readonly {
          readonly id: number;
          readonly name: string;
          readonly indexed: number;
        }[]
      ).map((segment) => [segment.name, segment]),
    );
    for (const { name } of segments.filter((segment) => !known.has(segment.name))) {
      this.database.run('INSERT INTO segments (name, indexed) VALUES (?, 0)', name);
      const { id } = this.database.get('SELECT id FROM segments WHERE name = ?', name) as unknown as {
        readonly id: number;
      };
      known.set(name, { id, name, indexed: 0 });
    }
    for (const [name, { id }] of known) {
      if (segments.some((segment) => segment.name === name)) continue;
      this.database.run('DELETE FROM entries WHERE segment = ?', id);
      this.database.run('DELETE FROM segments WHERE id = ?', id);
    }
    let left = maxLines;
    // The newest first: they are looked up most.
    for (const { name, path, bytes } of segments.toReversed()) {
      const { id, indexed } = known.get(name)!;
      if (bytes > indexed && left > 0) left -= await this.readFrom(path, id, indexed, left);
    }
    this.hasMore = left <= 0;
  }

  /** Returns the number of lines read. */
  private async readFrom(path: string, segment: number, start: number, maxLines: number): Promise<number> {
    let batch: ReadEntry[] = [];
    let lines = 0;
    for await (const entry of readSegment(path, start)) {
      if (this.isClosed) return lines;
      batch.push(entry);
      lines++;
      if (lines >= maxLines) break;
      if (batch.length < linesAtOnce) continue;
      this.insert(segment, batch);
      batch = [];
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (!this.isClosed) this.insert(segment, batch);
    return lines;
  }

  private insert(segment: number, batch: readonly ReadEntry[]): void {
    const last = batch.at(-1);
    if (last === undefined) return;
    const { database } = this;
    const statement = database.prepare('INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)');
    database.exec('BEGIN');
    try {
      for (const { entry, start, end } of batch)
        statement.run([segment, start, end - start, ...keysOf(entry)]);
      database.run('UPDATE segments SET indexed = ? WHERE id = ?', [last.end, segment]);
      database.exec('COMMIT');
    } catch (cause) {
      database.exec('ROLLBACK');
      throw cause;
    } finally {
      statement.finalize();
    }
  }
}

/** kind, at, model, tenant, verdict, length */
function keysOf(entry: LogEntry): JSValue[] {
  switch (entry.kind) {
    case 'request': {
      const { endedMs, model, tenant, speculation } = entry.record;
      const length = speculation === null ? null : meanAcceptedLength(speculation);
      return ['request', endedMs, model, tenant, entry.verdict.name, length];
    }
    case 'alert': {
      const { atMs, model, tenant, cause } = entry.alert;
      return ['alert', atMs, model, tenant, cause, null];
    }
    case 'action': {
      const { atMs, model, tenant, change } = entry.action;
      return ['action', atMs, model, tenant, change, null];
    }
  }
}

function compose(query: RecordQuery): { sql: string; values: JSValue[] } {
  const conditions: [string, JSValue | undefined][] = [
    ['kind = ?', query.kind],
    ['at >= ?', query.fromMs],
    ['at <= ?', query.toMs],
    ['entries.model = ?', query.model],
    ['entries.tenant = ?', query.tenant],
    ['verdict = ?', query.verdict],
  ];
  const given = conditions.filter(([, value]) => value !== undefined);
  const where = given.length === 0 ? '' : `WHERE ${given.map(([text]) => text).join(' AND ')}`;
  const limit = Math.min(query.limit ?? 100, maxFound);
  return {
    sql: `SELECT name, start, bytes FROM entries JOIN segments ON segments.id = segment ${where}
          ORDER BY at DESC, name DESC, start DESC LIMIT ${limit}`,
    values: given.map(([, value]) => value!),
  };
}

function openDatabase(path: string): SqliteDatabase {
  const database = new sqlite.Database(path);
  try {
    // It can be rebuilt from the segments, so writes need not wait for the disk.
    database.exec(
      'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -8192;',
    );
    const { user_version: found } = database.get('PRAGMA user_version') as unknown as {
      readonly user_version: number;
    };
    const tables = database.all("SELECT name FROM sqlite_master WHERE type = 'table'");
    if (found === 0 && tables.length === 0) database.exec(schema);
    else if (found !== version) throw new Error(`The index has version ${found}.`);
    else database.all('SELECT count(*) FROM entries JOIN segments ON segments.id = segment LIMIT 1');
    return database;
  } catch (cause) {
    database.close();
    throw cause;
  }
}
