/**
 * Progress of long runs on stderr: a bar on a terminal, a few lines in a log, events for a program. Names of prompts and
 * folders are untrusted: none of them can start a new line.
 */
import type { progressModes } from './common-flags.js';
import { asOneLine, type Output } from './terminal.js';

export type ProgressMode = (typeof progressModes)[number];
/** Undefined ones are left out. */
export type ProgressFields = Readonly<Record<string, string | number | undefined>>;

/** Text for people, most important first; called for each redraw, so that a time left counts down. */
export type ProgressWords = () => readonly string[];

export interface Progress {
  /** `show` formats the counts for people, such as 1.2 GB; programs get numbers. */
  readonly start: (total: number, label: string, show?: (value: number) => string) => void;
  /** Programs get the fields; people get the words, or else the fields. */
  readonly update: (done: number, fields?: ProgressFields, words?: ProgressWords) => void;
  /** A line that stays; programs also get the data. */
  readonly note: (message: string, data?: Readonly<Record<string, unknown>>) => void;
  readonly finish: (summary?: string) => void;
}

/** `auto` draws a bar on a terminal and writes lines elsewhere. */
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

const lineStart = '\u001b[1G';
const clearedLine = `${lineStart}\u001b[2K`;
const clearedRest = '\u001b[0K';
/** If the terminal does not report its width. */
const defaultColumns = 80;
const redrawMs = 125;

/** Redraws on a timer, so that the time left counts down. The terminal's state is never changed: a killed run has nothing to restore. */
function createBar(stream: Output): Progress {
  let content: BarContent | undefined;
  let words: ProgressWords = () => [];
  let timer: NodeJS.Timeout | undefined;
  const draw = (): void => {
    if (content === undefined) return;
    stream.steer(lineStart);
    stream.write(layOutBar({ ...content, words: words() }, stream.columns() ?? defaultColumns));
    stream.steer(clearedRest);
  };
  const stop = (): void => {
    clearInterval(timer);
    if (content === undefined) return;
    draw();
    content = undefined;
    stream.steer(clearedLine);
  };
  return {
    start(total, label, show = String) {
      stop();
      content = { label, done: 0, total, show, words: [] };
      words = () => [];
      draw();
      timer = setInterval(draw, redrawMs).unref();
    },
    update(done, fields = {}, newWords = () => namesAndValues(fields)) {
      if (content === undefined) return;
      content = { ...content, done };
      words = newWords;
    },
    note(message) {
      stream.steer(clearedLine);
      stream.write(`${asOneLine(message)}\n`);
    },
    finish(summary) {
      stop();
      if (summary !== undefined) stream.write(`${asOneLine(summary)}\n`);
    },
  };
}

const milestones = 10;
const maxSilenceMs = 30_000;

/** At most ten lines per run, plus one after each half minute of silence. */
function createLines(stream: Output): Progress {
  let content = { label: '', done: 0, total: 0, show: String as (value: number) => string };
  let words: ProgressWords = () => [];
  let passed = 0;
  let silence: NodeJS.Timeout | undefined;
  const write = (line: string): void => {
    stream.write(`${line}\n`);
    clearTimeout(silence);
    silence = setTimeout(writeState, maxSilenceMs).unref();
  };
  const writeState = (): void => {
    const { label, done, total, show } = content;
    const share = total === 0 ? 100 : Math.floor((100 * done) / total);
    write([`${label}: ${show(done)}/${show(total)} (${share} %)`, ...words().map(asOneLine)].join('  '));
  };
  return {
    start(total, label, show = String) {
      content = { label, done: 0, total, show };
      passed = 0;
      words = () => [];
      write(`${label}: ${show(total)} to do`);
    },
    update(done, fields = {}, newWords = () => namesAndValues(fields)) {
      content = { ...content, done };
      words = newWords;
      const reached = content.total === 0 ? milestones : Math.floor((milestones * done) / content.total);
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
      emit('progress-end', { label, summary });
    },
  };
}

function namesAndValues(fields: ProgressFields): string[] {
  return Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : `${name} ${value}`));
}

export interface ProgressClock {
  readonly now: () => number;
}

/** Rounded as an estimate should be: 40 s, 4 min, 1 h 20 min, 3 h. */
export function roughDuration(milliseconds: number): string {
  const seconds = Math.max(0, milliseconds / 1000);
  if (seconds < 9.5) return `${Math.ceil(seconds)} s`;
  if (seconds < 87.5) return `${5 * Math.round(seconds / 5)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const tens = 10 * Math.round(seconds / 600);
  const hours = Math.floor(tens / 60);
  return tens % 60 === 0 ? `${hours} h` : `${hours} h ${tens % 60} min`;
}

/** The time left, for the words of a progress bar. */
export const describeLeft = (milliseconds: number | undefined): string[] =>
  milliseconds === undefined ? [] : [`left ${roughDuration(milliseconds)}`];

/** A progress line that fits the terminal: the bar shrinks first, then words are dropped, the least important first. */
interface BarContent {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  readonly show?: (value: number) => string;
  /** Most important first. */
  readonly words: readonly string[];
}

const fullBar = 24;
const minBar = 6;
/** Prompt ids may be whole sentences. */
const maxWord = 28;
const gap = '  ';

/** At most `columns - 1` wide: some terminals start a new line after the last column. */
export function layOutBar({ label, done, total, show = String, words }: BarContent, columns: number): string {
  const room = Math.max(1, columns - 1);
  const count = `${show(done)}/${show(total)}`;
  const shown = words.map((word) => shorten(asOneLine(word), maxWord));
  for (let kept = shown.length; kept >= Math.min(1, shown.length); kept--) {
    const behind = [count, ...shown.slice(0, kept)];
    const size = Math.min(fullBar, room - widthOf([label, '', ...behind].join(gap)));
    if (size >= minBar) return [label, drawBar(done, total, size), ...behind].join(gap);
  }
  const [first] = shown;
  const essential = [count, ...(first === undefined ? [] : [first])];
  const withLabel = [label, ...essential].join(gap);
  return shorten(widthOf(withLabel) <= room ? withLabel : essential.join(gap), room);
}

function drawBar(done: number, total: number, size: number): string {
  const share = total === 0 ? 1 : Math.min(1, Math.max(0, done / total));
  const full = Math.round(share * size);
  return '\u2588'.repeat(full) + '\u2591'.repeat(size - full);
}

function shorten(text: string, room: number): string {
  if (widthOf(text) <= room) return text;
  let kept = '';
  for (const character of text) {
    if (widthOf(kept) + widthOf(character) > room - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

const zeroWidth = /[\p{Mn}\p{Me}\p{Cf}]/u;
const doubleWidth =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

/** Terminal columns: East Asian characters and emoji take two, combining marks none. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += zeroWidth.test(character) ? 0 : doubleWidth.test(character) ? 2 : 1;
  return width;
}
