/** Where a command reads and writes: the process in earnest, buffers in tests. */
import { isatty } from 'node:tty';
import pico from 'picocolors';

export interface Output {
  readonly isTerminal: boolean;
  /** How wide it is now; undefined where it is no terminal. */
  columns(): number | undefined;
  write(text: string): void;
}

export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readStdin(): Promise<string>;
  /** Aborts once nobody reads stdout any more (`| head`). */
  readonly closed: AbortSignal;
  /** Calls back at the first Ctrl-C; the returned function ends that, and a second Ctrl-C kills as usual. */
  onInterrupt(listener: () => void): () => void;
}

export type Colors = ReturnType<typeof pico.createColors>;

export function colorsFor(output: Output, { environment }: Terminal): Colors {
  const { NO_COLOR, FORCE_COLOR, TERM } = environment;
  const isForced = FORCE_COLOR !== undefined && FORCE_COLOR !== '0';
  const isRefused = (NO_COLOR !== undefined && NO_COLOR !== '') || FORCE_COLOR === '0';
  return pico.createColors(!isRefused && (isForced || (output.isTerminal && TERM !== 'dumb')));
}

/** What models and checkpoints contain must not steer the reader's terminal. */
export function withoutControls(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}

export function openProcessTerminal(): Terminal {
  const reader = new AbortController();
  const outputOf = (stream: NodeJS.WriteStream, descriptor: number): Output => {
    stream.on('error', (failure: NodeJS.ErrnoException) => {
      if (failure.code !== 'EPIPE') throw failure;
      reader.abort();
    });
    return {
      isTerminal: isatty(descriptor), // stream.isTTY is undefined for pipes, whatever its type says
      // So are its columns; a terminal of unknown size says 0.
      columns: () => (stream.columns > 0 ? stream.columns : undefined),
      write: (text) => {
        if (!reader.signal.aborted) stream.write(text);
      },
    };
  };
  return {
    stdout: outputOf(process.stdout, 1),
    stderr: outputOf(process.stderr, 2),
    environment: process.env,
    closed: reader.signal,
    async readStdin() {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString('utf8');
    },
    onInterrupt(listener) {
      process.once('SIGINT', listener);
      return () => process.off('SIGINT', listener);
    },
  };
}
