import { rm } from 'node:fs/promises';
import { listSegments } from './record-segments.js';

export interface Retention {
  readonly retainBytes: number;
  readonly retainMs: number;
  /** What the segment that is begun next may grow to: room is made for it beforehand. */
  readonly segmentBytes: number;
}

/** The oldest go first, until what is left, and the segment to come, fit. Returns the names of those that went. */
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
