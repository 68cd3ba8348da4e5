/**
 * Drafting by every policy: whatever is drafted and however, the answer is the target's own. The quick tier takes every
 * other policy once per system, on varying layouts; the full tier takes the other pairs, more briefly.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FinishReason } from '../../src/decode/answer.js';
import type { Generation, GenerationRequest } from '../../src/decode/request.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import type { SpeculativeGeneration } from '../../src/decode/request.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import type { Tokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { byTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';
import type { DrafterVariant } from '../support/tiny-drafters.js';
import { drafterVariants, hybridVariant, ngramVariant } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const { vocabularySize, contextLength } = tiny;
const bushy = [[0], [1], [4], [0, 0], [0, 2], [1, 0], [0, 0, 0], [0, 0, 1]];
const wide = [[0], [0, 13], [0, 0], [0, 0, 15]];
const policies = [
  { title: 'chain:1', levels: 1 },
  { title: 'chain:4', levels: 4 },
  { title: 'bushy tree', levels: 3, paths: bushy },
  { title: 'wide tree', levels: 3, paths: wide },
  { title: 'tree:mc_sim_7b_63', levels: 4 },
  { title: 'tree:eagle_25', levels: 5 },
  { title: 'dynamic:12,2,3', levels: 3 },
  { title: 'dynamic:30,3,12', levels: 4 },
];
type PolicyRow = (typeof policies)[number];

const kinds = [...new Set(drafterVariants.map(({ kind }) => kind))];

/** In the quick tier, a policy goes to one layout of every other system; a layout beyond the eighth gets one of its own. */
function isQuick(variant: DrafterVariant, policy: PolicyRow): boolean {
  const siblings = drafterVariants.filter(({ kind }) => kind === variant.kind);
  const [place, turn] = [siblings.indexOf(variant), policies.indexOf(policy)];
  return siblings.length <= policies.length
    ? turn % siblings.length === place && (turn + kinds.indexOf(variant.kind)) % 2 === 0
    : place % policies.length === turn;
}

const greedy = { sampling: { temperature: 0 }, seed: 0 };
const models = new TinyModels(tiny);
afterAll(() => models.dispose());
let target: CausalModel;
let tokenizer: Tokenizer;
beforeAll(async () => {
  ({ target, tokenizer } = await models.loadTarget());
});

type Changes = Partial<Pick<GenerationRequest, 'promptIds' | 'maxNewTokens' | 'stopIds' | 'stopStrings'>>;
const plainAnswers = new Map<string, Promise<Generation>>();

/** Most drafters get the same prompts, and the target answers each of them once. */
function answerPlainly(changes: Changes): Promise<Generation> {
  const key = JSON.stringify(changes);
  const answer = plainAnswers.get(key) ?? decodePlain(target, requestFor(changes));
  plainAnswers.set(key, answer);
  return answer;
}

function requestFor(changes: Changes): GenerationRequest {
  return { promptIds: [1], maxNewTokens: 16, stopIds: [], tokenizer, ...greedy, ...changes };
}

const withLookups = byTier({ quick: [ngramVariant, hybridVariant], full: [] });

function rowsOf(variant: DrafterVariant): readonly PolicyRow[] {
  return policies.filter(
    (row) =>
      row.levels <= variant.maximumDepth &&
      (withLookups.includes(variant)
        ? row.title.startsWith('chain:') || variant !== ngramVariant
        : isQuick(variant, row) === byTier({ quick: true, full: false })),
  );
}

const variants = [...drafterVariants, ...withLookups].filter((variant) => rowsOf(variant).length > 0);

describe.each(variants)('$name', (variant) => {
  let drafter: Drafter;
  beforeAll(async () => {
    drafter = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target, tokenizer);
  });

  function speculate(text: string, changes: Changes): Promise<SpeculativeGeneration> {
    const policy = always(resolveText(text, drafter));
    return decodeSpeculative(target, drafter, { ...requestFor(changes), policy });
  }

  async function decodeBoth(policy: string, changes: Changes) {
    return { plain: await answerPlainly(changes), speculative: await speculate(policy, changes) };
  }

  describe.each(rowsOf(variant))('$title', ({ title, paths }) => {
    const policy = paths === undefined ? title : models.writeTree(paths);
    it('answers random prompts as plain decoding does', async () => {
      let accepted = 0;
      let proposed = 0;
      for (const length of [1, 5, 17]) {
        const promptIds = randomTokens(`${title} ${length}`, length, vocabularySize);
        const { plain, speculative } = await decodeBoth(policy, { promptIds });
        expectSame(plain, speculative, 'length');
        accepted += speculative.acceptance.accepted;
        proposed += speculative.acceptance.proposed;
      }
      // A drafter that never agrees, or always does, would test half of the loop.
      expect(accepted).toBeGreaterThan(0);
      if (variant.name !== 'draft model equal to the target') expect(accepted).toBeLessThan(proposed);
    });

    it('stops in the middle of an accepted path', async () => {
      let promptIds: readonly number[] = [];
      let place = -1;
      // Random heads are seldom right, some of them in one answer of ten.
      for (let attempt = 0; attempt < 40 && place < 0; attempt++) {
        promptIds = randomTokens(`stop ${title} ${attempt}`, 6, vocabularySize);
        place = (await speculate(policy, { promptIds })).origins.indexOf('accepted');
      }
      expect(place).toBeGreaterThanOrEqual(0);
      const free = await answerPlainly({ promptIds });
      const byToken = await decodeBoth(policy, { promptIds, stopIds: [free.tokenIds[place]!] });
      expectSame(byToken.plain, byToken.speculative, 'stop');
      const stopStrings = [free.text.slice(place, place + 2)];
      const byString = await decodeBoth(policy, { promptIds, stopStrings });
      expectSame(byString.plain, byString.speculative, 'stop-string');
    });

    it.runIf(byTier({ quick: true, full: false }))('ends with the context', async () => {
      for (const room of [1, 4]) {
        const promptIds = randomTokens(`full ${room}`, contextLength - room, vocabularySize);
        const { plain, speculative } = await decodeBoth(policy, { promptIds, maxNewTokens: 40 });
        expectSame(plain, speculative, 'context');
        expect(plain.tokenIds).toHaveLength(room + 1);
      }
    });

    it.runIf(byTier({ quick: true, full: false }))('gives one token, and two', async () => {
      for (const maxNewTokens of [1, 2]) {
        const { plain, speculative } = await decodeBoth(policy, { promptIds: [3, 5, 7], maxNewTokens });
        expectSame(plain, speculative, 'length');
        expect(speculative.acceptance.steps).toBe(maxNewTokens - 1);
      }
    });
  });
});

/** Drafters of several layers and of blocks, each on the same hundred prompts. */
const manyPrompts = [
  'PARD',
  'P-EAGLE',
  'EAGLE-3 of two layers',
  'DFlash',
  'DFlash in the speculators format',
  'DSpark',
  'DSpark with a Markov head of the type rnn',
  'MTP',
];
const prompts = Array.from({ length: 100 }, (_, place) =>
  randomTokens(`prompt ${place}`, 1 + (place % 24), vocabularySize),
);

describe.runIf(byTier({ quick: false, full: true }))('a hundred prompts', () => {
  it.each(manyPrompts)('are answered by %s as by plain decoding', async (name) => {
    const variant = drafterVariants.find((each) => each.name === name)!;
    const drafter = await models.loadDrafter(variant.write(models.freshFolder(), tiny), target, tokenizer);
    const policies = ['chain:4', 'dynamic:12,2,3'].map((text) => always(resolveText(text, drafter)));
    let accepted = 0;
    for (const [place, promptIds] of prompts.entries()) {
      const changes = { promptIds, maxNewTokens: 12 };
      const policy = policies[place % 2]!;
      const answer = await decodeSpeculative(target, drafter, { ...requestFor(changes), policy });
      expectSame(await answerPlainly(changes), answer, 'length');
      accepted += answer.acceptance.accepted;
    }
    expect(accepted).toBeGreaterThan(0);
  });
});

function expectSame(plain: Generation, speculative: SpeculativeGeneration, reason?: FinishReason): void {
  expect(speculative.tokenIds).toEqual(plain.tokenIds);
  expect(speculative.text).toBe(plain.text);
  expect(speculative.finishReason).toBe(plain.finishReason);
  expect(speculative.drafterFailed).toBe(false);
  if (reason !== undefined) expect(plain.finishReason).toBe(reason);
}
