/** A download as progress: how much of how much, how long the rest will take, how fast it is, which file. */
import { formatBytes } from '../core/byte-size.js';
import type { DownloadOptions } from '../checkpoint/hub/hub-download.js';
import type { ProgressClock } from './audit-progress.js';
import { roughDuration } from './audit-progress.js';
import type { Progress } from './progress.js';

/** Bytes come in pieces of some kilobytes: programs that read events are told of a thousandth at a time. */
const tellings = 1000;

export interface DownloadDisplay extends Required<Pick<DownloadOptions, 'onStart' | 'onProgress'>> {
  /** Says nothing where nothing had to be fetched. */
  readonly end: (summary?: string) => void;
}

export function createDownloadProgress(
  progress: Progress,
  name: string,
  { now }: ProgressClock,
): DownloadDisplay {
  let hasBegun = false;
  let totalBytes = 0;
  let toldBytes = 0;
  let toldFile: string | undefined;
  /** Where this attempt began: what an earlier one has brought says nothing about how fast this one is. */
  let first: { readonly bytes: number; readonly time: number } | undefined;
  const measureSpeed = (doneBytes: number): number | undefined => {
    if (first === undefined || doneBytes <= first.bytes) return undefined;
    const milliseconds = now() - first.time;
    return milliseconds > 0 ? (doneBytes - first.bytes) / milliseconds : undefined;
  };
  return {
    onStart(bytes) {
      hasBegun = true;
      totalBytes = bytes;
      progress.start(bytes, `download ${name}`, formatBytes);
    },
    onProgress({ file, doneBytes }) {
      first ??= { bytes: doneBytes, time: now() };
      const isNews =
        file !== toldFile || doneBytes - toldBytes >= totalBytes / tellings || doneBytes === totalBytes;
      if (!isNews) return;
      toldBytes = doneBytes;
      toldFile = file;
      const bytesPerMs = measureSpeed(doneBytes);
      progress.update(doneBytes, { file }, () => [
        ...(bytesPerMs === undefined
          ? []
          : [
              `left ${roughDuration((totalBytes - doneBytes) / bytesPerMs)}`,
              `${formatBytes(Math.round(1000 * bytesPerMs))}/s`,
            ]),
        file,
      ]);
    },
    end(summary) {
      if (hasBegun) progress.finish(summary);
    },
  };
}
