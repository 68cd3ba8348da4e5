/** Resident memory of a process and of those that it started, looked at often: the peak of all of them together. */
import { readFileSync } from 'node:fs';

const watchMs = 20;
const pageBytes = 4096;

export interface MemoryWatch {
  peakBytes(): number;
  stop(): void;
}

/** Measures nothing where there is no /proc. */
export function watchMemory(pid: number): MemoryWatch {
  let peak = 0;
  const look = (): void => {
    peak = Math.max(peak, residentBytes(pid));
  };
  const timer = setInterval(look, watchMs);
  return {
    peakBytes: () => peak,
    stop: () => {
      clearInterval(timer);
    },
  };
}

function residentBytes(pid: number): number {
  try {
    const own = Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) * pageBytes;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ');
    return children
      .filter((child) => child !== '')
      .reduce((sum, child) => sum + residentBytes(Number(child)), own);
  } catch {
    return 0; // it has ended, or the system has no /proc
  }
}
