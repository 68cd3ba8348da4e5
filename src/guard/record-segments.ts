/** The files of a log: their names, and what is in them. */
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../core/files.js';
import type { LogEntry } from './record-entry.js';

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

/** Oldest first; other files of the folder are nobody's business. */
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
 * The entries of a segment from a place on. A last line without its end is of a writer that was killed, or writes just
 * now: it is left out. Lines that are no entries are passed over.
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

/** A line of a log, or undefined. Written by us, yet on a disk: its kind is checked before it is believed. */
export function parseEntry(line: string): LogEntry | undefined {
  try {
    const value = JSON.parse(line) as Partial<Record<string, unknown>> | null;
    if (typeof value !== 'object' || value === null) return undefined;
    const content = value[value.kind === 'request' ? 'record' : String(value.kind)];
    const isKnown = value.kind === 'request' || value.kind === 'alarm' || value.kind === 'action';
    return isKnown && typeof content === 'object' && content !== null ? (value as LogEntry) : undefined;
  } catch {
    return undefined;
  }
}

/** All entries of a folder, oldest first. */
export async function* readRecords(folder: string): AsyncGenerator<LogEntry> {
  for (const { path } of await listSegments(folder)) {
    for await (const { entry } of readSegment(path)) yield entry;
  }
}
