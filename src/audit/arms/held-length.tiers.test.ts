/** The accepted length that a scoring pass gives without decoding is the one that decoding, held to the answer, measures. */
import { afterAll, describe, expect, it } from 'vitest';
import { byTier, casesOfTier } from '../../../test/support/tier.js';
import { TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import {
  drafterVariants,
  hybridVariant,
  ngramVariant,
  oneOfEachSystem,
} from '../../../test/support/tiny-drafters.js';
import { createRandom } from '../../core/random.js';
import { always } from '../../decode/policies/policy-chooser.js';
import { decodeHeld } from './measure-arm.js';
import type { ScorerParts } from '../../../test/support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());
const window = 20;
const levels = 3;

function randomSuffix(name: string): number[] {
  const random = createRandom(3, name);
  return Array.from({ length: tinySettings.suffixLength }, () =>
    random.nextInteger(audits.sizes.vocabularySize),
  );
}

const decodeAlong = (
  { target, drafter, prompt }: ScorerParts,
  suffixIds: readonly number[],
  { temperature = 0, seed = 0 } = {},
) =>
  decodeHeld(
    {
      ...{ target, drafter, seed, settings: { temperature, maxNewTokens: window } },
      prompt: { ...prompt, answer: { ...prompt.answer, tokenIds: prompt.windowIds } },
      policy: always({ kind: 'chain', length: levels }),
    },
    suffixIds,
  );

describe('accepted length along the answer', () => {
  const quick = [...oneOfEachSystem, ngramVariant, hybridVariant];
  const variants = casesOfTier([...drafterVariants, ngramVariant, hybridVariant], (variant) =>
    quick.includes(variant),
  );
  it.each(variants.map(({ name }) => name))('%s', async (variant) => {
    const pair = await audits.load(audits.writeDrafter(variant));
    const parts = await audits.openScorer(pair, 'abcdefgh{suffix}ijk', 'margin', { window });
    const lengths: number[] = [];
    for (const name of ['one', 'two']) {
      const suffixIds = randomSuffix(name);
      const [score] = await parts.scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
      const { acceptance, tokenIds } = await decodeAlong(parts, suffixIds);
      expect(tokenIds).toEqual(parts.prompt.windowIds);
      expect(score!.length).toBeCloseTo(acceptance.meanAcceptedLength, 6);
      lengths.push(score!.length);
    }
    // A drafter that is never right would show little. Two layouts of random blocks are so on this text.
    if (!variant.startsWith('DFlash ')) expect(Math.max(...lengths)).toBeGreaterThan(1);
  });

  const withoutModel = byTier({ quick: ['ngram'], full: [] });
  it.each(withoutModel)(
    'is the same above temperature 0 where drafts follow from the text alone: %s',
    async (name) => {
      const pair = await audits.load(audits.writeDrafter(name));
      const parts = await audits.openScorer(pair, 'abcdefgh{suffix}ijk', 'margin', {
        window,
        temperature: 1,
      });
      const suffixIds = randomSuffix('drawn');
      const [score] = await parts.scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
      for (const seed of [0, 1, 2]) {
        const { acceptance } = await decodeAlong(parts, suffixIds, { temperature: 1, seed });
        expect(acceptance.meanAcceptedLength).toBeCloseTo(score!.length, 6);
      }
    },
  );

  // The bound is about four standard errors of the mean.
  const { seeds, bound } = byTier({ quick: { seeds: 24, bound: 0.15 }, full: { seeds: 75, bound: 0.085 } });
  it(`above temperature 0 is the mean of many decodings, here ${seeds}`, async () => {
    const pair = await audits.load(audits.writeDrafter('EAGLE-3 with d2t'));
    const parts = await audits.openScorer(pair, 'abcdefgh{suffix}ijk', 'total-variation', {
      ...{ window, temperature: 1 },
    });
    const suffixIds = randomSuffix('drawn');
    const [score] = await parts.scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
    let steps = 0;
    let accepted = 0;
    for (let seed = 0; seed < seeds; seed++) {
      const { acceptance } = await decodeAlong(parts, suffixIds, { temperature: 1, seed });
      steps += acceptance.steps;
      accepted += acceptance.accepted;
    }
    expect(Math.abs(1 + accepted / steps - score!.length)).toBeLessThan(bound);
  });
});
