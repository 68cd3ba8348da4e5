/** The worker of lookUpInThread: keeps the index of a folder up to date and answers queries. */
import type { MessagePort } from 'node:worker_threads';
import { parentPort, workerData } from 'node:worker_threads';
import { describeCause } from '../../core/errors.js';
import type { LookupAnswer, LookupQuestion, RecordLookup } from './record-lookup.js';
import { lookUpHere } from './record-lookup.js';

/** Two or three percent of a core under sustained load. */
const linesInPassing = 4000;

async function serve(port: MessagePort, folder: string): Promise<void> {
  const post = (answer: LookupAnswer): void => {
    port.postMessage(answer);
  };
  let lookup: RecordLookup;
  try {
    lookup = await lookUpHere(folder, linesInPassing);
  } catch (cause) {
    post({ fault: describeCause(cause) });
    return;
  }
  port.on('message', (question: LookupQuestion) => {
    const { id } = question;
    if (id === 'close') {
      void lookup.close().finally(() => {
        port.close();
      });
      return;
    }
    lookup.find(question.query).then(
      (found) => {
        post({ id, found });
      },
      (cause: unknown) => {
        post({ id, fault: describeCause(cause) });
      },
    );
  });
  post({ fault: undefined });
}

if (parentPort !== null) await serve(parentPort, workerData as string);
