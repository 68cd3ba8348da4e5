/**
 * Compares drafting systems with plain decoding on the same prompts, in one process. Plain decoding and all systems
 * answer each prompt in turn, in rotating order, so that a machine that slows down or warms up affects all equally. A
 * record is kept only if every system answered its prompt.
 *
 * With a concurrency of n, n prompts are answered at once, by plain decoding and by every system alike.
 */
import { MistletoeError } from '../core/errors.js';
import type { SamplingOptions } from '../core/sampling.js';
import { Engine } from '../decode/engine.js';
import { decodePlain } from '../decode/generate.js';
import { type Generation } from '../decode/request.js';
import type { PolicyChooser } from '../decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../decode/generate.js';
import { encodePrompt, type Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import {
  type BenchmarkResult,
  type MeasuredUnit,
  type RequestRecord,
  collectBenchmark,
  plainSystem,
  recordAnswer,
} from './benchmark-summary.js';

export interface BenchmarkSystem {
  readonly name: string;
  /** As a user writes it; name and policy together are unique. */
  readonly policy: string;
  readonly drafter: Drafter;
  /** Called once for each prompt set: what `auto` learns on one set must not help it on the next. */
  readonly createPolicy: () => PolicyChooser;
}

export interface PromptSet {
  readonly name: string;
  readonly prompts: readonly Prompt[];
}

export interface BenchmarkOptions {
  readonly target: Target;
  readonly systems: readonly BenchmarkSystem[];
  readonly promptSets: readonly PromptSet[];
  /** Prompts of each set to use; all by default. */
  readonly limit?: number | undefined;
  readonly maxNewTokens: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
  /** Generations of each system on each set before anything is counted. */
  readonly warmup: number;
  /** Prompts that are answered at the same time; one by default. */
  readonly concurrency?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface BenchmarkEvents {
  /** `total`: generations without the warm-up. */
  readonly onStart?: (total: number) => void;
  readonly onGeneration?: (
    progress: Pick<UnitProgress, 'set' | 'system'> & { readonly done: number },
  ) => void;
  readonly onRecord?: (record: RequestRecord) => void;
  readonly onNotice?: (message: string) => void;
}

/**
 * @example
 * const { summaries } = await runBenchmark({
 *   target, systems, promptSets, maxNewTokens: 96, sampling: { temperature: 0 }, seed: 0, warmup: 1,
 * });
 */
export async function runBenchmark(
  options: BenchmarkOptions,
  events: BenchmarkEvents = {},
): Promise<BenchmarkResult> {
  const runner = await BenchmarkRunner.open(options, events);
  return runner.runAll(events);
}

/** Prompts of a set, from `start` on, that are answered at the same time. */
export interface BenchmarkUnit {
  readonly set: number;
  readonly start: number;
}

export interface UnitProgress {
  readonly answers: number;
  readonly set: string;
  readonly system: string;
}

type Choosers = ReadonlyMap<BenchmarkSystem, PolicyChooser>;

/** Measures units in this process. Each set is warmed up before its first unit. */
export class BenchmarkRunner {
  readonly units: readonly BenchmarkUnit[];
  /** Answers of all units. */
  readonly total: number;
  private readonly competitors: readonly (BenchmarkSystem | undefined)[];
  private readonly concurrency: number;
  private readonly warm = new Map<number, Choosers>();

  private constructor(
    private readonly options: BenchmarkOptions,
    private readonly events: Pick<BenchmarkEvents, 'onNotice'>,
    private readonly sets: Awaited<ReturnType<typeof encodeSets>>,
  ) {
    this.competitors = [undefined, ...options.systems];
    this.concurrency = options.concurrency ?? 1;
    this.total = sets.reduce((sum, { entries }) => sum + entries.length, 0) * this.competitors.length;
    this.units = sets.flatMap(({ entries }, set) =>
      Array.from({ length: Math.ceil(entries.length / this.concurrency) }, (_, index) => ({
        set,
        start: index * this.concurrency,
      })),
    );
  }

  static async open(
    options: BenchmarkOptions,
    events: Pick<BenchmarkEvents, 'onNotice'> = {},
  ): Promise<BenchmarkRunner> {
    checkSystems(options.systems);
    return new BenchmarkRunner(options, events, await encodeSets(options));
  }

  async runAll(events: BenchmarkEvents): Promise<BenchmarkResult> {
    const measured: MeasuredUnit[] = [];
    let done = 0;
    events.onStart?.(this.total);
    for (const unit of this.units) {
      const answered = await this.run(unit, ({ answers, set, system }) => {
        done += answers;
        events.onGeneration?.({ done, set, system });
      });
      if (answered === undefined) break;
      measured.push(answered);
      for (const record of answered.records) events.onRecord?.(record);
    }
    return collectBenchmark(measured, this.options);
  }

  /** Undefined if it was interrupted. */
  async run(
    { set: index, start }: BenchmarkUnit,
    onProgress: (progress: UnitProgress) => void = () => undefined,
  ): Promise<MeasuredUnit | undefined> {
    const { competitors, concurrency, options } = this;
    const { name: set, entries } = this.sets[index]!;
    const choosers = await this.warmUp(index);
    const batch = entries.slice(start, start + concurrency);
    const measured = new Map<BenchmarkSystem | undefined, { answers: readonly Generation[]; ms: number }>();
    for (let turn = 0; turn < competitors.length && !this.isAborted; turn++) {
      const system = competitors[(start / concurrency + turn) % competitors.length];
      const engine = new Engine({ concurrency });
      const startMs = performance.now();
      const answers = await Promise.all(
        batch.map((entry) => engine.run(() => this.answer(entry, system, choosers, engine))),
      );
      measured.set(system, { answers, ms: performance.now() - startMs });
      onProgress({ answers: batch.length, set, system: nameOf(system).system });
    }
    if (this.isAborted) return undefined;
    const isGreedy = options.sampling.temperature === 0;
    const plains = measured.get(undefined)!.answers;
    const records = batch.flatMap(({ prompt }, place) =>
      competitors.map((system) => {
        const generation = measured.get(system)!.answers[place]!;
        return recordAnswer({ set, prompt, ...nameOf(system), generation, plain: plains[place]!, isGreedy });
      }),
    );
    const times = competitors.map((system) => ({ set, ...nameOf(system), ms: measured.get(system)!.ms }));
    return { records, times };
  }

  private get isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }

  private async warmUp(set: number): Promise<Choosers> {
    const known = this.warm.get(set);
    if (known !== undefined) return known;
    const { systems, warmup } = this.options;
    const { entries } = this.sets[set]!;
    const choosers = new Map(systems.map((system) => [system, system.createPolicy()]));
    for (let round = 0; round < warmup && !this.isAborted; round++)
      for (const system of this.competitors)
        await this.answer(entries[round % entries.length]!, system, choosers);
    this.warm.set(set, choosers);
    return choosers;
  }

  private answer(
    entry: EncodedPrompt,
    system: BenchmarkSystem | undefined,
    choosers: Choosers,
    engine?: Engine,
  ): Promise<Generation> {
    const { target, maxNewTokens, sampling, signal } = this.options;
    const { promptIds, prompt, seed } = entry;
    const { stopIds, tokenizer } = target;
    const request = { promptIds, maxNewTokens, sampling, seed, stopIds, tokenizer, engine, signal };
    const policy = system && choosers.get(system);
    if (system === undefined || policy === undefined) return decodePlain(target.model, request);
    const onNotice = (message: string): void =>
      this.events.onNotice?.(`${system.name}, prompt ${prompt.id}: ${message}`);
    return decodeSpeculative(target.model, system.drafter, { ...request, policy, onNotice });
  }
}

function nameOf(system: BenchmarkSystem | undefined): { readonly system: string; readonly policy: string } {
  return system === undefined ? plainSystem : { system: system.name, policy: system.policy };
}

interface EncodedPrompt {
  readonly prompt: Prompt;
  readonly promptIds: readonly number[];
  readonly seed: number;
}

/** Before the first generation, so that a prompt that does not fit is refused at once. */
function encodeSets({ target, promptSets, limit, seed }: BenchmarkOptions) {
  return Promise.all(
    promptSets.map(async ({ name, prompts }) => ({
      name,
      entries: await Promise.all(
        prompts.slice(0, limit).map(async (prompt, index): Promise<EncodedPrompt> => {
          const promptIds = await encodePrompt(target, prompt.text, {
            name: `Prompt ${prompt.id} of ${name}`,
          });
          return { prompt, promptIds, seed: seed + index };
        }),
      ),
    })),
  );
}

function checkSystems(systems: readonly BenchmarkSystem[]): void {
  const keys = [plainSystem, ...systems.map(({ name, policy }) => ({ system: name, policy }))].map(
    ({ system, policy }) => (system === plainSystem.system ? system : `${system} with ${policy}`),
  );
  const repeated = keys.find((key, index) => keys.indexOf(key) < index);
  if (repeated === undefined) return;
  throw new MistletoeError(
    'usage',
    `${repeated} is in the benchmark already; each system may be measured once.`,
    { hint: 'Give every drafter its own name and every policy once; plain decoding is always measured.' },
  );
}
