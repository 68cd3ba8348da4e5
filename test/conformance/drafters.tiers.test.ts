/** What every drafter does alike in every layout. draft-policies.ts has the policies. */
import { outputsFor, statesOf } from '../../src/draft/joined/target-states.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { createRandom } from '../../src/core/random.js';
import { decodePlain } from '../../src/decode/generate.js';
import { type GenerationRequest } from '../../src/decode/request.js';
import { readPrefix } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { DynamicPolicy } from '../../src/draft/tree/policy.js';
import { recogniseCheckpoint } from '../../src/draft/systems.js';
import { levelsIn, withoutShortcuts } from '../support/level-sessions.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants, ngramVariant, oneOfEachSystem } from '../support/tiny-drafters.js';
import type { TokenTree } from '../../src/draft/tree/token-tree.js';
import type { TinyPair } from '../support/tiny-pair.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const { vocabularySize, contextLength } = tiny;

const greedy = { sampling: { temperature: 0 }, seed: 0 };

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const cases = casesOfTier([...drafterVariants, ngramVariant], (variant) =>
  [...oneOfEachSystem, ngramVariant].includes(variant),
);
describe.each(cases)('$name', (variant) => {
  const isChainOnly = variant === ngramVariant;
  let pair: TinyPair;
  let folder: string;
  beforeAll(async () => {
    folder = variant.write(models.freshFolder(), tiny);
    pair = await models.load(folder);
  });

  async function decodeBoth(policy: string, changes: Partial<GenerationRequest>) {
    const plain = await decodePlain(pair.target, requestFor(changes));
    return { plain, speculative: await speculate(policy, changes) };
  }

  function speculate(policy: string, changes: Partial<GenerationRequest>) {
    const { target, drafter } = pair;
    const chooser = always(resolveText(policy, drafter));
    return decodeSpeculative(target, drafter, { ...requestFor(changes), policy: chooser });
  }

  function requestFor(changes: Partial<GenerationRequest>): GenerationRequest {
    const { tokenizer } = pair;
    return { promptIds: [1], maxNewTokens: 16, stopIds: [], tokenizer, ...greedy, ...changes };
  }

  it('is recognised', async () => {
    if (!isChainOnly) {
      const recognition = recogniseCheckpoint(await openCheckpoint(folder));
      expect(recognition).toMatchObject({ kind: variant.kind, layout: variant.layout });
    }
    expect(pair.drafter.isChainOnly ?? false).toBe(isChainOnly);
    expect(pair.drafter.maximumDepth).toBe(variant.maximumDepth);
  });

  it('drafts as deep as the context allows, to its very end', async () => {
    const promptIds = randomTokens('deep', contextLength - 14, vocabularySize);
    const { steps } = await speculate('chain:3', { promptIds, maxNewTokens: 40 });
    let read = promptIds.length;
    for (const { depth, accepted } of steps) {
      expect(depth).toBe(Math.min(3, contextLength - read - 1));
      read += accepted + 1;
    }
    expect(read).toBe(contextLength);
  });

  it('drafts the same behind tokens that were read before', async () => {
    const { target, drafter, tokenizer } = pair;
    const promptIds = randomTokens('prefix', 12, vocabularySize);
    const policy = always({ kind: 'chain', length: Math.min(3, drafter.maximumDepth) });
    const request = { promptIds, maxNewTokens: 12, stopIds: [], tokenizer, ...greedy, policy };
    const whole = await decodeSpeculative(target, drafter, request);
    for (const length of byTier({ quick: [0, 1, 9], full: [9] })) {
      const prefix = await readPrefix(target, drafter, promptIds.slice(0, length));
      for (let round = 0; round < 2; round++) {
        const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, { ...request, prefix });
        expect(tokenIds).toEqual(whole.tokenIds);
        expect(acceptance).toEqual(whole.acceptance);
      }
    }
  });

  it('streams the tokens it returns, with their origin', async () => {
    const events: { id: number; origin: string; text: string }[] = [];
    const { plain, speculative } = await decodeBoth('chain:3', {
      promptIds: [2, 9],
      onToken: (event) => events.push(event),
    });
    const streamed = events.slice(plain.tokenIds.length);
    expect(streamed.map(({ id }) => id)).toEqual(speculative.tokenIds);
    expect(streamed.map(({ origin }) => origin)).toEqual(speculative.origins);
    expect(streamed.map(({ text }) => text).join('')).toBe(plain.text);
    expect(speculative.origins[0]).toBe('target');
    const { accepted, steps, emitted } = speculative.acceptance;
    expect(emitted).toBe(16);
    expect(accepted + steps + 1).toBeGreaterThanOrEqual(emitted);
  });

  it('drafts a chain in one program as it does level by level', async () => {
    const { target, drafter, tokenizer } = pair;
    if (levelsIn(drafter.startSession()) === undefined) return; // a lookup has no levels
    const levels = withoutShortcuts(drafter);
    expect(levelsIn(drafter.startSession())!.chain).toBeDefined();
    expect(levelsIn(levels.startSession())!.chain).toBeUndefined();
    for (const length of byTier({ quick: [1, 12], full: [12] })) {
      const promptIds = randomTokens(`fused ${length}`, length, vocabularySize);
      const policy = always(resolveText('chain:3', drafter));
      const request = { promptIds, maxNewTokens: 24, stopIds: [], tokenizer, ...greedy, policy };
      const [one, many] = [
        await decodeSpeculative(target, drafter, request),
        await decodeSpeculative(target, levels, request),
      ];
      expect(one.acceptance).toEqual(many.acceptance);
      expect(one.drafterPasses).toBe(many.drafterPasses);
    }
  });

  it('drafts a dynamic tree in one program as it does level by level', async () => {
    const { target, drafter } = pair;
    const hasProgram = levelsIn(drafter.startSession())?.tree !== undefined;
    expect(hasProgram).toBe(
      ['speculative-sampling', 'pard', 'eagle', 'eagle3', 'p-eagle', 'mtp'].includes(drafter.system),
    );
    if (!hasProgram) return;
    for (const text of byTier({
      quick: ['dynamic:12,1,3', 'dynamic:40,4,6'],
      full: ['dynamic:30,2,4', 'dynamic:30,3,12'],
    })) {
      const policy = resolveText(text, drafter);
      const trees = await Promise.all(
        [drafter, withoutShortcuts(drafter)].map(async (each) => {
          const session = each.startSession();
          const grown: TokenTree[] = [];
          const cache = target.createCache();
          for (const length of [7, 1, 3]) {
            const tokens = Int32Array.from(randomTokens(`${text} ${length}`, length, vocabularySize));
            const want = outputsFor(drafter);
            const result = await target.forward({ tokens, cache, want, taps: drafter.taps });
            cache.appendAll(result.rows, length);
            const states = statesOf(target.runtime, drafter, result);
            session.observe({ tokens, states, next: length });
            const depthLimit = length === 1 ? 2 : Infinity;
            const request = { root: length, policy, random: createRandom(0), depthLimit };
            grown.push(await session.propose({ ...request, sampling: { temperature: 0 } }));
          }
          session.close();
          return grown;
        }),
      );
      expect(trees[0]).toEqual(trees[1]);
      expect(trees[0]![0]!.tokens.length).toBe((policy as DynamicPolicy).total);
    }
  });
});

describe.runIf(byTier({ quick: true, full: false }))('a dynamic tree in the interpreter', () => {
  it('is the one of ONNX Runtime', async () => {
    const interpreted = new TinyModels(tiny, createInterpreter());
    const variant = drafterVariants.find(({ name }) => name === 'EAGLE-3 with d2t')!;
    const folder = variant.write(models.freshFolder(), tiny);
    const steps = [];
    for (const each of [models, interpreted]) {
      const { target, drafter } = await each.load(folder);
      const request = { promptIds: [4, 8, 15], maxNewTokens: 8, stopIds: [], ...greedy };
      const policy = always(resolveText('dynamic:12,2,3', drafter));
      const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
      steps.push({ tokenIds, acceptance });
    }
    expect(steps[1]).toEqual(steps[0]);
    await interpreted.dispose();
  });
});

describe.runIf(byTier({ quick: true, full: false }))('a draft model equal to its target', () => {
  it('has every draft accepted', async () => {
    const variant = drafterVariants.find(({ name }) => name === 'draft model equal to the target')!;
    const { target, drafter } = await models.load(variant.write(models.freshFolder(), tiny));
    const request = { promptIds: [4, 8, 15], maxNewTokens: 41, stopIds: [], ...greedy };
    const policy = always(resolveText('chain:4', drafter));
    const { acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
    expect(acceptance.acceptedLengths).toEqual(Array<number>(8).fill(5));
    expect(acceptance.acceptanceRate).toBe(1);
  });
});
