/** CPU time and memory of another process. */
import { readFileSync } from 'node:fs';

export interface ProcessUsage {
  readonly cpuMs: number;
  readonly residentBytes: number;
}

/** Linux counts CPU time in hundredths of a second in /proc, whatever its own clock. */
const msPerTick = 10;
const pageBytes = 4096;

/** Undefined where the process has ended, or the system has no /proc. */
export function readProcessUsage(pid: number): ProcessUsage | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The second field is the program's name, which may hold blanks and brackets; these are fields 14, 15 and 24.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return {
      cpuMs: msPerTick * (Number(fields[11]) + Number(fields[12])),
      residentBytes: pageBytes * Number(fields[21]),
    };
  } catch {
    return undefined;
  }
}
