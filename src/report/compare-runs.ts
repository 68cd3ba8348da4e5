/** Two finished runs side by side, from their folders: what `mistletoe compare` does. */
import { compareAudits } from './comparison.js';
import type { Comparison } from './comparison-record.js';
import { readFinishedRun } from './finished-run.js';

/**
 * @example
 * const { drafters } = await compareRuns('runs/before', 'runs/after');
 */
export async function compareRuns(before: string, after: string): Promise<Comparison> {
  return compareAudits(await readFinishedRun(before), await readFinishedRun(after));
}
