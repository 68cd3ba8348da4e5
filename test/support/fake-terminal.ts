import type { Terminal } from '../../src/cli/terminal.js';

export interface FakeTerminal extends Terminal {
  readonly written: { out: string; err: string };
}

export interface FakeTerminalOptions {
  readonly stdin?: string;
  readonly isTerminal?: boolean;
  /** Of a terminal; asked each time, so that it can be made narrower meanwhile. */
  readonly columns?: () => number | undefined;
  readonly environment?: Terminal['environment'];
  /** Called after each write to stdout, with ways to disturb. */
  readonly onWrite?: (actions: { interrupt: () => void; closeReader: () => void }) => void;
}

/** A terminal that remembers what was written to it. */
export function createFakeTerminal(options: FakeTerminalOptions = {}): FakeTerminal {
  const { stdin = '', isTerminal = false, environment = {}, onWrite } = options;
  const columns = options.columns ?? (() => (isTerminal ? 80 : undefined));
  const written = { out: '', err: '' };
  const reader = new AbortController();
  let interrupt = (): void => undefined;
  return {
    written,
    environment,
    closed: reader.signal,
    stdout: {
      isTerminal,
      columns,
      write(text) {
        if (!reader.signal.aborted) written.out += text;
        onWrite?.({
          interrupt: () => {
            interrupt();
          },
          closeReader: () => {
            reader.abort();
          },
        });
      },
    },
    stderr: {
      isTerminal,
      columns,
      write(text) {
        written.err += text;
      },
    },
    readStdin: () => Promise.resolve(stdin),
    onInterrupt(listener) {
      interrupt = listener;
      return () => {
        interrupt = () => undefined;
      };
    },
  };
}
