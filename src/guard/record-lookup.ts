/**
 * Finding records by their index, which is filled in passing. A line costs SQLite as much as passing a request on, so this
 * is done in a thread of its own, where no request waits for it, or in this one, a few lines at a time.
 */
import { Worker } from 'node:worker_threads';
import { describeCause, MistletoeError } from '../core/errors.js';
import type { LogEntry } from './record-entry.js';
import type { RecordQuery } from './record-index.js';
import { RecordIndex } from './record-index.js';

export interface FoundRecords {
  readonly entries: readonly LogEntry[];
  /** There is more than the index knows yet. */
  readonly isBehind: boolean;
}

export interface RecordLookup {
  find(query: RecordQuery): Promise<FoundRecords>;
  close(): Promise<void>;
}

/** What the thread is asked, and what it says; an answer without an id is about the thread as a whole. */
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
/** What somebody who asks may wait for. */
const linesForQuery = 20_000;

/** @param linesInPassing read every five seconds, so that after a rush the index lags rather than takes the time of others */
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

/** Fails where the index cannot be opened; a thread that fails later fails those who ask it, and nobody else. */
export async function lookUpInThread(folder: string): Promise<RecordLookup> {
  const worker = new Worker(new URL('./record-index-thread.js', import.meta.url), { workerData: folder });
  const waiting = new Map<number, Waiting>();
  let count = 0;
  let fault: Error | undefined;
  const fail = (why: string): void => {
    fault ??= new MistletoeError('runtime', `The index of records cannot be used: ${why}.`, {
      hint: 'Records are still written; the index is made anew from them when the guard is started again.',
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
  // Tried again in a moment; who asks is told.
}
