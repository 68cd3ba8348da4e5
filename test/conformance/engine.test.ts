/**
 * Whoever else is there, a sequence's answer is the one it has alone: random mixes of drafters, policies, prompts,
 * lengths, temperatures, arrivals and aborts on one target.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MistletoeError } from '../../src/core/errors.js';
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import { AdaptivePolicy } from '../../src/decode/policies/adaptive-policy.js';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain } from '../../src/decode/generate.js';
import { type Generation, type GenerationRequest } from '../../src/decode/request.js';
import { readPrefix } from '../../src/decode/prompt-reading.js';
import type { SpeculativeGeneration } from '../../src/decode/request.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants, hybridVariant } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

let target: CausalModel;
let drafters: readonly Drafter[];
beforeAll(async () => {
  ({ target } = await models.loadTarget());
  const hybrid = hybridVariant.write(models.freshFolder(), tiny);
  drafters = [...(await models.loadOneOfEachSystem(target)), await models.loadDrafter(hybrid, target)];
});

type Decode = (request: Partial<GenerationRequest>) => Promise<Generation | SpeculativeGeneration>;

interface Sequence {
  readonly decode: Decode;
  readonly isSpeculative: boolean;
  /** Turns of the event loop before it arrives. */
  readonly delay: number;
  readonly abortAfter: number | undefined;
}

const policies = ['chain:1', 'chain:3', 'chain:4', 'dynamic:12,2,3'];

function drawSequence(random: Random, index: number): Sequence {
  const pick = <Item>(items: readonly Item[]): Item => items[random.nextInteger(items.length)]!;
  const promptIds = randomTokens(`engine-${index}`, 1 + random.nextInteger(40), tiny.vocabularySize);
  const temperature = pick([0, 0, 0, 0.8]);
  const request = {
    ...{ promptIds, maxNewTokens: 1 + random.nextInteger(24), stopIds: [], seed: index },
    sampling: { temperature },
  };
  const isSpeculative = random.nextInteger(5) > 0;
  const drafter = pick(drafters);
  const policy = pick(policies.slice(0, temperature === 0 ? 4 : 3));
  const isAdaptive = temperature === 0 && random.nextInteger(4) === 0;
  return {
    isSpeculative,
    delay: random.nextInteger(60),
    abortAfter: random.nextInteger(6) === 0 ? 1 + random.nextInteger(8) : undefined,
    decode: (changes) => {
      const changed = { ...request, ...changes };
      if (!isSpeculative) return decodePlain(target, changed);
      const chooser = isAdaptive
        ? new AdaptivePolicy(drafter)
        : always(resolveText(fitting(policy, drafter), drafter));
      return decodeSpeculative(target, drafter, { ...changed, policy: chooser });
    },
  };
}

const fitting = (policy: string, { maximumDepth, isChainOnly = false }: Drafter): string =>
  maximumDepth < 4 ? 'chain:1' : isChainOnly && !policy.startsWith('chain') ? 'chain:2' : policy;

describe('Engine', () => {
  it.each([1, 2, 3])('answers mix %d as each sequence alone', async (seed) => {
    const random = createRandom(seed);
    const sequences = Array.from({ length: 12 }, (_, index) => drawSequence(random, 100 * seed + index));
    const engine = new Engine({ concurrency: 2 + random.nextInteger(8) });
    const together = await Promise.all(
      sequences.map(async ({ decode, delay, abortAfter }) => {
        for (let turn = 0; turn < delay; turn++) await nextTurn();
        const stop = new AbortController();
        let count = 0;
        const onToken = (): void => {
          count += 1;
          if (count === abortAfter) stop.abort();
        };
        return engine.run(() => decode({ engine, onToken, signal: stop.signal }));
      }),
    );
    for (const [index, { decode, abortAfter }] of sequences.entries()) {
      const alone = await decode({});
      const found = together[index]!;
      if (found.finishReason === 'aborted') {
        expect(abortAfter).toBeDefined();
        expect(found.tokenIds).toEqual(alone.tokenIds.slice(0, found.tokenIds.length));
      } else {
        expect(found.tokenIds).toEqual(alone.tokenIds);
        expect(found.finishReason).toBe(alone.finishReason);
      }
    }
    // Passes were shared: fewer were made than the sequences made alone.
    expect(engine.targetPasses).toBeGreaterThan(0);
  });

  it('keeps every accepted length', async () => {
    const decode = (drafter: Drafter, text: string, index: number, changes: Partial<GenerationRequest>) =>
      decodeSpeculative(target, drafter, {
        promptIds: randomTokens(`held-${index}`, 9, tiny.vocabularySize),
        maxNewTokens: 20,
        stopIds: [],
        sampling: { temperature: 0 },
        seed: 0,
        policy: always(resolveText(fitting(text, drafter), drafter)),
        ...changes,
      });
    // The nodes of its trees hand a state to their children.
    const variant = drafterVariants.find(({ name }) => name.endsWith('of the type rnn'))!;
    const recurrent = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target);
    const chains = drafters.map((drafter) => [drafter, 'chain:4'] as const);
    for (const [drafter, text] of [...chains, [recurrent, 'dynamic:12,2,3'] as const]) {
      const engine = new Engine();
      const together = await Promise.all(
        [0, 1, 2].map((index) => engine.run(() => decode(drafter, text, index, { engine }))),
      );
      for (const [index, { acceptance }] of together.entries()) {
        expect(acceptance).toEqual((await decode(drafter, text, index, {})).acceptance);
      }
      const passes = together.map(({ targetPasses }) => targetPasses);
      expect(engine.targetPasses).toBeLessThan(passes.reduce((sum, count) => sum + count, 0));
    }
  });

  it('goes on from a prefix that several share', async () => {
    const drafter = drafters.find(({ reads }) => reads === 'taps')!;
    const promptIds = randomTokens('prefix', 30, tiny.vocabularySize);
    const prefix = await readPrefix(target, drafter, promptIds.slice(0, 20));
    const policy = always(resolveText('chain:3', drafter));
    const decode = (last: number, changes: object) =>
      decodeSpeculative(target, drafter, {
        ...{ promptIds: [...promptIds, last], maxNewTokens: 12, stopIds: [], sampling: { temperature: 0 } },
        ...{ seed: 0, policy, ...changes },
      });
    const engine = new Engine();
    const together = await Promise.all(
      [1, 2, 3, 4].map((last) => engine.run(() => decode(last, { engine, prefix }))),
    );
    for (const [index, { tokenIds }] of together.entries())
      expect(tokenIds).toEqual((await decode(index + 1, {})).tokenIds);
  });

  it('lets nobody wait who is aborted, and reads no prompt for it', async () => {
    const request = { maxNewTokens: 8, stopIds: [], sampling: { temperature: 0 }, seed: 0 };
    const engine = new Engine({ concurrency: 1 });
    const stop = new AbortController();
    const decode = (promptIds: number[], signal?: AbortSignal) =>
      engine.run(
        () =>
          decodePlain(target, {
            ...{ ...request, promptIds, engine },
            ...(signal === undefined ? {} : { signal }),
          }),
        { signal },
      );
    let isDone = false;
    const running = decode([1, 2, 3]).finally(() => (isDone = true));
    const waiting = decode([4, 5], stop.signal);
    const behind = decode([6]);
    stop.abort();
    const aborted = await waiting;
    expect(isDone).toBe(false);
    expect([aborted.finishReason, aborted.tokenIds, aborted.text]).toEqual(['aborted', [], '']);
    const alone = await decodePlain(target, { ...request, promptIds: [6] });
    expect((await behind).tokenIds).toEqual(alone.tokenIds);
    expect((await running).tokenIds).toHaveLength(8);
    expect((await decode([7], stop.signal)).finishReason).toBe('aborted');
  });

  it('lets the others go on when one sequence cannot', async () => {
    const request = { maxNewTokens: 8, stopIds: [], sampling: { temperature: 0 }, seed: 0 };
    const engine = new Engine();
    const decode = (promptIds: number[]) =>
      engine.run(() => decodePlain(target, { ...request, promptIds, engine }));
    const [good, bad, other] = await Promise.allSettled([
      decode([1, 2, 3]),
      decode([tiny.vocabularySize + 1]),
      decode([4, 5]),
    ]);
    expect(bad.status).toBe('rejected');
    for (const [outcome, promptIds] of [[good, [1, 2, 3]] as const, [other, [4, 5]] as const]) {
      const alone = await decodePlain(target, { ...request, promptIds });
      expect(outcome.status === 'fulfilled' && outcome.value.tokenIds).toEqual(alone.tokenIds);
    }
  });

  it('goes on without a drafter for the one sequence that it fails', async () => {
    const whole = drafters[0]!;
    let sessions = 0;
    const failing = Object.create(whole, {
      startSession: {
        value: (scheduler: Parameters<Drafter['startSession']>[0]) => {
          const session = whole.startSession(scheduler);
          if ((sessions += 1) !== 2) return session;
          const fail = () => Promise.reject(new MistletoeError('drafter', 'The drafter returned NaN.'));
          return Object.assign(Object.create(session) as typeof session, { propose: fail });
        },
      },
    }) as Drafter;
    const engine = new Engine();
    const notices: string[] = [];
    const decode = (index: number, drafter: Drafter, engine?: Engine) =>
      decodeSpeculative(target, drafter, {
        ...{
          promptIds: randomTokens(`fail-${index}`, 6, tiny.vocabularySize),
          maxNewTokens: 10,
          stopIds: [],
        },
        ...{
          sampling: { temperature: 0 },
          seed: 0,
          policy: always(resolveText('chain:3', whole)),
          engine,
        },
        onNotice: (message) => notices.push(message),
      });
    const together = await Promise.all(
      Array.from({ length: 8 }, (_, index) => engine.run(() => decode(index, failing, engine))),
    );
    expect(together.map(({ drafterFailed }) => drafterFailed).filter(Boolean)).toHaveLength(1);
    expect(notices).toHaveLength(1);
    for (const [index, { tokenIds }] of together.entries())
      expect(tokenIds).toEqual((await decode(index, whole)).tokenIds);
  });

  it('lets sequences wait for memory, and refuses one that never fits', async () => {
    const engine = new Engine({ concurrency: 8, memoryBytes: 100 });
    let running = 0;
    let most = 0;
    const occupy = async (): Promise<void> => {
      running += 1;
      most = Math.max(most, running);
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      running -= 1;
    };
    await Promise.all(Array.from({ length: 6 }, () => engine.run(occupy, { bytes: 40 })));
    expect(most).toBe(2);
    await expect(engine.run(occupy, { bytes: 101 })).rejects.toThrow(
      'The sequence needs 101 bytes of keys and values; the engine has 100',
    );
  });
});
