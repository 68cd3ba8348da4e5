/** Two engines side by side: the same tokens through both, answers compared, passes timed in turns. */
import { setTimeout as sleep } from 'node:timers/promises';
import { prefill } from '../src/decode/prompt-reading.js';
import type { CausalModel } from '../src/model/causal-model.js';
import type { KvCache } from '../src/model/cache/kv-cache.js';
import { formatTimes, median, printNote, printTable } from './stopwatch.js';

/** One sequence of an engine: it runs tokens behind its cache, gives the best next one, and can be truncated. */
export interface Contender {
  run(tokens: readonly number[], scores: 'all' | 'last'): Promise<void>;
  chooseGreedily(): Promise<number>;
  truncate(length: number): void;
}

export const decoding = (context: number): Task => ({
  name: `decoding, context ${context}`,
  context,
  rows: 1,
  scores: 'all',
});

export interface Task {
  readonly name: string;
  /** Tokens in the cache before every pass. */
  readonly context: number;
  readonly rows: number;
  readonly scores: 'all' | 'last';
}

const turns = 10;
/** Timed passes of each contender in a turn. */
const passes = 20;
/**
 * Turns end early when together they would take longer: where others use the processor, threads that wait for each other
 * can take a hundred times as long.
 */
const limitMs = 20_000;

type Named = readonly [name: string, contender: Contender];
/** Mistletoe first. */
export type Contenders = readonly [Named, ...Named[]];

export class MistletoeSequence implements Contender {
  private readonly cache: KvCache;
  private best = 0;

  constructor(private readonly model: CausalModel) {
    this.cache = model.createCache();
  }

  async run(tokens: readonly number[], scores: 'all' | 'last'): Promise<void> {
    const { model, cache } = this;
    if (scores === 'last') {
      this.best = (await prefill(model, cache, tokens, { want: ['argmax'] }))!.argmax!.at(-1)!;
      return;
    }
    const { rows, argmax } = await model.forward({
      tokens: Int32Array.from(tokens),
      cache,
      want: ['argmax'],
    });
    cache.appendAll(rows, tokens.length);
    rows.free();
    this.best = argmax!.at(-1)!;
  }

  chooseGreedily(): Promise<number> {
    return Promise.resolve(this.best);
  }

  truncate(length: number): void {
    this.cache.truncate(length);
  }
}

async function decode(
  contender: Contender,
  promptIds: readonly number[],
  newTokens: number,
): Promise<number[]> {
  contender.truncate(0);
  await contender.run(promptIds, 'last');
  const answer = [await contender.chooseGreedily()];
  while (answer.length < newTokens) {
    await contender.run(answer.slice(-1), 'all');
    answer.push(await contender.chooseGreedily());
  }
  return answer;
}

/** A cache in float16 may turn a close choice; with one in float32 every answer has to be Mistletoe's. */
export async function compareAnswers(
  [[, mistletoe], ...others]: Contenders,
  promptIds: readonly (readonly number[])[],
  newTokens: number,
): Promise<void> {
  const partings = new Map(others.map(([name]) => [name, [] as string[]]));
  for (const [index, prompt] of promptIds.entries()) {
    const expected = await decode(mistletoe, prompt, newTokens);
    for (const [name, contender] of others) {
      const answer = await decode(contender, prompt, newTokens);
      const place = answer.findIndex((token, position) => token !== expected[position]);
      if (place >= 0) partings.get(name)!.push(`prompt ${index + 1} at token ${place + 1}`);
    }
  }
  for (const [name, found] of partings) {
    const where = found.length === 0 ? '' : `; they part in ${found.join(', ')}`;
    printNote(
      `Greedy answers of ${newTokens} tokens equal to Mistletoe's: ${name} ${promptIds.length - found.length} of ${promptIds.length}${where}.`,
    );
  }
  if (partings.get(others.at(-1)![0])!.length > 0) process.exitCode = 1;
}

/** Milliseconds of every timed pass, by contender. */
async function measure(contenders: Contenders, task: Task): Promise<ReadonlyMap<string, readonly number[]>> {
  const { context, rows, scores } = task;
  const tokens = Array.from({ length: context + rows }, (_, index) => 300 + ((index * 37) % 3000));
  const newTokens = tokens.slice(context);
  for (const [, contender] of contenders) {
    contender.truncate(0);
    if (context > 0) await contender.run(tokens.slice(0, context), 'last');
  }
  const times = new Map(contenders.map(([name]) => [name, [] as number[]]));
  for (let turn = 0; turn < turns; turn++) {
    for (const [name, contender] of contenders) {
      // Threads of the engine before still wait for work; then the own weights and threads are woken up.
      await sleep(50);
      const endMs = performance.now() + limitMs / turns / contenders.length;
      let warmups = Math.ceil(passes / 5);
      let timed = 0;
      while (timed < passes && (timed === 0 || performance.now() < endMs)) {
        const startMs = performance.now();
        await contender.run(newTokens, scores);
        const passMs = performance.now() - startMs;
        contender.truncate(context);
        if (warmups > 0 && startMs < endMs) {
          warmups -= 1;
        } else {
          times.get(name)!.push(passMs);
          timed += 1;
        }
      }
    }
  }
  return times;
}

/** `speeds`: pairs of which the first is compared with the second, by the best passes and (by medians). */
export async function compareSpeed(
  title: string,
  contenders: Contenders,
  tasks: readonly Task[],
  speeds: readonly (readonly [own: string, base: string])[],
): Promise<void> {
  const names = contenders.map(([name]) => name);
  const table = [['best (median)', ...names, ...speeds.map(([own, base]) => `speed of ${own} over ${base}`)]];
  for (const task of tasks) {
    const times = await measure(contenders, task);
    const bestMs = (name: string): number => Math.min(...times.get(name)!);
    const medianMs = (name: string): number => median(times.get(name)!);
    const divide = (ms: (name: string) => number, own: string, base: string): string =>
      `${(ms(base) / ms(own)).toFixed(2)}x`;
    table.push([
      task.name,
      ...names.map((name) => formatTimes(times.get(name)!)),
      ...speeds.map(([own, base]) => `${divide(bestMs, own, base)} (${divide(medianMs, own, base)})`),
    ]);
  }
  printTable(table, title);
}
