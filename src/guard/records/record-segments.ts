/** The files of a log: names, contents, and removal of old ones. */
import { createReadStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../core/files.js';
import type { LogEntry } from './record-schema.js';
import { parseEntry } from './record-schema.js';

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
  const names = await readdir(folder).catch((cause: unknown) => {
    if (isMissing(cause)) return [];
    throw cause;
  });
  const found = names.map(async (name): Promise<SegmentFile | undefined> => {
    const [, begun] = nameForm.exec(name) ?? [];
    if (begun === undefined) return undefined;
    const path = join(folder, name);
    try {
      const { size, mtimeMs } = await stat(path);
      return { name, path, begunMs: Number(begun), bytes: size, changedMs: mtimeMs };
    } catch (cause) {
      if (isMissing(cause)) return undefined; // another process tidied up
      throw cause;
    }
  });
  const segments = (await Promise.all(found)).filter((segment) => segment !== undefined);
  return segments.sort((one, other) => one.begunMs - other.begunMs || (one.name < other.name ? -1 : 1));
}

export interface ReadEntry {
  readonly entry: LogEntry;
  /** Of the line in its segment; the next line begins at `end`. */
  readonly start: number;
  readonly end: number;
}

/**
 * The entries of a segment from an offset. An unfinished last line is left out: its writer was killed or is still writing.
 * Lines that are not entries are skipped.
 */
export async function* readSegment(path: string, start = 0): AsyncGenerator<ReadEntry> {
  let rest: Buffer = Buffer.alloc(0);
  let place = start;
  for await (const piece of createReadStream(path, { start })) {
    rest = rest.length === 0 ? (piece as Buffer) : Buffer.concat([rest, piece as Buffer]);
    let from = 0;
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10, from)) {
      const entry = parseEntry(rest.toString('utf8', from, at));
      const end = place + at + 1 - from;
      if (entry !== undefined) yield { entry, start: place, end };
      place = end;
      from = at + 1;
    }
    rest = rest.subarray(from);
  }
}

/** All entries of a folder, oldest first. */
export async function* readRecords(folder: string): AsyncGenerator<LogEntry> {
  for (const { path } of await listSegments(folder)) {
    for await (const { entry } of readSegment(path)) yield entry;
  }
}

export interface Retention {
  readonly retainBytes: number;
  readonly retainMs: number;
  /** Max size of the next segment, for which room is made. */
  readonly segmentBytes: number;
}

/** Removes the oldest until the rest and the next segment fit. Returns the names of those removed. */
export async function removeOldSegments(
  folder: string,
  { retainBytes, retainMs, segmentBytes }: Retention,
  nowMs: number,
): Promise<string[]> {
  const segments = await listSegments(folder);
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  const removed: string[] = [];
  for (const { name, path, bytes, changedMs } of segments) {
    const isOld = retainMs > 0 && nowMs - changedMs > retainMs;
    if (!isOld && total + segmentBytes <= retainBytes) break;
    await rm(path, { force: true });
    total -= bytes;
    removed.push(name);
  }
  return removed;
}
