/**
 * Many answers at once. Every sequence is decoded by the function that decodes it alone (decodePlain,
 * decodeSpeculative); several of these run at the same time, and the passes that they ask for meet here. Whenever every
 * running sequence has asked for one, a step is made:
 *
 *   draw     tokens of the pass before, where a runtime draws them itself;
 *   draft    one run of a drafter's program for all the sequences that asked for it, until nobody asks for any;
 *   verify   one pass of the target over the rows of all sequences, and beside it one chunk of one prompt.
 *
 * Sequences that go on from a common prefix have passes of their own, which read it once for all of them, as long as that
 * pays (model/cache/shared-prefix.ts).
 *
 * What a sequence gets is what it would get alone, so answers do not depend on who else is there; how many run at once
 * is bounded by number and by memory, and the others wait in the order in which they came.
 */
import { MistletoeError } from '../../core/errors.js';
import type { LaneProgram, LaneRun } from '../../model/lanes/lane-program.js';
import { countRows, countSelected } from '../../model/lanes/lane-program.js';
import type { BatchStep, PassScheduler } from '../../model/lanes/pass-scheduler.js';
import type { SharedPrefix } from '../../model/cache/shared-prefix.js';
import type { MixedValues } from '../../runtime/program.js';

export interface EngineOptions {
  /** Sequences that run at the same time. */
  readonly concurrency?: number;
  /** Bytes that the running sequences may need together; without bound unless given. */
  readonly memoryBytes?: number;
}

export interface SequenceOptions {
  /** What it needs at most: keys and values of its prompt and its answer, in target and drafter. */
  readonly bytes?: number;
  /** Whoever waits for room and is aborted waits no longer: what decodes it sees the same signal and asks for nothing. */
  readonly signal?: AbortSignal | undefined;
}

interface Waiting {
  readonly bytes: number;
  readonly start: () => void;
}

/** A pass that a sequence waits for. */
interface Ask {
  readonly program: LaneProgram;
  readonly run: LaneRun;
  readonly outputs: readonly string[];
  /** Of the sequence that asks. */
  readonly log: { ms: number; step: BatchStep | undefined };
  readonly resolve: (values: MixedValues) => void;
  readonly reject: (cause: unknown) => void;
}

export interface EngineCounts {
  /** Runs of the target's programs, of drafters' programs, and of prompts' chunks among them. */
  readonly verifyRuns: number;
  readonly draftRuns: number;
  readonly promptRuns: number;
  /** Milliseconds spent inside programs. */
  readonly programMs: number;
}

/** Who is there at this moment. */
export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  /** What the running ones said that they need. */
  readonly usedBytes: number;
}

export const defaultConcurrency = 8;
/** A chunk of a prompt above this is read by itself: beside it, every other lane would be padded to its rows. */
const maxSharedRows = 16;

export class Engine {
  private readonly concurrency: number;
  private readonly memoryBytes: number;
  private readonly waiting: Waiting[] = [];
  private asks: Ask[] = [];
  private running = 0;
  private usedBytes = 0;
  /** Sequences that have asked at least once: the others are still being prepared and nobody waits for them. */
  private joined = 0;
  private isStepping = false;
  /** Passes of the target so far. */
  private targetPasses = 0;
  /** End of the last pass of the target; undefined while no sequence waits for passes. */
  private stepStartMs: number | undefined;
  private passEndMs: number | undefined;
  /** Time of the present step that goes to prompts. */
  private promptMs = 0;
  private counted = { verifyRuns: 0, draftRuns: 0, promptRuns: 0, programMs: 0 };

  constructor({ concurrency = defaultConcurrency, memoryBytes = Infinity }: EngineOptions = {}) {
    this.concurrency = concurrency;
    this.memoryBytes = memoryBytes;
  }

  get counts(): EngineCounts {
    return { ...this.counted };
  }

  get load(): EngineLoad {
    return { running: this.running, waiting: this.waiting.length, usedBytes: this.usedBytes };
  }

  /**
   * Decodes as soon as there is room.
   * @example
   * const engine = new Engine({ concurrency: 4 });
   * await Promise.all(requests.map((request) => engine.run((scheduler) => decodePlain(model, { ...request, scheduler }))));
   */
  async run<Result>(
    decode: (scheduler: PassScheduler) => Promise<Result>,
    { bytes = 0, signal }: SequenceOptions = {},
  ): Promise<Result> {
    if (bytes > this.memoryBytes) {
      throw new MistletoeError(
        'context',
        `The sequence needs ${bytes} bytes of keys and values; the engine has ${this.memoryBytes} for all of them.`,
        { hint: 'Shorten the prompt, ask for fewer new tokens, or give the engine more memory.' },
      );
    }
    const isAdmitted = await this.waitForRoom(bytes, signal);
    const sequence = { hasJoined: false };
    const log = { ms: 0, step: undefined };
    const scheduler: PassScheduler = {
      log,
      run: (program, run, outputs) => {
        if (!sequence.hasJoined) this.joined += 1;
        sequence.hasJoined = true;
        return this.ask({ program, run, outputs, log });
      },
    };
    try {
      return await decode(scheduler);
    } finally {
      if (isAdmitted) {
        this.running -= 1;
        this.usedBytes -= bytes;
      }
      if (sequence.hasJoined) this.joined -= 1;
      if (this.joined === 0) this.stepStartMs = this.passEndMs = undefined;
      this.admit();
      this.stepIfReady();
    }
  }

  /** False if it was aborted before there was room. */
  private waitForRoom(bytes: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting: Waiting = {
        bytes,
        start: () => {
          signal?.removeEventListener('abort', leave);
          resolve(true);
        },
      };
      const leave = (): void => {
        this.waiting.splice(this.waiting.indexOf(waiting), 1);
        resolve(false);
        this.admit(); // who came after it may fit
      };
      this.waiting.push(waiting);
      signal?.addEventListener('abort', leave, { once: true });
      if (signal?.aborted === true) leave();
      else this.admit();
    });
  }

  private admit(): void {
    for (;;) {
      const [next] = this.waiting;
      if (next === undefined || this.running >= this.concurrency) return;
      if (this.usedBytes + next.bytes > this.memoryBytes) return;
      this.waiting.shift();
      this.running += 1;
      this.usedBytes += next.bytes;
      next.start();
    }
  }

  private ask(asked: Omit<Ask, 'resolve' | 'reject'>): Promise<MixedValues> {
    return new Promise((resolve, reject) => {
      this.asks.push({ ...asked, resolve, reject });
      this.stepIfReady();
    });
  }

  private stepIfReady(): void {
    if (this.isStepping || this.asks.length === 0 || this.asks.length < this.joined) return;
    this.isStepping = true;
    void this.step().finally(() => {
      this.isStepping = false;
      this.stepIfReady();
    });
  }

  /** One run for each group of asks that go together; every ask that is answered lets its sequence go on. */
  private async step(): Promise<void> {
    const early = this.asks.filter(({ program }) => program.stage !== 'verify');
    const eligible = early.length > 0 ? early : this.asks;
    const [firstChunk] = eligible.filter(readsPrompt);
    const shared = eligible.filter((ask) => !readsPrompt(ask));
    const groups = [...groupAsks(shared), ...(firstChunk === undefined ? [] : [[firstChunk]])];
    const chosen = new Set(groups.flat());
    this.asks = this.asks.filter((ask) => !chosen.has(ask));
    if (early.length > 0) {
      for (const group of groups) await this.answer(group);
      return;
    }
    this.targetPasses += 1;
    const batch = { batchSize: shared.length, rows: Math.max(0, ...shared.map(({ run }) => countRows(run))) };
    for (const group of groups) await this.answer(group, group[0] === firstChunk ? undefined : batch);
    this.stepStartMs = this.passEndMs;
    this.promptMs = 0;
  }

  private async answer(group: readonly Ask[], batch?: Pick<BatchStep, 'batchSize' | 'rows'>): Promise<void> {
    const [{ program }] = group as [Ask];
    const isPrompt = group.some(readsPrompt);
    if (isPrompt) this.counted.promptRuns += 1;
    else if (program.stage !== 'draw') this.counted[`${program.stage}Runs`] += 1;
    const startMs = performance.now();
    try {
      const results = await program.run(
        group.map(({ run }) => run),
        group.map(({ outputs }) => outputs),
      );
      const endMs = (this.passEndMs = performance.now());
      const passMs = endMs - startMs;
      this.counted.programMs += passMs;
      if (isPrompt) this.promptMs += passMs;
      const stepMs = endMs - (this.stepStartMs ?? startMs) - this.promptMs;
      const step = batch && { ...batch, pass: this.targetPasses, stepMs };
      group.forEach(({ resolve, log }, index) => {
        log.ms += passMs;
        log.step = step ?? log.step;
        resolve(results[index]!);
      });
    } catch (cause) {
      // One sequence's fault is not the others': each is tried by itself.
      if (group.length === 1) group[0]!.reject(cause);
      else for (const ask of group) await this.answer([ask]);
    }
  }
}

/** A long read of which only the last row is wanted. */
function readsPrompt({ run }: Ask): boolean {
  const rows = countRows(run);
  return rows > maxSharedRows && countSelected(run) < rows;
}

/** By program and shared prefix. */
function groupAsks(asks: readonly Ask[]): readonly (readonly Ask[])[] {
  const groups: {
    readonly program: LaneProgram;
    readonly prefix: SharedPrefix | undefined;
    readonly asks: Ask[];
  }[] = [];
  for (const ask of asks) {
    const { program } = ask;
    const prefix = program.prefixOf(ask.run);
    const group = groups.find((other) => other.program === program && other.prefix === prefix);
    if (group === undefined) groups.push({ program, prefix, asks: [ask] });
    else group.asks.push(ask);
  }
  return groups.map((group) => group.asks);
}
