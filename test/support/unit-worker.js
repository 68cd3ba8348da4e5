// A worker that does what its input says, as a process or as a thread: for tests of the pool.
import { parentPort, threadId } from 'node:worker_threads';

/**
 * @typedef {{ kind: 'setup', setup: { isUnfit?: boolean } } | { kind: 'ask', question: unknown } | { kind: 'close' }
 *   | { kind: 'run', input: { parts?: string[], then?: string }, done: string[] }} Message
 */

/** @type {{ isUnfit?: boolean }[]} */
const setups = [];

/** @param {object} message */
const send = (message) => {
  if (parentPort === null) process.send?.(message);
  else parentPort.postMessage(JSON.stringify(message));
};

/** @param {Message} message */
function handle(message) {
  if (message.kind === 'setup') setups.push(message.setup);
  else if (message.kind === 'close') process.exit();
  else if (message.kind === 'ask') send({ kind: 'done', answer: { asked: message.question, setups } });
  else run(message.input, message.done);
}

if (parentPort === null) process.on('message', handle).on('disconnect', () => process.exit());
else {
  parentPort.on('message', (/** @type {string} */ text) => {
    handle(/** @type {Message} */ (JSON.parse(text)));
  });
}

/**
 * @param {{ parts?: string[], then?: string }} input
 * @param {readonly string[]} done
 */
function run({ parts = [], then = 'done' }, done) {
  if (then === 'unfit' && setups[0]?.isUnfit === true) {
    const error = { message: 'no memory', code: 'runtime', hint: 'Use fewer.' };
    send({ kind: 'failed', error, isOfSetup: true });
    return;
  }
  const isFirst = done.length === 0;
  // A death that comes with the first attempt leaves one part behind.
  const open = parts.filter((part) => !done.includes(part));
  for (const key of then === 'die-once' && isFirst ? open.slice(0, 1) : open)
    send({
      kind: 'part',
      part: {
        key,
        data: { worker: `${process.pid}.${threadId}`, hasSecret: 'TEST_SECRET' in process.env },
        steps: [],
        timing: null,
      },
    });
  send({ kind: 'progress', progress: { kind: 'start' } });
  if (then === 'die') process.exit(7);
  else if (then === 'die-once' && isFirst) dieLoudly();
  else if (then === 'fail') send({ kind: 'failed', error: { message: 'a bad unit' }, isOfSetup: false });
  else if (then === 'lose' || then === 'fill') {
    const deviceFault = then === 'lose' ? 'lost' : 'memory';
    const error = { message: `${then} the GPU`, code: 'runtime', hint: 'Look.', deviceFault };
    send({ kind: 'failed', error, isOfSetup: false });
  } else if (then !== 'wait') send({ kind: 'done' });
}

/** After what was sent has left. */
function dieLoudly() {
  if (parentPort !== null) {
    send({ kind: 'notice', message: 'last words' });
    throw new Error('out of memory');
  }
  process.stderr.write('out of memory\n', () => {
    process.send?.({ kind: 'notice', message: 'last words' }, () => process.kill(process.pid, 'SIGKILL'));
  });
}
