/** What the guard keeps on disk: records, their index, and what the monitor has learnt. */
import { makeFolder } from '../core/files.js';
import type { GuardConfiguration } from './guard-config.js';
import type { Monitor } from './monitor.js';
import { restoreMonitor, saveMonitor } from './monitor-file.js';
import type { RecordQuery } from './record-index.js';
import { RecordLog } from './record-log.js';
import type { FoundRecords, RecordLookup } from './record-lookup.js';

export interface Disk {
  readonly log: RecordLog;
  /** What was recorded until now, as far as the index has come. */
  readonly find: (query: RecordQuery) => Promise<FoundRecords>;
  close(): Promise<void>;
}

export interface DiskOptions {
  readonly monitor: Monitor;
  readonly openLookup: (folder: string) => Promise<RecordLookup>;
  readonly onNotice: (message: string) => void;
}

const saveEveryMs = 60_000;

/** Undefined where nothing is to be kept. */
export async function openDisk(
  records: GuardConfiguration['records'],
  { monitor, openLookup, onNotice }: DiskOptions,
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
  await restoreMonitor(monitor, folder, onNotice);
  const timer = setInterval(() => void saveMonitor(monitor, folder), saveEveryMs);
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
      await saveMonitor(monitor, folder);
      await lookup.close();
    },
  };
}
