/**
 * One thread of a run compiles at a time. Its threads start with the same kernels, so the others find them on disk when
 * their turn comes.
 */
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';

const key = 'mistletoe.compile-turn';
/** Longer than any compilation: a thread that was ended in its turn does not give it back. */
const patienceMs = 120_000;

/** For threads that are started from now on. */
export function shareCompileTurns(): void {
  if (getEnvironmentData(key) instanceof Int32Array) return;
  setEnvironmentData(key, new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)));
}

export function takeCompileTurn<Result>(work: () => Result): Result {
  const turn = getEnvironmentData(key);
  if (!(turn instanceof Int32Array)) return work();
  while (Atomics.compareExchange(turn, 0, 0, 1) !== 0)
    if (Atomics.wait(turn, 0, 1, patienceMs) === 'timed-out') break;
  try {
    return work();
  } finally {
    Atomics.store(turn, 0, 0);
    Atomics.notify(turn, 0, 1);
  }
}
