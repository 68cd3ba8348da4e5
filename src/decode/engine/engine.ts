/**
 * Decodes many sequences at once. Each runs decodePlain or decodeSpeculative and asks for passes; once every running
 * sequence waits for one, the engine makes a step:
 * draw: tokens of the previous pass, if the runtime draws them
 * draft: one run of a drafter's program for all sequences that ask, until none asks
 * verify: one target pass over the rows of all sequences, plus one chunk of one prompt
 * Sequences that share a prefix have passes of their own that read it once (model/cache/cache-pool.ts).
 * Each sequence gets the result it would get alone. Number and memory of running sequences are bounded; others wait
 * in order.
 */
import { MistletoeError } from '../../core/errors.js';
import { sum } from '../../core/vector.js';
import type { Drafter } from '../../draft/drafter.js';
import { countPositionBytes } from '../../model/cache/cache-pool.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { BatchStep, LaneProgram, LaneRun, PassScheduler } from '../../model/lanes/lane-program.js';
import { countRows, countSelected } from '../../model/lanes/lane-program.js';
import type { MixedValues } from '../../runtime/program.js';
import type { GenerationRequest } from '../plain.js';

/**
 * Bytes of keys and values of prompt and answer, in the target and the drafters. An upper bound: rows shared with
 * other forks of a prefix count for each.
 */
export function sequenceBytes(
  { promptIds, maxNewTokens }: Pick<GenerationRequest, 'promptIds' | 'maxNewTokens'>,
  { configuration }: Pick<CausalModel, 'configuration'>,
  drafters: readonly Drafter[] = [],
): number {
  const positions = Math.min(promptIds.length + maxNewTokens, configuration.contextLength);
  const drafting = drafters.flatMap(({ cacheSizes, graph }) => cacheSizes ?? graph?.attention?.sizes ?? []);
  return positions * sum([configuration, ...drafting].map(countPositionBytes));
}

export interface EngineOptions {
  readonly concurrency?: number | undefined;
  /** Max bytes of all running sequences; default unlimited. */
  readonly memoryBytes?: number | undefined;
}

interface Waiting {
  readonly bytes: number;
  readonly start: () => void;
}

interface Ask {
  readonly program: LaneProgram;
  readonly run: LaneRun;
  readonly outputs: readonly string[];
  readonly log: { ms: number; step: BatchStep | undefined };
  readonly resolve: (values: MixedValues) => void;
  readonly reject: (cause: unknown) => void;
}

export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  /** Sum of the bytes that running sequences asked for. */
  readonly usedBytes: number;
}

export const defaultConcurrency = 8;
/** Longer prompt chunks run alone: other lanes would be padded to their rows. */
const maxSharedRows = 16;

export class Engine {
  private readonly concurrency: number;
  private readonly memoryBytes: number;
  private readonly waiting: Waiting[] = [];
  private asks: Ask[] = [];
  private running = 0;
  private usedBytes = 0;
  /** Sequences that have asked at least once; nobody waits for the others. */
  private joined = 0;
  private isStepping = false;
  private targetPasses = 0;
  /** End of the last target pass; undefined while no sequence waits. */
  private stepStartMs: number | undefined;
  private passEndMs: number | undefined;
  /** Time of the present step spent on prompts. */
  private promptMs = 0;
  private counted = { verifyRuns: 0, draftRuns: 0, promptRuns: 0, programMs: 0 };

  constructor({ concurrency = defaultConcurrency, memoryBytes = Infinity }: EngineOptions = {}) {
    this.concurrency = concurrency;
    this.memoryBytes = memoryBytes;
  }

  get counts() {
    return { ...this.counted };
  }

  get load(): EngineLoad {
    return { running: this.running, waiting: this.waiting.length, usedBytes: this.usedBytes };
  }

  /**
   * Decodes once there is room. `bytes`: upper bound for keys and values of prompt and answer, in target and drafter;
   * `signal` aborts the wait.
   */
  async run<Result>(
    decode: (scheduler: PassScheduler) => Promise<Result>,
    { bytes = 0, signal }: { readonly bytes?: number; readonly signal?: AbortSignal | undefined } = {},
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
    const isAlone = (): boolean => this.running === 1;
    const scheduler: PassScheduler = {
      log,
      get isAlone() {
        return isAlone();
      },
      run: (program, run, outputs) => {
        if (!sequence.hasJoined) this.joined += 1;
        sequence.hasJoined = true;
        return new Promise((resolve, reject) => {
          this.asks.push({ program, run, outputs, log, resolve, reject });
          this.stepIfReady();
        });
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

  /** False if aborted before there was room. */
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

  private stepIfReady(): void {
    if (this.isStepping || this.asks.length === 0 || this.asks.length < this.joined) return;
    this.isStepping = true;
    void this.step().finally(() => {
      this.isStepping = false;
      this.stepIfReady();
    });
  }

  /** One run per group of asks that go together. */
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
      // Retried one by one, so that one sequence's failure does not affect the others.
      if (group.length === 1) group[0]!.reject(cause);
      else for (const ask of group) await this.answer([ask]);
    }
  }
}

/** A long read of which only the last row is needed. */
function readsPrompt({ run }: Ask): boolean {
  const rows = countRows(run);
  return rows > maxSharedRows && countSelected(run) < rows;
}

function groupAsks(asks: readonly Ask[]): readonly (readonly Ask[])[] {
  const groups: Ask[][] = [];
  for (const ask of asks) {
    const prefix = ask.program.prefixOf(ask.run);
    const group = groups.find(
      ([first]) =>
        first!.program === ask.program &&
        first!.program.prefixOf(first!.run) === prefix &&
        (first!.run.into ?? ask.run.into) === undefined,
    );
    if (group === undefined) groups.push([ask]);
    else group.push(ask);
  }
  return groups;
}
