/** A process and those that it started: their CPU time and resident memory, and an end to all of them. */
import { readFileSync } from 'node:fs';
import { readProcessUsage } from '../../src/core/processes.js';

const watchMs = 20;

export interface ProcessTreeWatch {
  /** The largest sums that were seen; 0 where the system has no /proc. */
  readonly peakBytes: () => number;
  readonly cpuMs: () => number;
  readonly kill: () => void;
  readonly stop: () => void;
}

/** `look` is called about fifty times a second, and less often on a busy machine. */
export function watchProcessTree(pid: number, look: (watch: ProcessTreeWatch) => void): ProcessTreeWatch {
  const peak = { bytes: 0, cpuMs: 0 };
  const watch: ProcessTreeWatch = {
    peakBytes: () => peak.bytes,
    cpuMs: () => peak.cpuMs,
    kill: () => {
      for (const each of listTree(pid)) killProcess(each);
    },
    stop: () => {
      clearInterval(timer);
    },
  };
  const timer = setInterval(() => {
    const usages = listTree(pid).map(readProcessUsage);
    peak.bytes = Math.max(peak.bytes, sum(usages.map((usage) => usage?.residentBytes ?? 0)));
    peak.cpuMs = Math.max(peak.cpuMs, sum(usages.map((usage) => usage?.cpuMs ?? 0)));
    look(watch);
  }, watchMs);
  return watch;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function listTree(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ');
    return [
      pid,
      ...children.filter((child) => child.trim() !== '').flatMap((child) => listTree(Number(child))),
    ];
  } catch {
    return [pid]; // it has ended, or the system has no /proc
  }
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
