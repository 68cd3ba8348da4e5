/**
 * Records on disk: lines of JSON in append-only segments. Lines wait at most a second in memory and are then written
 * together. A failed write is truncated to the last whole line; its lines are counted as lost and reported once. Processes
 * never write into each other's segments, so several may share a folder.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { describeCause } from '../../core/errors.js';
import { makeFolder } from '../../core/files.js';
import type { GuardConfiguration } from '../guard-config.js';
import type { LogEntry } from './record-segments.js';
import { removeOldSegments, segmentName } from './record-segments.js';

export interface RecordLogOptions extends Omit<GuardConfiguration['records'], 'folder'> {
  readonly folder: string;
  readonly flushMs?: number;
  /** Called once for a run of failures, and once when they end. */
  readonly onNotice?: (message: string) => void;
  /** For tests: opens a segment. */
  readonly openFile?: (path: string) => Promise<FileHandle>;
}

const createSegment = (path: string): Promise<FileHandle> => open(path, 'ax', 0o600);

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
    const line = `${JSON.stringify(entry)}\n`;
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
