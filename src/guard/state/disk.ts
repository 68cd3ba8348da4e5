/** The guard's folder: records, their index, and the judge's state. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../core/files.js';
import { describeCause } from '../../core/errors.js';
import { makeFolder } from '../../core/files.js';
import type { Judge } from '../judge/judge.js';
import { parseSavedJudge } from '../judge/saved-judge.js';
import type { RecordQuery } from '../records/record-index.js';
import { RecordLog } from '../records/record-log.js';
import type { FoundRecords, RecordLookup } from '../records/record-lookup.js';

export interface Disk {
  readonly log: RecordLog;
  /** Records up to now, as far as they are indexed. */
  readonly find: (query: RecordQuery) => Promise<FoundRecords>;
  close(): Promise<void>;
}

export interface RecordSettings {
  readonly folder?: string | undefined;
  readonly segmentSize: number;
  readonly segmentAge: number;
  readonly retainSize: number;
  readonly retainAge: number;
}

export interface DiskOptions {
  readonly judge: Pick<Judge, 'save' | 'restore'>;
  readonly openLookup: (folder: string) => Promise<RecordLookup>;
  readonly onNotice: (message: string) => void;
}

const saveEveryMs = 60_000;

/** Undefined where no folder is set. */
export async function openDisk(
  records: RecordSettings,
  { judge, openLookup, onNotice }: DiskOptions,
): Promise<Disk | undefined> {
  const { folder } = records;
  if (folder === undefined) return undefined;
  await makeFolder(folder);
  const log = await RecordLog.open({
    folder,
    segmentBytes: records.segmentSize,
    segmentMs: records.segmentAge,
    retainBytes: records.retainSize,
    retainMs: records.retainAge,
    onNotice,
  });
  const lookup = await openLookup(folder).catch(async (cause: unknown) => {
    await log.close();
    throw cause;
  });
  await restoreJudge(judge, folder, onNotice);
  const timer = setInterval(() => void saveJudge(judge, folder), saveEveryMs);
  timer.unref();
  return {
    log,
    async find(query) {
      await log.flush();
      return lookup.find(query);
    },
    async close() {
      clearInterval(timer);
      await log.close();
      await saveJudge(judge, folder);
      await lookup.close();
    },
  };
}

/** Earlier versions wrote monitor.json, whose baselines cannot be converted. */
const pathIn = (folder: string): string => join(folder, 'judge.json');

/** The guard starts without a usable file; the baseline is then learned again. */
export async function restoreJudge(
  judge: Pick<Judge, 'restore'>,
  folder: string,
  onNotice: (message: string) => void,
): Promise<void> {
  try {
    judge.restore(parseSavedJudge(JSON.parse(await readFile(pathIn(folder), 'utf8'))));
  } catch (cause) {
    if (isMissing(cause)) return;
    onNotice(`The saved baseline is not used, a new one is learned: ${describeCause(cause)}`);
  }
}

/** False where the disk fails; the state stays in memory. */
export async function saveJudge(judge: Pick<Judge, 'save'>, folder: string): Promise<boolean> {
  const temporary = `${pathIn(folder)}.${process.pid}`;
  try {
    await writeFile(temporary, JSON.stringify(judge.save()), { mode: 0o600 });
    await rename(temporary, pathIn(folder));
    return true;
  } catch {
    return false;
  }
}
