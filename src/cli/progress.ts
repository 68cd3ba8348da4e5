/**
 * Progress of long runs on stderr: a bar on a terminal, a few lines in a log, events for a program. Names of prompts and
 * folders are untrusted: none of them can start a new line.
 */
import { toLogLine } from '../core/json-text.js';
import type { progressModes } from './common-flags.js';
import { asOneLine, type Output } from './terminal.js';

export type ProgressMode = (typeof progressModes)[number];
/** Undefined ones are left out. */
export type ProgressFields = Readonly<Record<string, string | number | undefined>>;

export interface Progress {
  /** `show` formats the counts for people, such as 1.2 GB; programs get numbers. */
  readonly start: (total: number, label: string, show?: (value: number) => string) => void;
  /** Programs get the fields; people get the time left, then the words, most important first, or else the fields. */
  readonly update: (done: number, fields?: ProgressFields, words?: readonly string[]) => void;
  /** A line that stays; programs also get the data. */
  readonly note: (message: string, data?: Readonly<Record<string, unknown>>) => void;
  readonly finish: (summary?: string) => void;
}

export type Clock = () => number;
export const stopwatch: Clock = () => performance.now();

/** `auto` draws a bar on a terminal and writes lines elsewhere. */
export function createProgress(mode: ProgressMode, stream: Output, now = stopwatch): Progress {
  if (mode === 'json') return createEvents(stream, now);
  if (mode === 'none') return createEvents({ writeData: () => undefined }, now);
  const isBar = mode === 'bar' || (mode === 'auto' && stream.isTerminal);
  let phase: Phase | undefined;
  let view: View | undefined;
  const print = (message: string): void => {
    if (isBar) stream.steer(clearedLine);
    stream.write(`${asOneLine(message)}\n`);
  };
  const end = (): void => {
    view?.end();
    view = undefined;
    phase = undefined;
  };
  return {
    start(...what) {
      end();
      phase = new Phase(now, ...what);
      view = isBar ? drawBars(stream, phase) : writeLines(stream, phase);
    },
    update(...how) {
      phase?.update(...how);
      view?.update();
    },
    note: print,
    finish(summary) {
      end();
      if (summary !== undefined) print(summary);
    },
  };
}

function createEvents({ writeData }: Pick<Output, 'writeData'>, now: Clock): Progress {
  // A resumed run may report before its first phase begins.
  let phase = new Phase(now, 0, '');
  const emit = (event: string, fields: Readonly<Record<string, unknown>>): void => {
    writeData(toLogLine({ event, ...fields }));
  };
  return {
    start(total, label) {
      phase = new Phase(now, total, label);
      emit('progress-start', { label, total });
    },
    update(...how) {
      phase.update(...how);
      const { fields, label, done, total } = phase;
      emit('progress-update', { ...fields, label, done, total });
    },
    note(message, data = {}) {
      emit('note', { ...data, message });
    },
    finish(summary) {
      emit('progress-end', { label: phase.label, summary });
    },
  };
}

/** What is done, and how long the rest takes at the pace since the first update: a resumed run starts with that one. */
class Phase {
  done = 0;
  fields: ProgressFields = {};
  private words: readonly string[] = [];
  private first: { readonly done: number; readonly atMs: number } | undefined;
  private updatedMs = 0;

  constructor(
    private readonly now: Clock,
    readonly total: number,
    readonly label: string,
    readonly show: (value: number) => string = String,
  ) {}

  update(done: number, fields: ProgressFields = {}, words?: readonly string[]): void {
    this.done = done;
    this.updatedMs = this.now();
    this.first ??= { done, atMs: this.updatedMs };
    const leftMs = 'leftMs' in fields ? fields.leftMs : this.estimateLeft();
    const shown = Object.entries(fields).filter(([name, value]) => value !== undefined && name !== 'leftMs');
    this.words = words ?? shown.map(([name, value]) => `${name} ${showValue(value)}`);
    this.fields = { ...fields, leftMs };
  }

  /** Counts down between updates. */
  describe(): string[] {
    const { leftMs } = this.fields;
    const passedMs = this.now() - this.updatedMs;
    const left = typeof leftMs === 'number' ? [`left ${roughDuration(leftMs - passedMs)}`] : [];
    return [...left, ...this.words];
  }

  private estimateLeft(): number | undefined {
    const { done, atMs } = this.first!;
    const [doneHere, passedMs] = [this.done - done, this.updatedMs - atMs];
    const isKnown = doneHere > 0 && passedMs > 0;
    return isKnown ? Math.round((passedMs / doneHere) * (this.total - this.done)) : undefined;
  }
}

/** At most three decimals. */
const showValue = (value: string | number | undefined): string =>
  typeof value === 'number' ? String(Number(value.toFixed(3))) : String(value);

const lineStart = '\u001b[1G';
const clearedLine = `${lineStart}\u001b[2K`;
const clearedRest = '\u001b[0K';
/** If the terminal does not report its width. */
const defaultColumns = 80;
const redrawMs = 125;

/** Shows one phase to people. */
interface View {
  update(): void;
  end(): void;
}

/** Redraws on a timer, so that the time left counts down. The terminal's state is never changed: a killed run has nothing to restore. */
function drawBars(stream: Output, phase: Phase): View {
  const draw = (): void => {
    stream.steer(lineStart);
    stream.write(layOutBar(phase, phase.describe(), stream.columns() ?? defaultColumns));
    stream.steer(clearedRest);
  };
  draw();
  const timer = setInterval(draw, redrawMs).unref();
  return {
    update: () => undefined,
    end() {
      clearInterval(timer);
      draw();
      stream.steer(clearedLine);
    },
  };
}

const milestones = 10;
const maxSilenceMs = 30_000;

/** At most ten lines per phase, plus one after each half minute of silence. */
function writeLines(stream: Output, phase: Phase): View {
  const { label, total, show } = phase;
  let passed = 0;
  let silence: NodeJS.Timeout | undefined;
  const write = (line: string): void => {
    stream.write(`${line}\n`);
    clearTimeout(silence);
    silence = setTimeout(writeState, maxSilenceMs).unref();
  };
  const writeState = (): void => {
    const share = total === 0 ? 1 : phase.done / total;
    const count = `${label}: ${show(phase.done)}/${show(total)} (${Math.floor(100 * share)} %)`;
    write([count, ...phase.describe().map(asOneLine)].join('  '));
  };
  write(`${label}: ${show(total)} to do`);
  return {
    update() {
      const reached = total === 0 ? milestones : Math.floor((milestones * phase.done) / total);
      if (reached <= passed) return;
      passed = reached;
      writeState();
    },
    end() {
      clearTimeout(silence);
    },
  };
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

const fullBar = 24;
const minBar = 6;
/** Prompt ids may be whole sentences. */
const maxWord = 28;
const gap = '  ';

/**
 * A progress line that fits the terminal: the bar shrinks first, then words are dropped, the least important first. At
 * most `columns - 1` wide: some terminals start a new line after the last column.
 */
export function layOutBar(
  { label, done, total, show }: Pick<Phase, 'label' | 'done' | 'total' | 'show'>,
  words: readonly string[],
  columns: number,
): string {
  const room = Math.max(1, columns - 1);
  const count = `${show(done)}/${show(total)}`;
  const shown = words.map((word) => shorten(asOneLine(word), maxWord));
  for (let kept = shown.length; kept >= Math.min(1, shown.length); kept--) {
    const behind = [count, ...shown.slice(0, kept)];
    const size = Math.min(fullBar, room - widthOf([label, '', ...behind].join(gap)));
    if (size >= minBar) return [label, drawBar(done, total, size), ...behind].join(gap);
  }
  const essential = [count, ...shown.slice(0, 1)];
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
