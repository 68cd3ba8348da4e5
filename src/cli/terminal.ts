/** Where a command reads and writes: the process in earnest, buffers in tests. */
import { isatty } from 'node:tty';
import { maxTextBytes } from '../core/files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { cleanForReaders, isCursorSequence, openColors } from './clean-text.js';
import type { Colors } from './colors.js';
import { createColors } from './colors.js';

export type { Colors } from './colors.js';

/** The one place where text is cleaned on its way out, so that no caller can forget it. */
export interface Output {
  readonly isTerminal: boolean;
  /** How wide it is now; undefined where it is no terminal. */
  columns(): number | undefined;
  /** Words for readers, cleaned wherever they go: logs end up on terminals, too. */
  write(text: string): void;
  /** A model's text, or JSON: byte for byte into a file or a pipe, cleaned on a terminal. */
  writeData(text: string): void;
  /** Moves the cursor and clears lines; whatever else is in it is cleaned. */
  steer(sequence: string): void;
}

export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP';

export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readStdin(): Promise<Uint8Array>;
  /** Aborts once what is written reaches nobody any more (`| head`, a full disk). */
  readonly closed: AbortSignal;
  /**
   * Calls back at the first Ctrl-C, SIGTERM or SIGHUP; the returned function ends that. A second one kills as usual.
   */
  onInterrupt(listener: (signal: StopSignal) => void): () => void;
  /** What a listener was called for, if one was. */
  interruption(): StopSignal | undefined;
  /** Waits until everything is written, and returns what prevented it; a reader that went away is no failure. */
  settle(): Promise<MistletoeError | undefined>;
}

/** What an Output writes to: nothing is checked behind it. */
export interface Sink {
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
      if (isCursorSequence(sequence)) sink.write(sequence);
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

/** Nothing is written any more once a write has failed: there would be a gap in the middle. */
function openStream(
  stream: NodeJS.WriteStream,
  descriptor: number,
  name: string,
  onStop: () => void,
): StreamSink {
  const isTerminal = isatty(descriptor); // stream.isTTY is undefined for pipes, whatever its type says
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
    // Undefined for pipes, too; a terminal of unknown size says 0.
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
        // The failure of an earlier write is told by an event of its own, which may come a moment later.
        else stream.write('', () => setImmediate(resolve));
      }),
    fault: () => fault,
  };
}

/** The reader of a pipe has ended, or the terminal was closed: there is nobody to tell. */
function isGone(cause: unknown, isTerminal: boolean): boolean {
  const { code } = cause as NodeJS.ErrnoException;
  return code === 'EPIPE' || (isTerminal && code === 'EIO');
}

function describeFault(name: string, cause: unknown): MistletoeError {
  return new MistletoeError('runtime', `${name} cannot be written: ${describeCause(cause)}.`, {
    hint: 'Make room where it goes, or send it elsewhere, and run the command again.',
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
    throw new MistletoeError('text', `stdin has more than ${maxTextBytes} bytes, the most that is read.`, {
      hint: 'Send the prompt alone.',
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
