/**
 * Sequences that go on from a common prefix read it in place, and are what they are alone: their scores, on every
 * runtime and through a sliding window, and their answers, in random mixes of prefixes, drafters, arrivals and aborts.
 */
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRandom } from '../../src/core/random.js';
import { Engine } from '../../src/decode/engine.js';
import { prefill, type ReadPrefix, readPrefix } from '../../src/decode/prompt-reading.js';
import type { SpeculativeRequest } from '../../src/decode/request.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadModel } from '../../src/model/causal-model.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import type { KvCache } from '../../src/model/cache/kv-cache.js';
import type { LaneRun, PassScheduler } from '../../src/model/lanes/lane-program.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { MixedValues, Runtime } from '../../src/runtime/program.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { casesOfTier, isFullTier } from '../support/tier.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const sizes = { ...tiny, contextLength: 256 };
const draw = (name: string, count: number): number[] => randomTokens(name, count, sizes.vocabularySize);

/** Makes one run of so many asks. */
function meet(count: number): PassScheduler {
  const asks: { run: LaneRun; outputs: readonly string[]; resolve: (values: MixedValues) => void }[] = [];
  return {
    isAlone: false,
    run: (program, run, outputs) =>
      new Promise((resolve, reject) => {
        asks.push({ run, outputs, resolve });
        if (asks.length < count) return;
        const runs = asks.map((ask) => ask.run);
        const wanted = asks.map((ask) => ask.outputs);
        program.run(runs, wanted).then((results) => {
          asks.forEach((ask, index) => {
            ask.resolve(results[index]!);
          });
        }, reject);
      }),
  };
}

async function read(model: CausalModel, cache: KvCache, tokens: readonly number[]): Promise<KvCache> {
  if (tokens.length > 0) await prefill(model, cache, tokens, { want: [] });
  return cache;
}

const runtimes: readonly (readonly [string, () => Runtime])[] = [
  ['the interpreter', createInterpreter],
  ['ONNX Runtime', () => createOnnxRuntime({ threads: 1 })],
  ...(findCompiler() === undefined
    ? []
    : [['CUDA', () => createCudaRuntime(createEmulatedDevice())] as const]),
];

describe.skipIf(isFullTier).each(runtimes)('forks on %s', (_, createRuntime) => {
  const temporary = makeTemporaryFolder();
  let runtime: Runtime;
  beforeAll(() => {
    runtime = createRuntime();
  });
  afterAll(async () => {
    await runtime.dispose();
    temporary.remove();
  });

  it.each([undefined, 20])('have the scores that they have alone, with window %s', async (window) => {
    const config = { ...llamaConfig(sizes), architectures: ['MistralForCausalLM'], sliding_window: window };
    const folder = join(temporary.path, String(window));
    writeCheckpoint(folder, 'model.safetensors', decoderTensors(sizes), config);
    const model = await loadModel(folder, { runtime, cacheFolder: join(temporary.path, 'cache') });
    const beginning = draw('beginning', 40);
    const original = await read(model, model.createCache(), beginning);
    // One has nothing behind the shared prefix, one reads less of it than the others, and each another number of rows.
    const continuations = [
      { kept: 40, behind: draw('a', 3), tokens: [1, 2, 3], parents: [-1, 0, 0] },
      { kept: 40, behind: [], tokens: [4], parents: [-1] },
      { kept: 36, behind: draw('c', 7), tokens: [5, 6], parents: [-1, -1] },
    ];
    const forks = continuations.map(() => original.fork());
    for (const [index, { kept, behind }] of continuations.entries()) {
      forks[index]!.truncate(kept);
      await read(model, forks[index]!, behind);
    }
    const forward = (
      { tokens, parents }: (typeof continuations)[0],
      cache: KvCache,
      scheduler?: PassScheduler,
    ) =>
      model.forward({
        ...{ tokens: Int32Array.from(tokens), parents: Int32Array.from(parents), cache, scheduler },
        want: ['logits', 'features'],
      });
    const scheduler = meet(3);
    const together = await Promise.all(
      continuations.map((continuation, index) => forward(continuation, forks[index]!, scheduler)),
    );
    expect(new Set(forks.map(({ pool }) => pool)).size).toBe(1);
    expect(forks.map(({ content, prefix }) => [content, prefix === original.prefix])).toEqual(
      forks.map(() => ['rest', true]),
    );
    for (const [index, continuation] of continuations.entries()) {
      const { kept, behind } = continuation;
      const alone = await read(model, model.createCache(), [...beginning.slice(0, kept), ...behind]);
      const { logits, rows } = await forward(continuation, alone);
      const found = together[index]!;
      found.logits!.forEach((value, at) => {
        expect(value).toBeCloseTo(logits![at]!, 3);
      });
      const [keys, expected] = [await found.rows.read(), await rows.read()];
      keys.forEach((value, at) => {
        expect(value).toBeCloseTo(expected[at]!, 3);
      });
    }
  });
});

describe('an engine', () => {
  const models = new TinyModels(sizes);
  let target: CausalModel;
  let drafters: readonly Drafter[];
  beforeAll(async () => {
    ({ target } = await models.loadTarget());
    drafters = await models.loadOneOfEachSystem(target);
  });
  afterAll(() => models.dispose());

  /** The same rows for every drafter, with what each reads of the target beside them. */
  async function readFor(tokens: readonly number[]): Promise<(drafter: Drafter) => ReadPrefix> {
    const { cache } = await readPrefix(target, drafters[0]!, tokens);
    const prefixes = new Map<Drafter, ReadPrefix>();
    for (const drafter of drafters)
      prefixes.set(drafter, { ...(await readPrefix(target, drafter, tokens)), cache });
    return (drafter) => prefixes.get(drafter)!;
  }

  /** A prefix whose forks are seen. */
  function watch(prefix: ReadPrefix, forks: KvCache[]): ReadPrefix {
    const cache = Object.create(prefix.cache, {
      fork: {
        value: () => {
          forks.push(prefix.cache.fork());
          return forks.at(-1);
        },
      },
    }) as KvCache;
    return { ...prefix, cache };
  }

  const decode = (drafter: Drafter, request: Partial<SpeculativeRequest>) => {
    const depth = Math.min(3, drafter.maximumDepth);
    return decodeSpeculative(target, drafter, {
      ...{ promptIds: [1], maxNewTokens: 12, stopIds: [], sampling: { temperature: 0 }, seed: 0 },
      ...{ policy: always(resolveText(`chain:${depth}`, drafter)), ...request },
    });
  };

  /** Tokens that came while forks decoded beside each other, in all mixes: which of them meet is a matter of turns. */
  let shared = 0;
  let mixes = 0;
  afterAll(() => {
    if (mixes === 3) expect(shared).toBeGreaterThan(0);
  });

  it.each(casesOfTier([1, 2, 3, 4], (mix) => mix === 1))(
    'answers mix %d of forks and others as each alone',
    async (seed) => {
      mixes += 1;
      const random = createRandom(seed);
      const beginnings = [70, 40, 12].map((length) => draw(`beginning-${seed}-${length}`, length));
      const prefixes = await Promise.all(beginnings.map(readFor));
      const forks: KvCache[] = [];
      const sequences = Array.from({ length: 14 }, (_, index) => {
        const drafter = drafters[random.nextInteger(drafters.length)]!;
        const choice = [0, 0, 0, 1, 1, 2, 3][random.nextInteger(7)]!;
        const behind = draw(`behind-${seed}-${index}`, 1 + random.nextInteger(30));
        const request = {
          promptIds: [...(beginnings[choice] ?? []), ...behind],
          ...{ maxNewTokens: 1 + random.nextInteger(24), seed: index },
          sampling: { temperature: random.nextInteger(4) === 0 ? 0.8 : 0 },
        };
        const prefix = prefixes[choice]?.(drafter);
        const abortAfter = random.nextInteger(5) === 0 ? 1 + random.nextInteger(8) : undefined;
        return { drafter, request, prefix, abortAfter, delay: random.nextInteger(40) };
      });
      const engine = new Engine({ concurrency: 3 + random.nextInteger(8) });
      const together = await Promise.all(
        sequences.map(async ({ drafter, request, prefix, abortAfter, delay }) => {
          for (let turn = 0; turn < delay; turn++) await nextTurn();
          const stop = new AbortController();
          let count = 0;
          const onToken = (): void => {
            count += 1;
            if (count === abortAfter) stop.abort();
            shared += forks.some(({ content, pool }) => content === 'rest' && pool.lanes > 1) ? 1 : 0;
          };
          const watched = prefix === undefined ? {} : { prefix: watch(prefix, forks) };
          return engine.run(() =>
            decode(drafter, { ...request, ...watched, engine, onToken, signal: stop.signal }),
          );
        }),
      );
      for (const [index, { drafter, request, abortAfter }] of sequences.entries()) {
        const alone = await decode(drafter, request);
        const found = together[index]!;
        const isAborted = found.finishReason === 'aborted';
        if (isAborted) expect(abortAfter).toBeDefined();
        expect(found.tokenIds).toEqual(
          isAborted ? alone.tokenIds.slice(0, found.tokenIds.length) : alone.tokenIds,
        );
      }
    },
  );

  it.skipIf(isFullTier)('holds one prefix and short lanes, and makes one run of all forks', async () => {
    const tokens = draw('held', 200);
    const drafter = drafters.find(({ reads }) => reads === 'tokens')!;
    const prefix = await readPrefix(target, drafter, tokens);
    const prefixBytes = prefix.cache.pool.bytes;
    const forks: KvCache[] = [];
    let most = 0;
    const onToken = (): void => {
      // A released fork still names its pool, which may be freed.
      const own = forks.map(({ pool }) => pool).filter(({ owners }) => owners.some((owner) => owner));
      const pools = new Set([prefix.cache.pool, ...own]);
      most = Math.max(
        most,
        [...pools].reduce((sum, { bytes }) => sum + bytes, 0),
      );
    };
    const engine = new Engine();
    const answers = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((last) =>
        engine.run(() =>
          decode(drafter, {
            ...{ promptIds: [...tokens, last], maxNewTokens: 20, engine, onToken },
            prefix: watch(prefix, forks),
          }),
        ),
      ),
    );
    const { layerCount, keyValueHeadCount, headSize } = target.configuration;
    const bytesPerPosition = 2 * layerCount * keyValueHeadCount * headSize * 4;
    expect(most).toBeGreaterThan(prefixBytes);
    expect(most).toBeLessThanOrEqual(prefixBytes + 6 * (32 + 1) * bytesPerPosition);
    const passes = answers.map(({ targetPasses }) => targetPasses);
    expect(engine.targetPasses).toBeLessThanOrEqual(Math.max(...passes) + 1);
  });
});
