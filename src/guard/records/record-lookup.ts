/**
 * Finds records by their index, which is filled in the background: in a worker thread, so that requests do not wait for
 * SQLite, or in this thread, a few lines at a time.
 */
import { Worker } from 'node:worker_threads';
import { describeCause, MistletoeError } from '../../core/errors.js';
import type { LogEntry } from './record-schema.js';
import type { RecordQuery } from './record-index.js';
import { RecordIndex } from './record-index.js';

export interface FoundRecords {
  readonly entries: readonly LogEntry[];
  /** Some lines are not indexed yet. */
  readonly isBehind: boolean;
}

export interface RecordLookup {
  find(query: RecordQuery): Promise<FoundRecords>;
  close(): Promise<void>;
}

/** Messages to and from the worker; an answer without an id is about the worker as a whole. */
export type LookupQuestion = { readonly id: number; readonly query: RecordQuery } | { readonly id: 'close' };
export type LookupAnswer =
  | { readonly id?: undefined; readonly fault: string | undefined }
  | { readonly id: number; readonly found: FoundRecords }
  | { readonly id: number; readonly fault: string };

interface Waiting {
  readonly resolve: (found: FoundRecords) => void;
  readonly reject: (cause: Error) => void;
}

const fillEveryMs = 5000;
/** Indexed before a query is answered. */
const linesForQuery = 20_000;

/** @param linesInPassing indexed every five seconds; after a burst the index lags rather than delays requests */
export async function lookUpHere(folder: string, linesInPassing = 2000): Promise<RecordLookup> {
  const index = await RecordIndex.open(folder);
  const timer = setInterval(() => void index.catchUp(linesInPassing).catch(ignore), fillEveryMs);
  timer.unref();
  return {
    async find(query) {
      await index.catchUp(linesForQuery);
      return { entries: await index.find(query), isBehind: index.isBehind };
    },
    async close() {
      clearInterval(timer);
      await index.close();
    },
  };
}

/** Fails where the index cannot be opened; a worker that fails later fails queries only. */
export async function lookUpInThread(folder: string): Promise<RecordLookup> {
  const worker = new Worker(new URL('./record-index-thread.js', import.meta.url), { workerData: folder });
  const waiting = new Map<number, Waiting>();
  let count = 0;
  let fault: Error | undefined;
  const fail = (why: string): void => {
    fault ??= new MistletoeError('runtime', `The index of records cannot be used: ${why}.`, {
      hint: 'Records are still written; the index is rebuilt from them when the guard restarts.',
    });
    for (const { reject } of waiting.values()) reject(fault);
    waiting.clear();
  };
  worker.on('error', (cause) => {
    fail(describeCause(cause));
  });
  const ended = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      fail('its thread has ended');
      resolve();
    });
  });
  const opened = new Promise<void>((resolve) => {
    worker.on('message', (answer: LookupAnswer) => {
      if (answer.id === undefined) {
        if (answer.fault !== undefined) fail(answer.fault);
        resolve();
        return;
      }
      const asked = waiting.get(answer.id);
      waiting.delete(answer.id);
      if ('found' in answer) asked?.resolve(answer.found);
      else asked?.reject(new MistletoeError('runtime', answer.fault));
    });
  });
  await Promise.race([opened, ended]);
  if (fault !== undefined) throw fault;
  worker.unref();
  const ask = (question: LookupQuestion): void => {
    worker.postMessage(question);
  };
  return {
    find: (query) =>
      new Promise((resolve, reject) => {
        if (fault !== undefined) {
          reject(fault);
          return;
        }
        const id = count++;
        waiting.set(id, { resolve, reject });
        ask({ id, query });
      }),
    async close() {
      worker.ref();
      if (fault === undefined) ask({ id: 'close' });
      await ended;
    },
  };
}

function ignore(): void {
  // Retried by the next timer; queries report the error.
}
