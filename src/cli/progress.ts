/**
 * How far a long run has come: a bar on a terminal, a few lines in a log, events for a program. Always on stderr.
 * Names of prompts and folders come from outside: none of them begins a line of its own.
 */
import { Writable } from 'node:stream';
import cliProgress from 'cli-progress';
import { layOutBar } from './bar-layout.js';
import { asOneLine, isCursorSequence } from './clean-text.js';
import type { Output } from './terminal.js';

export type ProgressMode = 'auto' | 'bar' | 'plain' | 'json' | 'none';
export type ProgressFields = Readonly<Record<string, string | number>>;

/** What people read, most important first; asked whenever it is drawn, so that a time left may run down. */
export type ProgressWords = () => readonly string[];

export interface Progress {
  /** `show` is how people read the counts, such as 1.2 GB; programs get numbers. */
  readonly start: (total: number, label: string, show?: (value: number) => string) => void;
  /** Programs get the fields; people get the words, or the fields where there are none. */
  readonly update: (done: number, fields?: ProgressFields, words?: ProgressWords) => void;
  /** A line that stays; programs get the data beside it. */
  readonly note: (message: string, data?: Readonly<Record<string, unknown>>) => void;
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
/** Where the terminal does not say. */
const usualColumns = 80;

function createBar(stream: Output): Progress {
  let bar: cliProgress.SingleBar | undefined;
  return {
    start(total, label, show = String) {
      bar?.stop();
      bar = new cliProgress.SingleBar({
        stream: asTerminalStream(stream),
        format: (_options, { value, total }, { label, words }: BarPayload) =>
          layOutBar({ label, done: value, total, show, words: words() }, stream.columns() ?? usualColumns),
        fps: 8,
        clearOnComplete: true,
        // The terminal's state stays as it is: a killed run has nothing to restore, and signals keep their meaning.
        hideCursor: false,
        linewrap: true,
        gracefulExit: false,
      });
      bar.start(total, 0, { label, words: () => [] } satisfies BarPayload);
    },
    update(done, fields = {}, words = () => namesAndValues(fields)) {
      bar?.update(done, { words });
    },
    note(message) {
      stream.steer(clearedLine);
      stream.write(`${asOneLine(message)}\n`);
    },
    finish(summary) {
      bar?.stop();
      bar = undefined;
      if (summary !== undefined) stream.write(`${asOneLine(summary)}\n`);
    },
  };
}

interface BarPayload {
  readonly label: string;
  readonly words: ProgressWords;
}

/** What cli-progress asks of a stream. */
function asTerminalStream(stream: Output): NodeJS.WritableStream {
  const writable = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      // Without saving and restoring the cursor: lines written meanwhile would be drawn over.
      const text = chunk.toString().replace(/\u001b[78]/g, '');
      // The library writes sequences and text apart; a line of the bar is never a sequence alone.
      if (isCursorSequence(text)) stream.steer(text);
      else stream.write(text);
      done();
    },
  });
  // Asked each time: the library cuts what it writes to this width.
  Object.defineProperty(writable, 'columns', { get: () => stream.columns() ?? usualColumns });
  return Object.assign(writable, { isTTY: true });
}

const milestones = 10;
const longestSilenceMs = 30_000;

/** At most ten lines on the way, however long the run, and one whenever nothing was said for half a minute. */
function createLines(stream: Output): Progress {
  let total = 0;
  let done = 0;
  let label = '';
  let show: (value: number) => string = String;
  let words: ProgressWords = () => [];
  let passed = 0;
  let silence: NodeJS.Timeout | undefined;
  const write = (line: string): void => {
    stream.write(`${line}\n`);
    clearTimeout(silence);
    silence = setTimeout(writeState, longestSilenceMs).unref();
  };
  const writeState = (): void => {
    const share = total === 0 ? 100 : Math.floor((100 * done) / total);
    write([`${label}: ${show(done)}/${show(total)} (${share} %)`, ...words().map(asOneLine)].join('  '));
  };
  return {
    start(newTotal, newLabel, newShow = String) {
      total = newTotal;
      label = newLabel;
      show = newShow;
      done = 0;
      passed = 0;
      words = () => [];
      write(`${label}: ${show(total)} to do`);
    },
    update(newDone, fields = {}, newWords = () => namesAndValues(fields)) {
      done = newDone;
      words = newWords;
      const reached = total === 0 ? milestones : Math.floor((milestones * done) / total);
      if (reached <= passed) return;
      passed = reached;
      writeState();
    },
    note(message) {
      stream.write(`${asOneLine(message)}\n`);
    },
    finish(summary) {
      clearTimeout(silence);
      if (summary !== undefined) stream.write(`${asOneLine(summary)}\n`);
    },
  };
}

function createEvents(stream: Output): Progress {
  let total = 0;
  let label = '';
  const emit = (event: string, fields: Readonly<Record<string, unknown>>): void => {
    stream.writeData(`${JSON.stringify({ event, ...fields })}\n`);
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
    note(message, data = {}) {
      emit('note', { ...data, message });
    },
    finish(summary) {
      emit('progress-end', { label, ...(summary === undefined ? {} : { summary }) });
    },
  };
}

function namesAndValues(fields: ProgressFields): string[] {
  return Object.entries(fields).map(([name, value]) => `${name} ${value}`);
}
