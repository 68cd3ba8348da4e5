import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { createVerdict, readRecords } from '../../../test/support/guard/traffic.js';
import type { LogEntry, RecordLogOptions } from './record-log.js';
import { listSegments, readRecordLine, RecordLog, removeOldSegments } from './record-log.js';
import { replayFile } from './replay.js';

const root = mkdtempSync(join(tmpdir(), 'records-'));
afterAll(() => {
  rmSync(root, { recursive: true });
});
let folders = 0;
const freshFolder = (): string => join(root, String(folders++));

const never = Number.MAX_SAFE_INTEGER;
const optionsFor = (folder: string, rest: Partial<RecordLogOptions> = {}): RecordLogOptions => ({
  ...{ folder, segmentSize: never, segmentAge: never, retainSize: never, retainAge: never },
  flushMs: 1_000_000, // tests flush by hand
  ...rest,
});

function entryOf(id: number, rest: { tenant?: string; model?: string; atMs?: number } = {}): LogEntry {
  return {
    kind: 'request',
    verdict: createVerdict(id % 2 === 0 ? 'normal' : 'low'),
    record: {
      ...{ id: `r${id}`, model: rest.model ?? 'm', route: '/v1/completions', endedMs: rest.atMs ?? id },
      ...{ engine: 'vllm', tenant: rest.tenant ?? 'all', status: 200, ending: 'complete' },
      ...{ upstream: 'speculative', isStream: true, promptTokens: 5, completionTokens: 9 },
      ...{ firstByteMs: 3, totalMs: 10 },
      speculation: {
        ...{ evidence: 'reported', steps: 3, accepted: 6, proposed: 9, histogram: null },
        ...{ perStepAccepted: null, perStepProposed: null, draftLength: 3, isTree: false },
      },
    } as const,
  };
}

async function idsOf(folder: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const entry of readRecords(folder)) if (entry.kind === 'request') ids.push(entry.record.id);
  return ids;
}

const count = (length: number): number[] => Array.from({ length }, (_, index) => index);
const names = (from: number, to: number): string[] => count(to - from).map((index) => `r${from + index}`);

describe('the log', () => {
  it('gives back what was written, in order, over rotations and restarts', async () => {
    const folder = freshFolder();
    for (const start of [0, 50]) {
      const log = await RecordLog.open(optionsFor(folder, { segmentSize: 4000 }));
      for (const index of count(50)) {
        log.add(entryOf(start + index));
        if (index % 3 === 0) await log.flush();
      }
      await log.close();
      expect(log.lost).toBe(0);
    }
    expect((await listSegments(folder)).length).toBeGreaterThan(5);
    expect(await idsOf(folder)).toEqual(names(0, 100));
  });

  it('drops a torn last line, and lines that are none', async () => {
    const folder = freshFolder();
    const log = await RecordLog.open(optionsFor(folder));
    log.add(entryOf(0));
    log.add(entryOf(1));
    await log.close();
    const [segment] = await listSegments(folder);
    const whole = readFileSync(segment!.path, 'utf8');
    for (let cut = whole.indexOf('\n') + 1; cut < whole.length - 1; cut += 7) {
      writeFileSync(segment!.path, whole.slice(0, cut));
      expect(await replayFile(folder)).toMatchObject({ requests: 1 });
    }
    writeFileSync(segment!.path, `\u0000\u0000\n{"kind":"else"}\n[1]\nnull\n${whole}`);
    expect(await replayFile(folder)).toMatchObject({ requests: 2, unread: 4 });
  });

  it('keeps within bytes and days, and leaves files that are not its own', async () => {
    const folder = freshFolder();
    const log = await RecordLog.open(optionsFor(folder, { segmentSize: 1000, retainSize: 4000 }));
    writeFileSync(join(folder, 'notes.txt'), 'x'.repeat(9000));
    for (const index of count(40)) {
      log.add(entryOf(index));
      await log.flush();
    }
    await log.close();
    const segments = await listSegments(folder);
    expect(segments.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(4000);
    expect((await idsOf(folder)).at(-1)).toBe('r39');
    const day = 86_400_000;
    const retention = { retainSize: never, retainAge: 3 * day, segmentSize: 0 };
    await removeOldSegments(folder, retention, Date.now() + 2 * day);
    expect(await listSegments(folder)).toEqual(segments);
    await removeOldSegments(folder, retention, Date.now() + 4 * day);
    expect(readdirSync(folder)).toEqual(['notes.txt']);
  });

  it('goes on where the disk is full, counts what is lost, says so once, and recovers', async () => {
    const folder = freshFolder();
    const notices: string[] = [];
    let room = Infinity;
    const log = await RecordLog.open(
      optionsFor(folder, {
        onNotice: (message) => notices.push(message),
        openFile: async (path) => limitFile(await open(path, 'ax'), () => room),
      }),
    );
    log.add(entryOf(0));
    await log.flush();
    room = 100; // a part of a line fits
    for (const index of count(4)) {
      log.add(entryOf(1 + index));
      await log.flush();
    }
    room = Infinity;
    log.add(entryOf(5));
    await log.flush();
    await log.close();
    expect(await idsOf(folder)).toEqual(['r0', 'r5']);
    expect(log.lost).toBe(4);
    expect(notices).toHaveLength(2);
    expect(notices[0]).toContain('ENOSPC');
    expect(notices[1]).toContain('4 were lost');
  });

  it.skipIf(!existsSync('/dev/full'))(
    'goes on where the system itself says that the disk is full',
    async () => {
      const notices: string[] = [];
      const openFile = (): Promise<FileHandle> => open('/dev/full', 'w');
      const onNotice = (message: string): void => void notices.push(message);
      const log = await RecordLog.open(optionsFor(freshFolder(), { openFile, onNotice }));
      for (const index of count(3)) {
        log.add(entryOf(index));
        await log.flush();
      }
      await log.close();
      expect(log.lost).toBe(3);
      expect(notices).toHaveLength(1);
      expect(notices[0]).toContain('no space left on device');
    },
  );

  it('bounds what waits for a disk that hangs', async () => {
    const folder = freshFolder();
    let release: () => void = () => undefined;
    const hanging = new Promise<void>((resolve) => {
      release = resolve;
    });
    const openFile = async (path: string): Promise<FileHandle> => {
      await hanging;
      return open(path, 'wx');
    };
    const log = await RecordLog.open(optionsFor(folder, { openFile }));
    for (const index of count(60_000)) log.add(entryOf(index));
    expect(log.lost).toBeGreaterThan(0);
    release();
    await log.close();
    expect((await idsOf(folder)).length + log.lost).toBe(60_000);
  });
});

/** Writes as long as there is room, like a disk. */
function limitFile(file: FileHandle, room: () => number): FileHandle {
  const appendFile = async (bytes: Buffer): Promise<void> => {
    const fits = Math.min(bytes.length, room());
    await file.appendFile(bytes.subarray(0, fits));
    if (fits < bytes.length)
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  };
  return new Proxy(file, {
    get: (target, name) => {
      if (name === 'appendFile') return appendFile;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

describe('records of earlier versions', () => {
  it('stay readable', () => {
    const entry = entryOf(1);
    const record = { ...(entry.kind === 'request' ? entry.record : {}), promptPrint: [1, 2] };
    const line = { kind: 'request', record, verdict: 'usual' };
    const read = readRecordLine(JSON.stringify(line));
    expect(read).toMatchObject({ record: { id: 'r1' }, verdict: undefined });
    expect(JSON.stringify(read)).not.toContain('promptPrint');
    expect(readRecordLine('{"kind":"alarm","alarm":{}}')).toBeUndefined();
  });
});
