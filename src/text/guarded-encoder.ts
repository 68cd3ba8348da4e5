/**
 * Encoding in a process of its own, for tokenizers with unusual parts and for texts of more than a megabyte. The
 * library is native code: a panic aborts the process that it happens in, and no catch helps; a backtracking split can
 * be made to run for ever by a prompt. Here that costs the request that caused it: the process is ended, the request
 * refused, and the next one starts another process.
 * It holds one request at a time, so that none is lost because of another.
 */
import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { MistletoeError } from '../core/errors.js';
import { readProcessUsage } from '../core/process-usage.js';

/** CPU time for a text of a few pages; a large tokenizer is given more to open. */
const baseMs = { open: 4000, encode: 3000 } as const;
const msPerMegabyte = 1000;
/** A usual tokenizer is slow on a long run of one letter, but ends. */
const usualMsPerMegabyte = 30_000;
const mebibyte = 1024 * 1024;
/** A process with an open tokenizer holds some 70 MiB; a suspect one can double what it holds within milliseconds. */
const mostBytes = { suspect: 200 * mebibyte, usual: 400 * mebibyte } as const;
const bytesPerByte = 30;
const watchMs = 10;
/** A hang guard where the system reports CPU time: the wait on a busy machine, in multiples of the limit. */
const longestWait = 20;

/** Ends that a trial of common text shows: letters, signs, blanks, other scripts, nothing, and a run of one letter. */
const trialTexts = [
  '',
  ' ',
  'The quick brown fox, 12345 (and 6.7)!\n\n\tdef f(x):\n    return x ** 2  # done',
  'Grüße, 你好, привет, مرحبا, 🙂👩‍👩‍👧 \u0000\ufffd',
  'a'.repeat(40),
  ' '.repeat(40),
];

interface Answer {
  readonly task: number;
  readonly result?: { readonly ids?: readonly (number | null)[]; readonly encoded?: number[][] };
  readonly error?: string;
}

export interface GuardedTokenizer {
  readonly path: string;
  readonly text: string;
  readonly added: readonly string[];
  /** Whether nothing about it is suspect, and only the texts are long. */
  readonly isUsual: boolean;
}

export class GuardedEncoder {
  private child: Promise<ChildProcess> | undefined;
  private running: ChildProcess | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private tasks = 0;
  /** What the library gives the added tokens, once it is open. */
  addedIds: readonly (number | null)[] = [];

  constructor(private readonly tokenizer: GuardedTokenizer) {}

  /** Opens it and encodes some common text: what fails at that is refused. */
  async try(): Promise<void> {
    await this.encodeBatch(trialTexts, true);
    await this.encodeBatch(trialTexts, false);
  }

  encodeBatch(texts: readonly string[], addSpecialTokens: boolean): Promise<number[][]> {
    const turn = this.last.then(() => this.encodeNow(texts, addSpecialTokens));
    this.last = turn.catch(() => undefined);
    return turn;
  }

  private async encodeNow(texts: readonly string[], addSpecialTokens: boolean): Promise<number[][]> {
    this.child ??= this.open();
    const child = await this.child;
    const size = texts.reduce((total, text) => total + text.length, 0);
    const answer = await this.ask(child, { kind: 'encode', texts, addSpecialTokens }, size, texts.length);
    return answer.encoded ?? [];
  }

  private async open(): Promise<ChildProcess> {
    const { text, added } = this.tokenizer;
    const program = fileURLToPath(new URL('./encoder-process.js', import.meta.url));
    const child = fork(program, [], {
      execArgv: ['--max-old-space-size=512'],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    // Ended from outside while nobody asks anything of it, it costs nothing: the next request starts another.
    this.running = child;
    child.once('exit', () => {
      if (this.running === child) this.child = undefined;
    });
    this.addedIds = (await this.ask(child, { kind: 'open', text, added }, text.length)).ids ?? [];
    return child;
  }

  private ask(
    child: ChildProcess,
    request: { readonly kind: 'open' | 'encode' } & Readonly<Record<string, unknown>>,
    sizeBytes: number,
    parallel = 1,
  ): Promise<NonNullable<Answer['result']>> {
    const task = (this.tasks += 1);
    const { isUsual, text } = this.tokenizer;
    const pace = isUsual ? usualMsPerMegabyte : msPerMegabyte;
    const limitMs = baseMs[request.kind] + (pace * sizeBytes) / mebibyte;
    const limitBytes = mostBytes[isUsual ? 'usual' : 'suspect'] + bytesPerByte * (sizeBytes + text.length);
    const before = child.pid === undefined ? undefined : readProcessUsage(child.pid);
    // The library encodes the texts of a batch in parallel, each within the limit.
    const limitCpuMs = limitMs * Math.max(1, Math.min(parallel, availableParallelism()));
    const slow = `it took more than ${(limitMs / 1000).toFixed(0)} s`;
    return new Promise((resolve, reject) => {
      const end = (why: string | undefined): void => {
        clearTimeout(timer);
        clearInterval(watch);
        child.off('message', onMessage).off('exit', onExit).off('error', onError);
        // An idle process keeps nobody waiting.
        child.unref();
        child.channel?.unref();
        if (why === undefined) return;
        this.child = undefined;
        child.kill('SIGKILL');
        reject(this.refuse(request.kind, why));
      };
      const onMessage = (answer: Answer): void => {
        if (answer.task !== task) return;
        end(answer.error);
        if (answer.error === undefined) resolve(answer.result ?? {});
      };
      const onExit = (code: number | null, signal: string | null): void => {
        end(`the tokenizers library ended with ${signal ?? `code ${code ?? ''}`}`);
      };
      const onError = (cause: Error): void => {
        end(cause.message);
      };
      const timer = setTimeout(end, before === undefined ? limitMs : longestWait * limitMs, slow);
      const watch = setInterval(() => {
        const usage = before === undefined ? undefined : readProcessUsage(child.pid!);
        if (before === undefined || usage === undefined) return;
        if (usage.cpuMs - before.cpuMs > limitCpuMs) end(slow);
        else if (usage.residentBytes > limitBytes)
          end(`it took more than ${Math.round(limitBytes / mebibyte)} MiB`);
      }, watchMs);
      child.ref();
      child.channel?.ref();
      child.on('message', onMessage).on('exit', onExit).on('error', onError);
      child.send({ task, ...request });
    });
  }

  private refuse(kind: 'open' | 'encode', why: string): MistletoeError {
    const what = kind === 'open' ? 'is not a usable tokenizer' : 'cannot encode a text';
    return new MistletoeError('text', `${this.tokenizer.path} ${what}: ${why}.`, {
      hint: this.tokenizer.isUsual
        ? 'Shorten the text; a long run of blanks or of one letter is more than the library can take.'
        : 'Use the tokenizer as the model’s authors published it; do not trust this one.',
    });
  }
}
