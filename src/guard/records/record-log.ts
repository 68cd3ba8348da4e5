/**
 * Records on disk: lines of JSON in append-only segments. Lines wait at most a second in memory and are then written
 * together. A failed write is truncated to the last whole line; its lines are counted as lost and reported once. Processes
 * never write into each other's segments, so several may share a folder.
 */
import { type FileHandle, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describeCause } from '../../core/errors.js';
import { makeFolder, openToWrite } from '../../core/durable-files.js';
import { isFolder, isMissing } from '../../core/files.js';
import { parseJsonText, toLogLine } from '../../core/json-text.js';
import { describeFault } from '../../core/schema.js';
import type { GuardConfiguration } from '../guard-config.js';
import { type ActionEvent, type Alert, type Verdict, verdictNames } from '../judge/verdict.js';
import { type Observation, observationSchema } from '../observation.js';

export type LogEntry =
  | { readonly kind: 'request'; readonly record: Observation; readonly verdict: Verdict }
  | { readonly kind: 'alert'; readonly alert: Alert }
  | { readonly kind: 'action'; readonly action: ActionEvent };

export interface RecordLogOptions extends Omit<GuardConfiguration['records'], 'folder'> {
  readonly folder: string;
  readonly flushMs?: number;
  /** Called once for a run of failures, and once when they end. */
  readonly onNotice?: (message: string) => void;
  /** For tests: opens a segment. */
  readonly openFile?: (path: string) => Promise<FileHandle>;
}

const createSegment = (path: string): Promise<FileHandle> => openToWrite(path, 'new', 'private');

interface Segment {
  readonly file: FileHandle;
  readonly begunMs: number;
  bytes: number;
}

/** Lines beyond this are written without waiting for the timer. */
const flushCharacters = 1 << 20;
/** Where the disk is slower than the requests, lines are dropped rather than kept in memory. */
const maxWaiting = 16 << 20;

export class RecordLog {
  lost = 0;
  private lines: string[] = [];
  private waiting = 0;
  private segment: Segment | undefined;
  private count = 0;
  private working: Promise<void> | undefined;
  private hasFailed = false;
  private isClosed = false;
  private readonly timer: NodeJS.Timeout;

  private constructor(private readonly options: RecordLogOptions) {
    this.timer = setInterval(() => {
      if (this.working === undefined) void this.flush();
    }, options.flushMs ?? 1000);
    this.timer.unref();
  }

  static async open(options: RecordLogOptions): Promise<RecordLog> {
    await makeFolder(options.folder);
    await removeOldSegments(options.folder, options, Date.now());
    return new RecordLog(options);
  }

  add(entry: LogEntry): void {
    if (this.isClosed) return;
    if (this.waiting > maxWaiting) {
      this.lost++;
      return;
    }
    const line = toLogLine(entry);
    this.lines.push(line);
    this.waiting += line.length;
    if (this.waiting > flushCharacters && this.working === undefined) void this.flush();
  }

  /** Writes the waiting lines; never fails. */
  async flush(): Promise<void> {
    // One write at a time; later callers wait for a write that includes their lines.
    while (this.working !== undefined) await this.working;
    if (this.lines.length === 0) return;
    this.working = this.write();
    await this.working;
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
    this.isClosed = true;
    await this.closeSegment();
  }

  private async write(): Promise<void> {
    const { lines } = this;
    this.lines = [];
    this.waiting = 0;
    try {
      const segment = await this.segmentToWrite();
      const bytes = Buffer.from(lines.join(''));
      await segment.file.appendFile(bytes).catch(async (cause: unknown) => {
        await segment.file.truncate(segment.bytes).catch(() => undefined);
        throw cause;
      });
      segment.bytes += bytes.byteLength;
      if (this.hasFailed) this.options.onNotice?.(`Records are written again; ${this.lost} were lost.`);
      this.hasFailed = false;
    } catch (cause) {
      this.lost += lines.length;
      const message = `Records cannot be written (${describeCause(cause)}). Requests continue; lost records are counted.`;
      if (!this.hasFailed) this.options.onNotice?.(message);
      this.hasFailed = true;
    } finally {
      this.working = undefined;
    }
  }

  private async segmentToWrite(): Promise<Segment> {
    const { folder, segmentSize, segmentAge, openFile = createSegment } = this.options;
    const now = Date.now();
    const { segment } = this;
    const isOld = segment !== undefined && segmentAge > 0 && now - segment.begunMs >= segmentAge;
    if (segment !== undefined && segment.bytes < segmentSize && !isOld) return segment;
    await this.closeSegment();
    await removeOldSegments(folder, this.options, now);
    const file = await openFile(join(folder, segmentName(now, process.pid, this.count++)));
    return (this.segment = { file, begunMs: now, bytes: 0 });
  }

  private async closeSegment(): Promise<void> {
    const { segment } = this;
    this.segment = undefined;
    // The lines were counted as written before; nothing more can be done for them.
    await segment?.file.sync().catch(() => undefined);
    await segment?.file.close().catch(() => undefined);
  }
}

/** A line of a log, or an observation without one; undefined for entries that are no requests. */
export function readRecordLine(text: string) {
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (cause) {
    return { fault: describeCause(cause) };
  }
  const { kind, record, verdict } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (kind === 'alert' || kind === 'alarm' || kind === 'action') return undefined;
  const parsed = observationSchema.safeParse(kind === 'request' ? record : value);
  if (parsed.success) {
    const recorded = verdict as Verdict | null | undefined;
    const isKnown = verdictNames.some((name) => name === recorded?.name);
    return { record: parsed.data as Observation, verdict: isKnown ? recorded! : undefined };
  }
  const { place, fault } = describeFault(parsed.error);
  return { fault: `${place || 'the line'}: ${fault}` };
}

const nameForm = /^records-(\d{13})-(\d+)-(\d+)\.jsonl$/;

/** Names sort by time. */
export function segmentName(begunMs: number, processId: number, count: number): string {
  return `records-${String(begunMs).padStart(13, '0')}-${processId}-${count}.jsonl`;
}

/** Oldest first; other files of the folder are ignored. */
export async function listSegments(folder: string) {
  const orNothing = (cause: unknown): undefined => {
    if (!isMissing(cause)) throw cause; // another process may have removed it
  };
  const names = (await readdir(folder).catch(orNothing)) ?? [];
  const found = names.map(async (name) => {
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

/** Removes the oldest until the rest and the next segment fit. */
export async function removeOldSegments(
  folder: string,
  { retainSize, retainAge, segmentSize }: Omit<GuardConfiguration['records'], 'folder' | 'segmentAge'>,
  nowMs: number,
): Promise<void> {
  const segments = await listSegments(folder);
  let total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes, changedMs } of segments) {
    const isOld = retainAge > 0 && nowMs - changedMs > retainAge;
    if (!isOld && total + segmentSize <= retainSize) break;
    await rm(path, { force: true });
    total -= bytes;
  }
}
