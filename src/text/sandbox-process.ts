/**
 * Starts a process that may panic, hang or grow without harm to this one. On Linux the system itself bounds its memory
 * (RLIMIT_DATA): watching from outside is too late when a process doubles what it holds within milliseconds, or when this
 * thread is busy. Its time is CPU time, so that a busy machine does not end a process that only waits for its turn.
 */
import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readProcessUsage } from '../core/process-usage.js';

const shell = '/bin/sh';
/** Sets the limits, which a core dump would defeat, and becomes the program. */
const limitAndRun = (kibibytes: number): string =>
  `ulimit -c 0; ulimit -d ${kibibytes} 2>/dev/null; exec "$0" "$@"`;

export function startSandbox(program: string, maxBytes: number): ChildProcess {
  const flags = ['--max-old-space-size=512'];
  const isBounded = process.platform === 'linux' && existsSync(shell);
  const script = limitAndRun(Math.ceil(maxBytes / 1024));
  return fork(program, [], {
    ...(isBounded
      ? { execPath: shell, execArgv: ['-c', script, process.execPath, ...flags] }
      : { execArgv: flags }),
    // One thread: the stacks of many would count as memory.
    env: { ...process.env, TOKENIZERS_PARALLELISM: 'false', RAYON_NUM_THREADS: '1' },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
}

/** For a process that waits for a processor, or was stopped: so many times its limit of CPU time. */
const maxWaiting = 60;
const minWaitMs = 20;

/** Calls back once when the process has used this much CPU time from now on. Returns a function that stops the watch. */
export function watchCpuTime(child: ChildProcess, limitMs: number, onLimit: () => void): () => void {
  const startMs = performance.now();
  const { pid = 0 } = child;
  const before = readProcessUsage(pid);
  let timer: NodeJS.Timeout;
  let isOver = false;
  const look = (): void => {
    const wallMs = performance.now() - startMs;
    const now = readProcessUsage(pid);
    // Where the system does not report CPU time, the clock has to do.
    const usedMs = before === undefined || now === undefined ? wallMs : now.cpuMs - before.cpuMs;
    if (usedMs < limitMs && wallMs < maxWaiting * limitMs) {
      timer = setTimeout(look, Math.max(minWaitMs, limitMs - usedMs));
      return;
    }
    // This thread may have been busy: an answer that has arrived meanwhile is heard first.
    setImmediate(() => {
      if (!isOver) onLimit();
    });
  };
  timer = setTimeout(look, limitMs);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
