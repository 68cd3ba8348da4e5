/**
 * Encodes in a sandboxed process: tokenizers without a published structure, and texts of more than a megabyte. The
 * tokenizers library is native code: a panic aborts its process, and a prompt can make a backtracking split run forever.
 * In the sandbox, only the request that caused it fails; the next one starts a new process. The process stays open
 * between requests and handles one request at a time, so no request fails because of another.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { readProcessUsage } from '../../core/processes.js';

const mebibyte = 1024 * 1024;
/** CPU time for a text of a few pages; a large tokenizer or text gets more. */
const baseMs = { open: 2500, encode: 1500 } as const;
const msPerMebibyte = { suspect: 1500, published: 30_000 } as const;
/** Memory of a process with an open tokenizer, besides what it holds for each byte of tokenizer and text. */
const baseBytes = { suspect: 200 * mebibyte, published: 400 * mebibyte } as const;
const bytesPerByte = 30;
/** Characters of text that a process has memory for; a longer text restarts it with more. */
const minCapacity = mebibyte;

/** Encoded at opening, as most faults show there: letters, signs, blanks, other scripts, nothing, runs of one letter. */
const trialTexts = [
  '',
  ' ',
  'The quick brown fox, 12345 (and 6.7)!\n\n\tdef f(x):\n    return x ** 2  # done',
  'Grüße, 你好, привет, مرحبا, 🙂👩‍👩‍👧 \u0000\ufffd',
  'a'.repeat(40),
  ' '.repeat(40),
];

interface Answer {
  readonly ids?: readonly (number | null)[] | undefined;
  readonly encoded?: number[][] | undefined;
  readonly error?: string | undefined;
}

type Request = { readonly kind: 'open' | 'encode' } & Readonly<Record<string, unknown>>;

export interface SandboxedTokenizer {
  readonly path: string;
  readonly text: string;
  readonly added: readonly string[];
  /** The tokenizer is trusted; only the texts are too long for this process. */
  readonly isPublished: boolean;
}

interface Running {
  readonly child: ChildProcess;
  readonly capacity: number;
}

/**
 * Max idle processes of this thread, about 70 MB each: one for a target and one for a draft model. With more
 * tokenizers, the least recently used one loses its process and gets a new one when it is used again.
 */
const maxProcesses = 2;
/** Encoders with a process, the most recently used last. */
const open = new Set<SandboxedEncoder>();

export class SandboxedEncoder {
  private running: Running | undefined;
  private isBusy = false;
  private last: Promise<unknown> = Promise.resolve();
  /** The ids that the library gives to the added tokens, once it is open. */
  addedIds: readonly (number | null)[] = [];

  constructor(private readonly tokenizer: SandboxedTokenizer) {}

  /** Opens it and encodes some common text: a tokenizer that fails at that is refused. */
  async try(): Promise<void> {
    await this.inTurn(() => this.provide(0));
  }

  encodeBatch(texts: readonly string[], addSpecialTokens: boolean): Promise<number[][]> {
    return this.inTurn(async () => {
      const size = texts.reduce((total, text) => total + text.length, 0);
      const running = await this.provide(size);
      return (await this.ask(running, { kind: 'encode', texts, addSpecialTokens }, size)).encoded ?? [];
    });
  }

  private inTurn<Result>(action: () => Promise<Result>): Promise<Result> {
    const turn = this.last.then(action);
    this.last = turn.catch(() => undefined);
    return turn;
  }

  /** The open process, or a new one if it has ended or has too little memory for texts of this size. */
  private async provide(size: number): Promise<Running> {
    if (this.running !== undefined && this.running.capacity < size) this.end();
    this.running ??= await this.open(size);
    open.delete(this);
    open.add(this);
    const oldest = [...open].find((each) => !each.isBusy);
    if (open.size > maxProcesses && oldest !== this) oldest?.end();
    return this.running;
  }

  private async open(size: number): Promise<Running> {
    const { text, added, isPublished } = this.tokenizer;
    const capacity = Math.max(minCapacity, size);
    const base = baseBytes[isPublished ? 'published' : 'suspect'];
    const program = fileURLToPath(new URL('./encoder-process.js', import.meta.url));
    const child = startSandbox(program, base + bytesPerByte * (capacity + text.length));
    const running = { child, capacity };
    // If it is killed while idle, the next request starts another.
    child.once('exit', () => {
      if (this.running === running) this.forget();
    });
    const trial = isPublished ? [] : trialTexts;
    this.addedIds = (await this.ask(running, { kind: 'open', text, added, trial }, text.length)).ids ?? [];
    return running;
  }

  private end(): void {
    this.running?.child.kill('SIGKILL');
    this.forget();
  }

  private forget(): void {
    this.running = undefined;
    open.delete(this);
  }

  /** The process has no other request meanwhile. If this one fails, it is killed. */
  private async ask({ child }: Running, request: Request, sizeBytes: number): Promise<Answer> {
    const pace = msPerMebibyte[this.tokenizer.isPublished ? 'published' : 'suspect'];
    const limitMs = baseMs[request.kind] + (pace * sizeBytes) / mebibyte;
    const over = new AbortController();
    this.isBusy = true;
    child.ref();
    child.channel?.ref();
    child.send(request);
    try {
      return await Promise.race([receive(child, over.signal), limitCpuTime(child, limitMs, over.signal)]);
    } catch (cause) {
      this.forget();
      child.kill('SIGKILL');
      throw this.refuse(request.kind, describeCause(cause));
    } finally {
      over.abort();
      this.isBusy = false;
      // An idle process does not keep the program alive.
      child.unref();
      child.channel?.unref();
    }
  }

  private refuse(kind: 'open' | 'encode', why: string): MistletoeError {
    const what = kind === 'open' ? 'is not a usable tokenizer' : 'cannot encode a text';
    return new MistletoeError('text', `${this.tokenizer.path} ${what}: ${why}.`, {
      hint: this.tokenizer.isPublished
        ? 'Shorten the text; a long run of blanks or of one letter is more than the library can take.'
        : 'Use the tokenizer as the model’s authors published it; do not trust this one.',
    });
  }
}

async function receive(child: ChildProcess, signal: AbortSignal): Promise<Answer> {
  const exit = once(child, 'exit', { signal }).then((event) => {
    const [code, name] = event as [number | null, string | null];
    throw new Error(`the tokenizers library ended with ${name ?? `code ${code ?? ''}`}`);
  });
  const [answer] = (await Promise.race([once(child, 'message', { signal }), exit])) as unknown as [Answer];
  if (answer.error !== undefined) throw new Error(answer.error);
  return answer;
}

/**
 * Starts a process that may panic, hang or grow without harm to this one. On Linux the kernel limits its memory
 * (RLIMIT_DATA): polling would be too late when memory doubles within milliseconds or this thread is busy. Time limits
 * are CPU time, so a busy machine does not kill a process that only waits for a CPU.
 */
const shell = '/bin/sh';
/** Sets the limits and replaces itself with the program. A core dump could take minutes. */
const limitAndRun = (kibibytes: number): string =>
  `ulimit -c 0; ulimit -d ${kibibytes} 2>/dev/null; exec "$0" "$@"`;

/** What it takes to start Node. Native code that reads hostile files gets no password, proxy, or address of this process. */
const keptVariables: ReadonlySet<string> = new Set([
  'PATH',
  'LD_LIBRARY_PATH',
  'DYLD_LIBRARY_PATH',
  'SYSTEMROOT',
]);

function startSandbox(program: string, maxBytes: number): ChildProcess {
  const flags = ['--max-old-space-size=512'];
  const isBounded = process.platform === 'linux' && existsSync(shell);
  const script = limitAndRun(Math.ceil(maxBytes / 1024));
  const kept = Object.entries(process.env).filter(([name]) => keptVariables.has(name.toUpperCase()));
  return fork(program, [], {
    ...(isBounded
      ? { execPath: shell, execArgv: ['-c', script, process.execPath, ...flags] }
      : { execArgv: flags }),
    // One thread: the stacks of many would count as memory.
    env: { ...Object.fromEntries(kept), TOKENIZERS_PARALLELISM: 'false', RAYON_NUM_THREADS: '1' },
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
}

/** A process that waits for a CPU, or was stopped, may take this multiple of its CPU time by the clock. */
const maxWallFactor = 60;
const minWaitMs = 20;

/** Throws once the process has used this much more CPU time, or once it is aborted. */
async function limitCpuTime({ pid = 0 }: ChildProcess, limitMs: number, signal: AbortSignal): Promise<never> {
  const startMs = performance.now();
  const before = readProcessUsage(pid);
  let [usedMs, wallMs] = [0, 0];
  while (usedMs < limitMs && wallMs < maxWallFactor * limitMs) {
    const waitMs = Math.max(minWaitMs, limitMs - usedMs);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, waitMs).unref();
      signal.onabort = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    signal.throwIfAborted();
    wallMs = performance.now() - startMs;
    const now = readProcessUsage(pid);
    // Systems without /proc: use the clock.
    usedMs = before === undefined || now === undefined ? wallMs : now.cpuMs - before.cpuMs;
  }
  // This thread may have been busy: handle an answer that has already arrived first.
  await nextTurn();
  throw new Error(`it took more than ${(limitMs / 1000).toFixed(1)} s`);
}
