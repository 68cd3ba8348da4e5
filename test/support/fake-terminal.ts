import type { Output, StopSignal, Terminal } from '../../src/cli/terminal.js';
import { createOutput } from '../../src/cli/terminal.js';

export interface FakeTerminal extends Terminal {
  readonly written: { out: string; err: string };
}

export interface FakeTerminalOptions {
  readonly stdin?: string | Uint8Array;
  readonly isTerminal?: boolean;
  /** Of a terminal; asked each time, so that it can be made narrower meanwhile. */
  readonly columns?: () => number | undefined;
  readonly environment?: Terminal['environment'];
  /** Called after each write to stdout, with ways to disturb. */
  readonly onWrite?: (actions: Disturbances) => void;
  /** Called after each write to stderr. */
  readonly onError?: (text: string, actions: Disturbances) => void;
}

export interface Disturbances {
  readonly interrupt: (signal?: StopSignal) => void;
  readonly closeReader: () => void;
}

/** A terminal that remembers what was written to it, cleaned as by the real one. */
export function createFakeTerminal(options: FakeTerminalOptions = {}): FakeTerminal {
  const { stdin = '', isTerminal = false, environment = {}, onWrite, onError } = options;
  const columns = options.columns ?? (() => (isTerminal ? 80 : undefined));
  const written = { out: '', err: '' };
  const reader = new AbortController();
  let listener: ((signal: StopSignal) => void) | undefined;
  let received: StopSignal | undefined;
  const actions: Disturbances = {
    interrupt(signal = 'SIGINT') {
      if (listener === undefined) return;
      received = signal;
      listener(signal);
    },
    closeReader() {
      reader.abort();
    },
  };
  const outputOf = (write: (text: string) => void): Output => createOutput({ isTerminal, columns, write });
  return {
    written,
    environment,
    closed: reader.signal,
    stdout: outputOf((text) => {
      if (!reader.signal.aborted) written.out += text;
      onWrite?.(actions);
    }),
    stderr: outputOf((text) => {
      written.err += text;
      onError?.(text, actions);
    }),
    readStdin: () => Promise.resolve(Buffer.from(stdin)),
    onInterrupt(given) {
      listener = given;
      return () => {
        listener = undefined;
      };
    },
    interruption: () => received,
    settle: () => Promise.resolve(undefined),
  };
}
