/**
 * Decodes many sequences at once; one is a batch of one. Each gets the result it would get alone. Number and memory of
 * running sequences are bounded; others wait in order.
 */
import { MistletoeError } from '../core/errors.js';
import { sum } from '../core/vector.js';
import type { Drafter } from '../draft/drafter.js';
import { countPositionBytes } from '../model/cache/cache-pool.js';
import type { CausalModel } from '../model/causal-model.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { GenerationRequest } from './request.js';
import { SharedPasses } from './shared-passes.js';
import type { ReadMember, StepMember, Steps } from './step.js';

/**
 * Bytes of keys and values of prompt and answer, in the target and the drafters. An upper bound: rows shared with
 * other forks of a prefix count for each.
 */
export function sequenceBytes(
  { promptIds, maxNewTokens }: Pick<GenerationRequest, 'promptIds' | 'maxNewTokens'>,
  { configuration }: Pick<CausalModel, 'configuration'>,
  drafter?: Drafter,
): number {
  const positions = Math.min(promptIds.length + maxNewTokens, configuration.contextLength);
  const drafting = drafter?.cacheSizes ?? drafter?.graph?.attention?.sizes;
  const sizes = drafting === undefined ? [configuration] : [configuration, drafting];
  return positions * sum(sizes.map(countPositionBytes));
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

export interface EngineLoad {
  readonly running: number;
  readonly waiting: number;
  /** Sum of the bytes that running sequences asked for. */
  readonly usedBytes: number;
}

interface Outcome {
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

export const defaultConcurrency = 8;
/** Of all engines: requests that follow each other may share a policy, which tells passes apart by it. */
let newestPass = 0;

export class Engine implements Steps {
  readonly passes: PassScheduler;
  private readonly shared = new SharedPasses(() => this.prompts.size + this.sequences.size);
  /** Being read and being answered, in the order in which they came. */
  private readonly prompts = new Map<ReadMember, Outcome>();
  private readonly sequences = new Map<StepMember, Outcome>();
  private isStepping = false;
  private steps = 0;
  /** When the last target pass over drafts ended; undefined while nothing is decoded. */
  private lastPassMs: number | undefined;
  private readonly concurrency: number;
  private readonly memoryBytes: number;
  private readonly waiting: Waiting[] = [];
  private running = 0;
  private usedBytes = 0;

  constructor({ concurrency = defaultConcurrency, memoryBytes = Infinity }: EngineOptions = {}) {
    this.passes = this.shared;
    this.concurrency = concurrency;
    this.memoryBytes = memoryBytes;
  }

  /**
   * One step of all sequences: each proposes drafts, the target reads them all in one pass, and each keeps what
   * verification accepts.
   */
  private async step(): Promise<void> {
    const promptMs = await this.readPrompts();
    const batch = [...this.sequences.keys()].map((sequence) => ({ sequence }));
    const [first] = batch;
    if (first === undefined) return;
    const now = (): number => first.sequence.now();
    const startMs = now();
    const drafted = await this.advance(batch, async ({ sequence }) => {
      return { sequence, tree: await sequence.propose() };
    });
    const draftedMs = now();
    const read = await this.advance(drafted, async ({ sequence, tree }) => {
      return { sequence, tree, pass: await sequence.read(tree) };
    });
    const readMs = now();
    const judged = await this.advance(read, async ({ sequence, tree, pass }) => {
      return { sequence, tree, pass, verdict: await sequence.judge(tree, pass) };
    });
    const times = { draftMs: draftedMs - startMs, readMs: readMs - draftedMs, judgeMs: now() - readMs };
    const shared = {
      pass: (newestPass += 1),
      batchSize: read.length,
      rows: Math.max(0, ...read.map(({ tree }) => tree.tokens.length)),
      stepMs: readMs - (this.lastPassMs ?? startMs) - promptMs,
    };
    this.lastPassMs = readMs;
    this.steps += 1;
    for (const { sequence, ...turn } of judged)
      this.settle(sequence, () => sequence.accept(turn, times, shared));
  }

  /** All short prompts, or the next part of a long one. */
  private async readPrompts(): Promise<number> {
    if (this.prompts.size === 0) return 0;
    const startMs = performance.now();
    const [first] = this.prompts.keys();
    const short = [...this.prompts.keys()].filter(({ isShort }) => isShort);
    await this.shared.forEach(
      short.length > 0 ? short : [first!],
      async (prompt) => {
        await prompt.readOn(this.passes);
        if (prompt.isDone) leave(this.prompts, prompt)?.resolve();
      },
      (prompt, cause) => leave(this.prompts, prompt)?.reject(cause),
    );
    return performance.now() - startMs;
  }

  private async advance<Turn extends { readonly sequence: StepMember }, Next>(
    turns: readonly Turn[],
    act: (turn: Turn) => Promise<Next>,
  ): Promise<readonly Next[]> {
    return this.shared.forEach(turns, act, ({ sequence }, cause) => {
      leave(this.sequences, sequence)?.reject(cause);
    });
  }

  private settle(sequence: StepMember, accept: () => boolean): void {
    try {
      if (!accept()) leave(this.sequences, sequence)?.resolve();
    } catch (cause) {
      leave(this.sequences, sequence)?.reject(cause);
    }
  }

  async read(prompt: ReadMember): Promise<void> {
    await this.join(this.prompts, prompt);
  }

  /** Reads the sequence's prompt and decodes until its answer ends. */
  async decode(sequence: StepMember): Promise<void> {
    await this.read(sequence.prompt);
    if (!sequence.hasEnded) await this.join(this.sequences, sequence);
  }

  private join<Member>(members: Map<Member, Outcome>, member: Member): Promise<void> {
    return new Promise((resolve, reject) => {
      members.set(member, { resolve, reject });
      if (this.isStepping) return;
      this.isStepping = true;
      // Others that come at the same time join the first step.
      setImmediate(() => void this.stepUntilIdle());
    });
  }

  private async stepUntilIdle(): Promise<void> {
    while (this.prompts.size + this.sequences.size > 0) await this.step();
    this.isStepping = false;
    this.lastPassMs = undefined;
  }

  /** Steps so far: target passes, but for those over prompts. */
  get targetPasses(): number {
    return this.steps;
  }

  get load(): EngineLoad {
    return { running: this.running, waiting: this.waiting.length, usedBytes: this.usedBytes };
  }

  /**
   * Decodes once there is room. `bytes`: upper bound for keys and values of prompt and answer, in target and drafter;
   * `signal` aborts the wait.
   */
  async run<Result>(
    decode: () => Promise<Result>,
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
    try {
      return await decode();
    } finally {
      if (isAdmitted) {
        this.running -= 1;
        this.usedBytes -= bytes;
        this.admit();
      }
    }
  }

  /** False if aborted before there was room. */
  private waitForRoom(bytes: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const waiting: Waiting = {
        bytes,
        start: () => {
          signal?.removeEventListener('abort', leaveQueue);
          resolve(true);
        },
      };
      const leaveQueue = (): void => {
        this.waiting.splice(this.waiting.indexOf(waiting), 1);
        resolve(false);
        this.admit(); // who came after it may fit
      };
      this.waiting.push(waiting);
      signal?.addEventListener('abort', leaveQueue, { once: true });
      if (signal?.aborted === true) leaveQueue();
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
}

function leave<Member>(members: Map<Member, Outcome>, member: Member): Outcome | undefined {
  const outcome = members.get(member);
  members.delete(member);
  return outcome;
}
