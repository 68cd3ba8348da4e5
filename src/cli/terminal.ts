/** Where a command reads and writes: the process, or buffers in tests. */
import { randomInt } from 'node:crypto';
import { isatty } from 'node:tty';
import { inspect } from 'node:util';
import { describeCause, MistletoeError } from '../core/errors.js';
import { maxTextBytes } from '../core/files.js';
import { steering } from '../core/json-text.js';

const styles = ['bold', 'dim', 'red', 'green', 'yellow', 'cyan'] as const;
type Style = (typeof styles)[number];

export type Colors = { readonly isColorSupported: boolean } & Readonly<
  Record<Style, (text: string) => string>
>;

const seal = Array.from({ length: 4 }, () => randomInt(1000, 10_000)).join(';');
/** Matches only our own sequences; the group is the code. */
const sealedCode = new RegExp(`\u001b\\[${seal};(\\d+)m`, 'g');

/** Only an Output turns these marks into colors. */
export function createColors(isColorSupported: boolean): Colors {
  const entries = styles.map((style) => {
    const codes = inspect.colors[style]!;
    const [opening, closing] = codes.map((code) => `\u001b[${seal};${code}m`) as [string, string];
    // A nested style that shares its end code would end the outer one too, so the outer one starts again.
    const paint = (text: string): string =>
      `${opening}${text.replaceAll(closing, closing + opening)}${closing}`;
    return [style, isColorSupported ? paint : (text: string) => text] as const;
  });
  return { isColorSupported, ...(Object.fromEntries(entries) as Record<Style, (text: string) => string>) };
}

const replacement = '\ufffd';

export function withoutControls(text: string): string {
  return text.replace(steering, replacement);
}

/** For a name inside a sentence or a table: it cannot start a new line either. */
export function asOneLine(text: string): string {
  return withoutControls(text.replace(/\s+/g, ' '));
}

const steeringOrColor = new RegExp(`${sealedCode.source}|${steering.source}`, 'g');

/** Keeps our own colors, and no other control sequence. */
function cleanForReaders(text: string): string {
  return text.replace(steeringOrColor, (_, code?: string) =>
    code === undefined ? replacement : `\u001b[${code}m`,
  );
}

/** Keeps our own colors, and everything else unchanged. */
export function openColors(text: string): string {
  return text.replace(sealedCode, '\u001b[$1m');
}

/** Cleans all text that is written, so no caller can forget it. */
export interface Output {
  readonly isTerminal: boolean;
  /** Current width; undefined unless it is a terminal. */
  columns(): number | undefined;
  /** Text for people; always cleaned, because logs end up on terminals too. */
  write(text: string): void;
  /** Model output or JSON: unchanged in a file or a pipe, cleaned on a terminal. */
  writeData(text: string): void;
  /** Moves the cursor and clears lines; anything else in it is cleaned. */
  steer(sequence: string): void;
}

export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readStdin(): Promise<Uint8Array>;
  /** Aborts when output can no longer be written (`| head`, a full disk). */
  readonly closed: AbortSignal;
  /** Calls back at the first Ctrl-C, SIGTERM or SIGHUP; the returned function stops that. A second signal kills. */
  onInterrupt(listener: (signal: StopSignal) => void): () => void;
  /** The signal that a listener was called for, if any. */
  interruption(): StopSignal | undefined;
  /** Waits until everything is written. Returns what prevented it; a closed pipe is not a failure. */
  settle(): Promise<MistletoeError | undefined>;
}

/** What an Output writes to, unchecked. */
interface Sink {
  readonly isTerminal: boolean;
  columns(): number | undefined;
  write(text: string): void;
}

export function createOutput(sink: Sink): Output {
  const write = (text: string): void => {
    sink.write(cleanForReaders(text));
  };
  return {
    isTerminal: sink.isTerminal,
    columns: () => sink.columns(),
    write,
    writeData(text) {
      if (sink.isTerminal) write(text);
      else sink.write(openColors(text));
    },
    steer(sequence) {
      const isCursorSequence = /^(?:\r|\u001b\[\d*[A-HJK])*$/.test(sequence);
      if (isCursorSequence) sink.write(sequence);
      else write(sequence);
    },
  };
}

export function colorsFor(output: Output, { environment }: Terminal): Colors {
  const { NO_COLOR, FORCE_COLOR, TERM } = environment;
  const isForced = FORCE_COLOR !== undefined && FORCE_COLOR !== '0';
  const isRefused = (NO_COLOR !== undefined && NO_COLOR !== '') || FORCE_COLOR === '0';
  return createColors(!isRefused && (isForced || (output.isTerminal && TERM !== 'dumb')));
}

/** Prints a line on stderr that is not a failure. */
export function createNotice(terminal: Terminal): (message: string) => void {
  const { stderr } = terminal;
  return (message) => {
    stderr.write(`${colorsFor(stderr, terminal).yellow('note:')}  ${asOneLine(message)}\n`);
  };
}

export function openProcessTerminal(): Terminal {
  const reader = new AbortController();
  const stop = (): void => {
    reader.abort();
  };
  const out = openStream(process.stdout, 1, 'stdout', stop);
  const err = openStream(process.stderr, 2, 'stderr', stop);
  let received: StopSignal | undefined;
  return {
    stdout: createOutput(out),
    stderr: createOutput(err),
    environment: process.env,
    closed: reader.signal,
    readStdin,
    onInterrupt: (listener) =>
      listenForSignals((signal) => {
        received = signal;
        listener(signal);
      }),
    interruption: () => received,
    async settle() {
      await out.settle();
      await err.settle();
      return out.fault() ?? err.fault();
    },
  };
}

interface StreamSink extends Sink {
  settle(): Promise<void>;
  fault(): MistletoeError | undefined;
}

/** Stops writing after the first failure, so output never has a gap in the middle. */
function openStream(
  stream: NodeJS.WriteStream,
  descriptor: number,
  name: string,
  onStop: () => void,
): StreamSink {
  const isTerminal = isatty(descriptor); // stream.isTTY is undefined for pipes, despite its type
  let isOver = false;
  let hasWritten = false;
  let fault: MistletoeError | undefined;
  const fail = (cause: unknown): void => {
    if (isOver) return;
    isOver = true;
    if (!isGone(cause, isTerminal)) fault = describeFault(name, cause);
    onStop();
  };
  stream.on('error', fail);
  return {
    isTerminal,
    // Undefined for pipes too; 0 on a terminal of unknown size.
    columns: () => (stream.columns > 0 ? stream.columns : undefined),
    write(text) {
      if (isOver) return;
      hasWritten = true;
      try {
        stream.write(text);
      } catch (cause) {
        fail(cause);
      }
    },
    settle: () =>
      new Promise((resolve) => {
        if (isOver || !hasWritten) resolve();
        // The error event of an earlier write may arrive a moment later.
        else stream.write('', () => setImmediate(resolve));
      }),
    fault: () => fault,
  };
}

/** The pipe or the terminal was closed. */
function isGone(cause: unknown, isTerminal: boolean): boolean {
  const { code } = cause as NodeJS.ErrnoException;
  return code === 'EPIPE' || (isTerminal && code === 'EIO');
}

function describeFault(name: string, cause: unknown): MistletoeError {
  return new MistletoeError('runtime', `${name} cannot be written: ${describeCause(cause)}.`, {
    hint: 'Free some space or write elsewhere, then run the command again.',
    cause,
  });
}

async function readStdin(): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer);
    size += (chunk as Buffer).length;
    if (size <= maxTextBytes) continue;
    throw new MistletoeError('text', `stdin has more than ${maxTextBytes} bytes, the maximum.`, {
      hint: 'Send only the prompt.',
    });
  }
  return Buffer.concat(chunks);
}

const stopSignals: readonly StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

function listenForSignals(listener: (signal: StopSignal) => void): () => void {
  const stopListening = (): void => {
    for (const signal of stopSignals) process.off(signal, handle);
  };
  const handle = (signal: NodeJS.Signals): void => {
    stopListening();
    listener(signal as StopSignal);
  };
  for (const signal of stopSignals) process.on(signal, handle);
  return stopListening;
}
