/** The files of a log: names, contents, search, and removal of old ones. */
import { open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isFolder, isMissing } from '../../core/files.js';
import { type LogEntry, parseEntry } from './record-schema.js';

export interface SegmentFile {
  readonly name: string;
  readonly path: string;
  readonly begunMs: number;
  readonly bytes: number;
  /** When it was last written. */
  readonly changedMs: number;
}

const nameForm = /^records-(\d{13})-(\d+)-(\d+)\.jsonl$/;

/** Names sort by time. */
export function segmentName(begunMs: number, processId: number, count: number): string {
  return `records-${String(begunMs).padStart(13, '0')}-${processId}-${count}.jsonl`;
}

/** Oldest first; other files of the folder are ignored. */
export async function listSegments(folder: string): Promise<SegmentFile[]> {
  const orNothing = (cause: unknown): undefined => {
    if (!isMissing(cause)) throw cause; // another process may have removed it
  };
  const names = (await readdir(folder).catch(orNothing)) ?? [];
  const found = names.map(async (name): Promise<SegmentFile | undefined> => {
    const [, begun] = nameForm.exec(name) ?? [];
    const path = join(folder, name);
    const file = begun === undefined ? undefined : await stat(path).catch(orNothing);
    return file && { name, path, begunMs: Number(begun), bytes: file.size, changedMs: file.mtimeMs };
  });
  const segments = (await Promise.all(found)).filter((segment) => segment !== undefined);
  return segments.sort((one, other) => one.begunMs - other.begunMs || (one.name < other.name ? -1 : 1));
}

/** The lines of a file, or of all segments of a folder, oldest first. */
export async function* readLines(path: string): AsyncGenerator<string> {
  const files = isFolder(path) ? (await listSegments(path)).map((segment) => segment.path) : [path];
  for (const file of files) yield* (await open(file)).readLines();
}

export interface RecordQuery {
  readonly kind?: LogEntry['kind'] | undefined;
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
  readonly model?: string | undefined;
  readonly tenant?: string | undefined;
  readonly verdict?: string | undefined;
  readonly limit?: number | undefined;
}

/** Values that are not numbers or kinds are left out. */
export function readQuery(parameters: URLSearchParams): RecordQuery {
  const number = (name: string): number | undefined => {
    const value = Number(parameters.get(name) ?? Number.NaN);
    return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const text = (name: string): string | undefined => parameters.get(name) ?? undefined;
  return {
    ...{ fromMs: number('from'), toMs: number('to'), limit: number('limit') },
    ...{ model: text('model'), tenant: text('tenant'), verdict: text('verdict') },
    kind: (['request', 'alert', 'action'] as const).find((each) => each === text('kind')),
  };
}

export interface FoundRecords {
  /** Newest first. */
  readonly entries: readonly LogEntry[];
  /** Older records were not searched. */
  readonly isBehind: boolean;
}

const maxFound = 1000;
const maxSearchedBytes = 256 << 20;
const blockBytes = 128 << 10;

/** Reads segments backwards, so recent records are found without an index. */
export async function findRecords(folder: string, query: RecordQuery = {}): Promise<FoundRecords> {
  const limit = Math.min(query.limit ?? 100, maxFound);
  const { model, tenant, verdict } = query;
  const wanted = [model, tenant, verdict].flatMap((text) => (text === undefined ? [] : JSON.stringify(text)));
  const entries: LogEntry[] = [];
  let searched = 0;
  for (const { path } of (await listSegments(folder)).reverse()) {
    for await (const line of linesBackwards(path)) {
      if (entries.length >= limit) return { entries, isBehind: false };
      searched += line.length;
      if (searched > maxSearchedBytes) return { entries, isBehind: true };
      if (!wanted.every((text) => line.includes(text))) continue; // cheaper than parsing
      const entry = parseEntry(line);
      if (entry !== undefined && matches(entry, query)) entries.push(entry);
    }
  }
  return { entries, isBehind: false };
}

function matches(
  entry: LogEntry,
  { kind, fromMs = -Infinity, toMs = Infinity, ...query }: RecordQuery,
): boolean {
  const [about, atMs, verdict] =
    entry.kind === 'request'
      ? [entry.record, entry.record.endedMs, entry.verdict.name]
      : entry.kind === 'alert'
        ? [entry.alert, entry.alert.atMs, entry.alert.cause]
        : [entry.action, entry.action.atMs, entry.action.change];
  return (
    (kind === undefined || kind === entry.kind) &&
    (query.model === undefined || query.model === about.model) &&
    (query.tenant === undefined || query.tenant === about.tenant) &&
    (query.verdict === undefined || query.verdict === verdict) &&
    atMs >= fromMs &&
    atMs <= toMs
  );
}

/** An unfinished last line is left out: its writer was killed or is still writing. */
async function* linesBackwards(path: string): AsyncGenerator<string> {
  const file = await open(path);
  try {
    let rest: Buffer = Buffer.alloc(0); // the beginning of what was read, up to its first line
    for (let end = (await file.stat()).size; end > 0; end = Math.max(0, end - blockBytes)) {
      const start = Math.max(0, end - blockBytes);
      const block = Buffer.alloc(end - start);
      await file.read(block, 0, block.length, start);
      const bytes = Buffer.concat([block, rest]);
      const cut = start === 0 ? 0 : bytes.indexOf(10) + 1;
      rest = cut === 0 ? bytes : bytes.subarray(0, cut);
      if (cut > 0 || start === 0) yield* bytes.toString('utf8', cut).split('\n').slice(0, -1).reverse();
    }
  } finally {
    await file.close();
  }
}

export interface Retention {
  readonly retainSize: number;
  readonly retainAge: number;
  /** Max size of the next segment, for which room is made. */
  readonly segmentSize: number;
}

/** Removes the oldest until the rest and the next segment fit. Returns the names of those removed. */
export async function removeOldSegments(
  folder: string,
  { retainSize, retainAge, segmentSize }: Retention,
  nowMs: number,
): Promise<string[]> {
  const segments = await listSegments(folder);
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  const removed: string[] = [];
  for (const { name, path, bytes, changedMs } of segments) {
    const isOld = retainAge > 0 && nowMs - changedMs > retainAge;
    if (!isOld && total + segmentSize <= retainSize) break;
    await rm(path, { force: true });
    total -= bytes;
    removed.push(name);
  }
  return removed;
}
