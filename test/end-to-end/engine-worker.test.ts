/** The engine in a thread of its own, run as it is published: transpiled to JavaScript, threads and all. */
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerTokenEvent } from '../../src/decode/worker/engine-messages.js';
import type * as engineWorker from '../../src/decode/worker/engine-worker.js';
import { bundledTarget } from '../../src/core/package-files.js';
import { findDrafter } from '../../src/decode/find-drafter.js';
import { generateSpeculatively } from '../../src/decode/generate.js';
import type { GenerateOptions } from '../../src/decode/generate.js';
import type { Target } from '../../src/decode/target.js';
import { generateText } from '../../src/decode/generate.js';
import { openTarget } from '../../src/decode/target.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { bundledCache } from '../support/model-folders.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build } = transpileForTests('engine-worker');
const runtime = createOnnxRuntime({ threads: 1 });
let createEngineWorker: typeof engineWorker.createEngineWorker;
let worker: engineWorker.EngineWorker;
let target: Target;
const drafters = new Map<string, Drafter>();

beforeAll(async () => {
  const module: unknown = await import(pathToFileURL(join(build, 'src/decode/worker/engine-worker.js')).href);
  ({ createEngineWorker } = module as typeof engineWorker);
  worker = await createEngineWorker({
    ...{ target: bundledTarget, drafters: { small: 'sps', head: 'eagle3' }, threads: 1, concurrency: 4 },
    cacheFolder: bundledCache,
  });
  target = await openTarget(bundledTarget, { runtime, cacheFolder: bundledCache });
  for (const [name, source] of [
    ['small', 'sps'],
    ['head', 'eagle3'],
  ] as const)
    drafters.set(
      name,
      await loadDrafter(findDrafter(source), { target: target.model, cacheFolder: bundledCache }),
    );
});
afterAll(async () => {
  await worker.close();
  await runtime.dispose();
});

interface Asked {
  readonly prompt: string;
  readonly drafter?: string;
  readonly policy?: string;
  readonly options: GenerateOptions;
}

const asked: readonly Asked[] = [
  { prompt: 'Why is the sky blue?', options: { maxNewTokens: 12 } },
  {
    prompt: 'Write a Python function that adds two numbers.',
    drafter: 'head',
    options: { maxNewTokens: 16 },
  },
  { prompt: 'Count to ten.', drafter: 'small', policy: 'chain:3', options: { maxNewTokens: 12 } },
  {
    ...{ prompt: 'Tell me a story.', drafter: 'head', policy: 'chain:4' },
    options: { maxNewTokens: 12, sampling: { temperature: 0.8, topP: 0.9 }, seed: 5 },
  },
  { prompt: 'What is 2 + 2?', options: { maxNewTokens: 16, sampling: { temperature: 1 }, seed: 9 } },
  { prompt: 'Name three colours.', options: { maxNewTokens: 24, stopStrings: [','] } },
];

/** Goes on and on: no delay of this thread is long enough for it to end. */
const endless = { maxNewTokens: 1500, sampling: { temperature: 2 }, seed: 1 };

function answerHere({ prompt, drafter, policy, options }: Asked) {
  if (drafter === undefined) return generateText(target, prompt, options);
  return generateSpeculatively(target, drafters.get(drafter)!, prompt, {
    ...options,
    ...(policy === undefined ? {} : { policy }),
  });
}

function answerThere({ options, prompt, ...rest }: Asked, more: engineWorker.WorkerGenerateOptions = {}) {
  const { maxNewTokens = 24, sampling, seed, stopStrings } = options;
  return worker.generate(prompt, {
    ...{ ...rest, maxNewTokens },
    ...(sampling === undefined ? {} : { sampling }),
    ...(seed === undefined ? {} : { seed }),
    ...(stopStrings === undefined ? {} : { stopStrings: [...stopStrings] }),
    ...more,
  });
}

describe('an engine in a thread', () => {
  it('knows its target', () => {
    const { contextLength, vocabularySize } = target.model.configuration;
    expect(worker.target).toEqual({ name: target.model.name, contextLength, vocabularySize });
  });

  it('answers several requests at once as each is answered here', async () => {
    const streams = asked.map((): { ids: number[]; text: string } => ({ ids: [], text: '' }));
    const answers = await Promise.all(
      asked.map((one, index) =>
        answerThere(one, {
          onToken: ({ id, text }) => {
            streams[index]!.ids.push(id);
            streams[index]!.text += text;
          },
        }),
      ),
    );
    for (const [index, one] of asked.entries()) {
      const alone = await answerHere(one);
      const answer = answers[index]!;
      expect(answer.tokenIds).toEqual(alone.tokenIds);
      expect([answer.text, answer.finishReason]).toEqual([alone.text, alone.finishReason]);
      expect(answer.promptTokenIds).toEqual(alone.promptTokenIds);
      expect(streams[index]).toEqual({ ids: alone.tokenIds, text: alone.text });
      expect('acceptance' in answer).toBe(one.drafter !== undefined);
    }
  });

  it('gives several answers to one prompt, each that of its own seed, whether the prompt is long or short', async () => {
    const long = `Name the largest of these: ${'cat, dog, elephant, mouse, '.repeat(8)}`;
    for (const [prompt, drafter] of [
      [long, { drafter: 'head', policy: 'chain:3' }],
      ['Why?', {}],
    ] as const) {
      const options = { maxNewTokens: 6, sampling: { temperature: 1.5 }, seed: 3, ...drafter };
      const told = new Map<number, number[]>();
      const several = await worker.generateSeveral(prompt, 3, {
        ...options,
        onProgress: ({ tokens }, index) => {
          told.set(index, [...(told.get(index) ?? []), ...tokens.map(({ id }) => id)]);
        },
      });
      expect(several).toHaveLength(3);
      for (const [index, { tokenIds }] of several.entries()) {
        const alone = await worker.generate(prompt, { ...options, seed: 3 + index });
        expect(tokenIds).toEqual(alone.tokenIds);
        expect(told.get(index)).toEqual(tokenIds);
      }
    }
  });

  it('tells all that a pass brought at once', async () => {
    const passes: { tokens: number; accepted: number[] }[] = [];
    const answer = await worker.generate(asked[1]!.prompt, {
      ...{ drafter: 'head', policy: 'chain:4', maxNewTokens: 20 },
      onProgress: ({ tokens, steps }) => {
        passes.push({ tokens: tokens.length, accepted: steps.map(({ accepted }) => accepted) });
      },
    });
    const [first, ...later] = passes;
    expect(first).toEqual({ tokens: 1, accepted: [] });
    const { acceptance } = answer as Extract<typeof answer, { acceptance: unknown }>;
    expect(later.map(({ accepted }) => accepted[0]! + 1)).toEqual(acceptance.acceptedLengths);
    // The answer may end within what the last pass accepted.
    for (const { tokens, accepted } of later.slice(0, -1)) expect(tokens).toBe(accepted[0]! + 1);
  });

  it('gives the likelihoods of tokens, spelled out, and takes token ids as a prompt', async () => {
    const promptIds = await target.tokenizer.encode('Once upon');
    const tokens: WorkerTokenEvent[] = [];
    const { tokenIds } = await worker.generate(promptIds, {
      ...{ maxNewTokens: 6, topLikelihoods: 2 },
      onToken: (event) => tokens.push(event),
    });
    expect(tokens.map(({ likelihood }) => likelihood!.id)).toEqual(tokenIds);
    expect(tokens.every(({ likelihood }) => likelihood!.top[0]!.logprob === likelihood!.logprob)).toBe(true);
    expect(tokens.map(({ likelihood }) => likelihood!.top.length)).toEqual([2, 2, 2, 2, 2, 2]);
    await expect(worker.generate(promptIds, { maxPromptTokens: 1 })).rejects.toMatchObject({
      code: 'context',
    });
    const { contextLength } = target.model.configuration;
    const maxNewTokens = contextLength - promptIds.length + 1;
    await expect(worker.generate(promptIds, { maxNewTokens, needsRoom: true })).rejects.toMatchObject({
      code: 'context',
      message: expect.stringMatching(`${maxNewTokens} new tokens were requested`) as string,
    });
  });

  it('knows who runs and who waits', async () => {
    const controller = new AbortController();
    const long = { ...endless, signal: controller.signal };
    const running = worker.generateSeveral('Tell me a story.', 6, long);
    const seen: unknown[] = [];
    while (seen.length === 0) {
      const { running, waiting } = await worker.load();
      if (running > 0) seen.push([running, waiting]);
    }
    expect(seen).toEqual([[4, 2]]);
    controller.abort();
    await running;
    expect(await worker.load()).toEqual({ running: 0, waiting: 0, usedBytes: 0 });
  });

  it('leaves this thread free to turn while it works', async () => {
    const one = { ...asked[0]!, options: { maxNewTokens: 16 } };
    const countTurns = async (answering: Promise<unknown>): Promise<number> => {
      const state = { isDone: false };
      void answering.finally(() => (state.isDone = true));
      let turns = 0;
      for (; !state.isDone; turns++) await nextTurn();
      return turns;
    };
    // Here every pass of the target is one long turn; there the loop spins freely all the while.
    const here = await countTurns(answerHere(one));
    const there = await countTurns(answerThere(one));
    expect(there).toBeGreaterThan(10 * here);
  });

  it('ends an answer that is aborted with what it has, and goes on with the others', async () => {
    const [one, other] = asked as [Asked, Asked];
    const controller = new AbortController();
    let seen = 0;
    const long = { ...one, options: endless };
    const [aborted, whole] = await Promise.all([
      answerThere(long, {
        signal: controller.signal,
        onToken: () => {
          seen += 1;
          if (seen === 3) controller.abort();
        },
      }),
      answerThere(other),
    ]);
    expect(aborted.finishReason).toBe('aborted');
    expect(aborted.tokenIds.length).toBeGreaterThanOrEqual(3);
    const options = { ...endless, maxNewTokens: aborted.tokenIds.length };
    const alone = await answerHere({ ...one, options });
    expect(alone.tokenIds).toEqual(aborted.tokenIds);
    expect(whole.tokenIds).toEqual((await answerHere(other)).tokenIds);
  });

  it('takes a signal that is aborted already', async () => {
    const long = { ...asked[0]!, options: endless };
    const { finishReason } = await answerThere(long, { signal: AbortSignal.abort() });
    expect(finishReason).toBe('aborted');
  });

  it('fails one request in a sentence with code and hint, and answers the others', async () => {
    const tooLong = 'word '.repeat(20_000);
    const [failed, unknown, whole] = await Promise.allSettled([
      worker.generate(tooLong),
      worker.generate('Hi', { drafter: 'medusa' }),
      answerThere(asked[0]!),
    ]);
    const refusal = { name: 'MistletoeError', hint: expect.stringMatching(/\S/) as string };
    expect(failed).toMatchObject({ status: 'rejected', reason: { ...refusal, code: 'context' } });
    expect(unknown).toMatchObject({
      status: 'rejected',
      reason: {
        ...{ ...refusal, code: 'usage' },
        message: 'The engine was opened without a drafter "medusa". It has small, head.',
      },
    });
    expect(whole.status).toBe('fulfilled');
  });

  it.each([
    ['a length of none', { maxNewTokens: 0 }, 'The engine was asked for a bad value for "maxNewTokens"'],
    ['an unknown option', { temperature: 1 }, 'The engine was asked for a bad value for its options'],
    ['a policy that is none', { drafter: 'head', policy: 'chain' }, '"chain" is not understood'],
    ['a rule for another temperature', { drafter: 'head', rule: 'typical' as const }, 'Typical acceptance'],
  ])('refuses %s', async (_, options, message) => {
    await expect(worker.generate('Hi', options as engineWorker.WorkerGenerateOptions)).rejects.toMatchObject({
      ...{ name: 'MistletoeError', code: 'usage' },
      message: expect.stringContaining(message) as string,
    });
  });

  it('refuses a sequence that memory never has room for, and lets others wait for it', async () => {
    const small = await createEngineWorker({ target: bundledTarget, threads: 1, memoryBytes: 4e6 });
    try {
      await expect(small.generate('Hi', { maxNewTokens: 1500 })).rejects.toMatchObject({ code: 'context' });
      const prompts = ['Hi', 'Ho', 'He'];
      const answers = await Promise.all(prompts.map((text) => small.generate(text, { maxNewTokens: 4 })));
      for (const [index, { tokenIds }] of answers.entries())
        expect(tokenIds).toEqual((await generateText(target, prompts[index]!, { maxNewTokens: 4 })).tokenIds);
    } finally {
      await small.close();
    }
  });

  it.each([
    [
      'device',
      { device: 'tpu' },
      'createEngineWorker was given a bad value for "device": expected auto, cpu, cuda',
    ],
    ['type', { dtype: 'int7' }, 'createEngineWorker was given a bad value for "dtype"'],
    ['type of that device', { device: 'cpu', dtype: 'float16' }, 'the CPU has float32, int8 and int4'],
  ])('refuses a %s that cannot be had', async (_, options, message) => {
    const given = { target: bundledTarget, ...options } as engineWorker.EngineWorkerOptions;
    await expect(createEngineWorker(given)).rejects.toMatchObject({
      ...{ name: 'MistletoeError', code: 'usage' },
      message: expect.stringContaining(message) as string,
    });
  });

  it('tells what is wrong with a model as opening it here does', async () => {
    const target = join(build, 'nowhere');
    await expect(createEngineWorker({ target })).rejects.toMatchObject({
      ...{ name: 'MistletoeError', code: 'checkpoint', hint: expect.stringMatching(/\S/) as string },
      message: expect.stringContaining('nowhere') as string,
    });
  });

  it('ends what runs when it is closed, and takes nothing any more', async () => {
    const own = await createEngineWorker({ target: bundledTarget, threads: 1, concurrency: 2 });
    const running = ['Tell me a story.', 'Count to a hundred.', 'Why?'].map((prompt) =>
      own.generate(prompt, endless),
    );
    await Promise.all([own.close(), own.close()]);
    for (const { finishReason } of await Promise.all(running)) expect(finishReason).toBe('aborted');
    await expect(own.generate('Hi')).rejects.toMatchObject({
      code: 'runtime',
      message: 'The engine was closed.',
    });
  });
});
