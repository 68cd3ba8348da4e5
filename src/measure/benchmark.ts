/**
 * Compares drafting systems with plain decoding on the same prompts, in one process. Plain decoding and all systems
 * answer each prompt in turn, in rotating order, so that a machine that slows down or warms up affects all equally. A
 * record is kept only if every system answered its prompt.
 *
 * With a concurrency of n, n prompts are answered at once, by plain decoding and by every system alike.
 */
import { MistletoeError } from '../core/errors.js';
import type { SamplingOptions } from '../core/sampling.js';
import { Engine } from '../decode/engine/engine.js';
import { decodePlain, type Generation, type GenerationRequest } from '../decode/plain.js';
import type { PolicyChooser } from '../decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../decode/speculative.js';
import { encodePrompt, type Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { plainSystem, recordAnswer, type RequestRecord } from './benchmark-record.js';
import { summariseByCategory, summariseBySet, type SystemSummary } from './benchmark-summary.js';

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
  readonly signal?: AbortSignal;
}

export interface BenchmarkEvents {
  /** `total`: generations without the warm-up. */
  readonly onStart?: (total: number) => void;
  readonly onGeneration?: (progress: BenchmarkProgress) => void;
  readonly onRecord?: (record: RequestRecord) => void;
  readonly onNotice?: (message: string) => void;
}

export interface BenchmarkProgress {
  readonly done: number;
  readonly set: string;
  readonly system: string;
}

/** Throughput of prompts that are answered at the same time. */
export interface Throughput {
  readonly set: string;
  readonly system: string;
  readonly policy: string;
  /** All tokens of all answers over the time for them, prefill included. */
  readonly tokensPerSecond: number;
}

export interface BenchmarkResult {
  readonly records: readonly RequestRecord[];
  /** One per set and system, plain decoding first. */
  readonly summaries: readonly SystemSummary[];
  /** The same per category, for the sets that have more than one: a pooled number hides them. */
  readonly categories: readonly SystemSummary[];
  /** One per set and system where prompts were answered several at a time. */
  readonly together?: readonly Throughput[];
  readonly interrupted: boolean;
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
  checkSystems(options.systems);
  const sets = await encodeSets(options);
  const competitors = [undefined, ...options.systems];
  const total = sets.reduce((sum, { entries }) => sum + entries.length * competitors.length, 0);
  const records: RequestRecord[] = [];
  const { concurrency = 1 } = options;
  const together: Throughput[] = [];
  const isAborted = (): boolean => options.signal?.aborted === true;
  let done = 0;
  events.onStart?.(total);
  for (const { name: set, entries } of sets) {
    if (entries.length === 0) continue;
    const choosers = new Map(options.systems.map((system) => [system, system.createPolicy()]));
    const answer = (entry: EncodedPrompt, system: BenchmarkSystem | undefined, scheduler?: PassScheduler) =>
      answerWith({ options, events, entry, scheduler }, system, system && choosers.get(system));
    for (let round = 0; round < options.warmup && !isAborted(); round++) {
      for (const system of competitors) await answer(entries[round % entries.length]!, system);
    }
    const totals = new Map(competitors.map((system) => [system, { tokens: 0, ms: 0 }]));
    for (let start = 0; start < entries.length; start += concurrency) {
      if (isAborted()) break;
      const batch = entries.slice(start, start + concurrency);
      const generations = new Map<BenchmarkSystem | undefined, readonly Generation[]>();
      const times = new Map<BenchmarkSystem | undefined, number>();
      for (let turn = 0; turn < competitors.length && !isAborted(); turn++) {
        const system = competitors[(start / concurrency + turn) % competitors.length];
        const engine = new Engine({ concurrency });
        const startMs = performance.now();
        const answers = batch.map((entry) => engine.run((scheduler) => answer(entry, system, scheduler)));
        generations.set(system, await Promise.all(answers));
        times.set(system, performance.now() - startMs);
        done += batch.length;
        events.onGeneration?.({ done, set, system: nameOf(system).system });
      }
      if (isAborted()) break;
      for (const [system, total] of totals) {
        total.tokens += generations.get(system)!.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
        total.ms += times.get(system)!;
      }
      for (const [index, { prompt }] of batch.entries()) {
        for (const system of competitors) {
          const record = recordAnswer({
            set,
            prompt,
            ...nameOf(system),
            generation: generations.get(system)![index]!,
            plain: generations.get(undefined)![index]!,
            isGreedy: options.sampling.temperature === 0,
          });
          records.push(record);
          events.onRecord?.(record);
        }
      }
    }
    for (const [system, { tokens, ms }] of totals)
      if (ms > 0) together.push({ set, ...nameOf(system), tokensPerSecond: tokens / (ms / 1000) });
  }
  return {
    records,
    summaries: summariseBySet(records, options.seed),
    categories: summariseByCategory(records, options.seed),
    ...(concurrency > 1 ? { together } : {}),
    interrupted: isAborted(),
  };
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

interface AnswerTask {
  readonly options: BenchmarkOptions;
  readonly events: BenchmarkEvents;
  readonly entry: EncodedPrompt;
  readonly scheduler: PassScheduler | undefined;
}

async function answerWith(
  { options, events, entry: { promptIds, prompt, seed }, scheduler }: AnswerTask,
  system: BenchmarkSystem | undefined,
  policy: PolicyChooser | undefined,
): Promise<Generation> {
  const { target, maxNewTokens, sampling, signal } = options;
  const request: GenerationRequest = {
    promptIds,
    maxNewTokens,
    sampling,
    seed,
    stopIds: target.stopIds,
    tokenizer: target.tokenizer,
    scheduler,
    signal,
  };
  if (system === undefined || policy === undefined) return decodePlain(target.model, request);
  return decodeSpeculative(target.model, system.drafter, {
    ...request,
    policy,
    onNotice: (message) => events.onNotice?.(`${system.name}, prompt ${prompt.id}: ${message}`),
  });
}

function checkSystems(systems: readonly BenchmarkSystem[]): void {
  const seen = new Set<string>();
  for (const { name, policy } of systems) {
    const key = `${name} with ${policy}`;
    if (name === plainSystem.system || seen.has(key)) {
      throw new MistletoeError(
        'usage',
        `${key} is in the benchmark already; each system may be measured once.`,
        {
          hint: 'Give every drafter its own name and every policy once; plain decoding is always measured.',
        },
      );
    }
    seen.add(key);
  }
}
