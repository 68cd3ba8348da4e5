/** How far a long run has come: a bar on a terminal, a few lines in a log, events for a program. Always on stderr. */
import { Writable } from 'node:stream';
import cliProgress from 'cli-progress';
import type { Output } from './terminal.js';

export type ProgressMode = 'auto' | 'bar' | 'plain' | 'json' | 'none';
export type ProgressFields = Readonly<Record<string, string | number>>;

export interface Progress {
  readonly start: (total: number, label: string) => void;
  readonly update: (done: number, fields?: ProgressFields) => void;
  /** A line that stays. */
  readonly note: (message: string) => void;
  readonly finish: (summary?: string) => void;
}

/** `auto` draws a bar where somebody watches and writes lines where a file does. */
export function createProgress(mode: ProgressMode, stream: Output): Progress {
  switch (mode) {
    case 'auto':
      return stream.isTerminal ? createBar(stream) : createLines(stream);
    case 'bar':
      return createBar(stream);
    case 'plain':
      return createLines(stream);
    case 'json':
      return createEvents(stream);
    case 'none':
      return silent;
  }
}

const silent: Progress = {
  start: () => undefined,
  update: () => undefined,
  note: () => undefined,
  finish: () => undefined,
};

const clearedLine = '\r\u001b[K';

function createBar(stream: Output): Progress {
  let bar: cliProgress.SingleBar | undefined;
  return {
    start(total, label) {
      bar?.stop();
      bar = new cliProgress.SingleBar({
        stream: asTerminalStream(stream),
        format: (options, { progress, value, total }, { label, fields }: BarPayload) =>
          [
            label,
            cliProgress.Format.BarFormat(progress, options),
            `${value}/${total}`,
            ...(fields === '' ? [] : [fields]),
          ].join('  '),
        barCompleteChar: '\u2588',
        barIncompleteChar: '\u2591',
        barsize: 24,
        fps: 8,
        clearOnComplete: true,
        // The terminal's state stays as it is: a killed run has nothing to restore, and signals keep their meaning.
        hideCursor: false,
        linewrap: true,
        gracefulExit: false,
      });
      bar.start(total, 0, { label, fields: '' } satisfies BarPayload);
    },
    update(done, fields = {}) {
      bar?.update(done, { fields: joinFields(fields) });
    },
    note(message) {
      stream.write(`${clearedLine}${message}\n`);
    },
    finish(summary) {
      bar?.stop();
      bar = undefined;
      if (summary !== undefined) stream.write(`${summary}\n`);
    },
  };
}

interface BarPayload {
  readonly label: string;
  readonly fields: string;
}

/** What cli-progress asks of a stream. */
function asTerminalStream(stream: Output): NodeJS.WritableStream {
  const writable = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      // Without saving and restoring the cursor: lines written meanwhile would be drawn over.
      const text = chunk.toString().replace(/\u001b[78]/g, '');
      if (text !== '') stream.write(text);
      done();
    },
  });
  return Object.assign(writable, { isTTY: true });
}

const milestones = 10;

/** At most ten lines, however long the run. */
function createLines(stream: Output): Progress {
  let total = 0;
  let label = '';
  let passed = 0;
  return {
    start(newTotal, newLabel) {
      total = newTotal;
      label = newLabel;
      passed = 0;
      stream.write(`${label}: ${total} to do\n`);
    },
    update(done, fields = {}) {
      const reached = total === 0 ? milestones : Math.floor((milestones * done) / total);
      if (reached <= passed) return;
      passed = reached;
      const share = total === 0 ? 100 : Math.floor((100 * done) / total);
      const details = joinFields(fields);
      stream.write(`${label}: ${done}/${total} (${share} %)${details === '' ? '' : `  ${details}`}\n`);
    },
    note(message) {
      stream.write(`${message}\n`);
    },
    finish(summary) {
      if (summary !== undefined) stream.write(`${summary}\n`);
    },
  };
}

function createEvents(stream: Output): Progress {
  let total = 0;
  let label = '';
  const emit = (event: string, fields: ProgressFields): void => {
    stream.write(`${JSON.stringify({ event, ...fields })}\n`);
  };
  return {
    start(newTotal, newLabel) {
      total = newTotal;
      label = newLabel;
      emit('progress-start', { label, total });
    },
    update(done, fields = {}) {
      emit('progress-update', { ...fields, label, done, total });
    },
    note(message) {
      emit('note', { message });
    },
    finish(summary) {
      emit('progress-end', { label, ...(summary === undefined ? {} : { summary }) });
    },
  };
}

function joinFields(fields: ProgressFields): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name} ${value}`)
    .join('  ');
}
