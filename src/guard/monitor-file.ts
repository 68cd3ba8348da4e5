/** What the monitor has learnt, over a restart: one file, replaced as a whole. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../core/files.js';
import { describeCause } from '../core/errors.js';
import type { Monitor } from './monitor.js';

const pathIn = (folder: string): string => join(folder, 'monitor.json');

/** A file that is not usable is no reason not to start: the baseline is learnt anew. */
export async function restoreMonitor(
  monitor: Monitor,
  folder: string,
  onNotice: (message: string) => void,
): Promise<void> {
  try {
    monitor.restore(JSON.parse(await readFile(pathIn(folder), 'utf8')));
  } catch (cause) {
    if (isMissing(cause)) return;
    onNotice(`What was learnt before is not used, the baseline begins anew: ${describeCause(cause)}`);
  }
}

/** False where the disk refuses; what is learnt stays in memory. */
export async function saveMonitor(monitor: Monitor, folder: string): Promise<boolean> {
  const temporary = `${pathIn(folder)}.${process.pid}`;
  try {
    await writeFile(temporary, JSON.stringify(monitor.save()), { mode: 0o600 });
    await rename(temporary, pathIn(folder));
    return true;
  } catch {
    return false;
  }
}
