/** The worker's side of a pool: takes one task at a time until its parent is gone. */
import type { PoolMessage, WorkerMessage } from './unit-messages.js';
import { packError } from './unit-messages.js';
import type { UnitPart } from './unit.js';

export interface ProcessHooks {
  onPart(part: UnitPart): void;
  onProgress(progress: unknown): void;
  onNotice(message: string): void;
}

export interface ProcessWork {
  /** Opens what the unit needs; a failure is one of this worker, not of the unit. */
  prepare(input: unknown): Promise<void>;
  run(input: unknown, done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void>;
  ask(question: unknown): Promise<unknown>;
}

/** For the main module of a worker process. */
export function serveUnits(create: (setup: unknown, hooks: ProcessHooks) => ProcessWork): void {
  // Ctrl-C reaches every process of a terminal; the parent decides what it means.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  const send = (message: WorkerMessage): void => {
    if (process.connected) process.send?.(message);
  };
  const hooks: ProcessHooks = {
    onPart: (part) => {
      send({ kind: 'part', part });
    },
    onProgress: (progress) => {
      send({ kind: 'progress', progress });
    },
    onNotice: (message) => {
      send({ kind: 'notice', message });
    },
  };
  let work: ProcessWork | undefined;
  const handle = async (message: PoolMessage): Promise<void> => {
    let isOfSetup = true;
    try {
      if (message.kind === 'setup') work = create(message.setup, hooks);
      else if (message.kind === 'ask') send({ kind: 'done', answer: await work?.ask(message.question) });
      else {
        await work?.prepare(message.input);
        isOfSetup = false;
        await work?.run(message.input, new Set(message.done), hooks);
        send({ kind: 'done' });
      }
    } catch (cause) {
      send({ kind: 'failed', error: packError(cause), isOfSetup });
    }
  };
  process.on('message', (message: PoolMessage) => void handle(message));
}
