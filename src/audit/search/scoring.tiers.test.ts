import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { float32, floatsOf, int32 } from '../../runtime/program.js';
import { casesOfTier } from '../../../test/support/tier.js';
import type { LoadedPair, ScorerParts } from '../../../test/support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import { tiny } from '../../../test/support/tiny-checkpoints.js';
import { answerInputs } from './held-answer.js';
import { objectiveNames } from './objectives.js';
import { cosine, projectGradient } from './projection.js';
import { passInputs } from './prompt-state.js';
import { Scorer } from './scoring.js';
import { runDeclared } from './search-programs.js';
import { rankTokens, type SearchDirection } from './candidates.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());
const { suffixLength } = tinySettings;
const { vocabularySize } = tiny;

function randomSuffix(name: string): number[] {
  const random = createRandom(3, name);
  return Array.from({ length: suffixLength }, () => random.nextInteger(vocabularySize));
}

const variants = [
  'draft model',
  'Medusa, torch file',
  'Hydra, three layers',
  'Hydra++',
  'EAGLE, torch file, with bias',
  'EAGLE-3 with d2t',
];

const quickVariants = ['Medusa, torch file', 'EAGLE-3 with d2t'];

describe.each(casesOfTier(variants, (name) => quickVariants.includes(name)))('scores with %s', (variant) => {
  const parts: Partial<Record<'total-variation' | 'expected-length', ScorerParts>> = {};
  beforeAll(async () => {
    const pair = await audits.load(audits.writeDrafter(variant));
    parts['total-variation'] = await audits.openScorer(pair, 'abcdefgh{suffix}ijk');
    parts['expected-length'] = await audits.openScorer(pair, 'abcdefgh{suffix}ijk', 'expected-length');
  });

  it.each(['total-variation', 'expected-length'] as const)(
    'are the same with and without the shared part of the suffix (%s)',
    async (objective) => {
      const { scorer } = parts[objective]!;
      const base = randomSuffix('base');
      const edited = base.flatMap((token, first) =>
        [1, 5].map((shift) => {
          const suffixIds = [...base];
          suffixIds[first] = (token + shift) % vocabularySize;
          return { suffixIds, first };
        }),
      );
      const shared = await scorer.score(base, edited);
      const scratch = await scorer.score(
        base,
        edited.map(({ suffixIds }) => ({ suffixIds, first: 0 })),
      );
      const scoreOf = new Map(scratch.map((entry) => [entry.suffixIds, entry]));
      expect(shared).toHaveLength(2 * suffixLength);
      expect(new Set(shared.map(({ degradation }) => degradation)).size).toBeGreaterThan(suffixLength);
      for (const { suffixIds, degradation, divergence } of shared) {
        expect(degradation).toBeCloseTo(scoreOf.get(suffixIds)!.degradation, 4);
        expect(divergence).toBeCloseTo(scoreOf.get(suffixIds)!.divergence, 4);
      }
    },
  );

  it('are the values that the gradient pass gives', async () => {
    const { scorer } = parts['total-variation']!;
    const suffixIds = randomSuffix('gradient');
    const [score] = await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
    const gradients = await scorer.differentiate(suffixIds);
    expect(gradients.degradation).toBeCloseTo(score!.degradation, 4);
    expect(gradients.divergence).toBeCloseTo(score!.divergence, 4);
  });

  it.each([
    { kind: 'degrade', projection: { kind: 'none' } },
    { kind: 'degrade', projection: { kind: 'direction', weight: 1 } },
    { kind: 'degrade', projection: { kind: 'direction', weight: 2 } },
    { kind: 'restoreDistribution' },
    { kind: 'restoreAnswer' },
  ] satisfies SearchDirection[])('rank tokens as their gradients do: %o', async (towards) => {
    const { scorer } = parts['total-variation']!;
    const suffixIds = randomSuffix('ranked');
    const allowed = Int32Array.from({ length: vocabularySize - 3 }, (_, index) => index + 2);
    const count = 4;
    const { promising, before, after } = await scorer.rankTokens(suffixIds, towards, { allowed, count });
    const { degradationGradient, divergenceGradient } = await scorer.differentiate(suffixIds);
    const answerMarginLoss = await scorer.differentiateMarginLoss(suffixIds);
    const direction =
      towards.kind === 'degrade'
        ? projectGradient(degradationGradient, [divergenceGradient], towards.projection)
        : (towards.kind === 'restoreDistribution' ? divergenceGradient : answerMarginLoss).map(
            (value) => -value,
          );
    const gain = (position: number, token: number): number => direction[position * vocabularySize + token]!;
    const ranked = rankTokens(suffixIds, direction, { allowed, count });
    // Gains that differ by rounding alone may change places.
    promising.forEach((tokens, position) => {
      expect(tokens).toHaveLength(count);
      expect(tokens).not.toContain(suffixIds[position]);
      tokens.forEach((token, rank) => {
        expect(allowed).toContain(token);
        expect(gain(position, token)).toBeCloseTo(gain(position, ranked[position]![rank]!), 5);
      });
    });
    if (towards.kind === 'restoreAnswer') return;
    expect(before).toBeCloseTo(cosine(degradationGradient, divergenceGradient), 3);
    expect(after).toBeCloseTo(cosine(direction, divergenceGradient), 3);
  });

  it('have a preservation gradient for every position: what the answer up to there has over the answer before it', async () => {
    const { scorer, target, drafter, programs, prompt, state } = parts['total-variation']!;
    const suffixIds = randomSuffix('positions');
    const positions = await scorer.differentiatePositions(suffixIds);
    expect(positions).toHaveLength(tinySettings.window);
    let before = new Float32Array(suffixLength * vocabularySize);
    for (const [index, gradient] of positions.entries()) {
      const count = index + 1;
      const shortened = {
        ...prompt,
        windowIds: prompt.windowIds.slice(0, count),
        cleanLogits: prompt.cleanLogits.slice(0, count * vocabularySize),
      };
      const upTo = new Scorer(target, { target: target.model, drafter }, programs, shortened, state);
      const mean = (await upTo.differentiate(suffixIds)).divergenceGradient;
      const sum = mean.map((value) => value * count);
      expect(sum.some((value, at) => Math.abs(value - before[at]!) > 1e-5)).toBe(true);
      sum.forEach((value, at) => {
        expect(gradient[at]).toBeCloseTo(value - before[at]!, 4);
      });
      before = sum;
    }
  });
});

describe('gradients', () => {
  const exact = new TinyAudits(tiny, {}, createInterpreter());
  afterAll(() => exact.dispose());
  let pair: LoadedPair;
  beforeAll(async () => {
    pair = await exact.load(exact.writeDrafter('EAGLE-3 with d2t'));
  });

  // Along a change of every one-hot row at once, so that a missing path of the gradient cannot hide.
  it.each(casesOfTier(objectiveNames, (name) => name === 'margin'))(
    'of %s and of the preservation are the slopes of their values',
    async (objective) => {
      const { programs, prompt, state } = await exact.openScorer(pair, 'abcdefgh{suffix}ijk', objective);
      const { window } = tinySettings;
      const { windowIds } = prompt;
      const rest = [...prompt.afterIds, ...windowIds.slice(0, -1)];
      const suffixIds = randomSuffix('slope');
      const random = createRandom(5, objective);
      const direction = Array.from({ length: suffixLength * vocabularySize }, () => random.next() - 0.5);
      const runAt = async (scale: number): Promise<(name: string) => Float32Array> => {
        const oneHot = Float32Array.from(
          direction,
          (value, index) =>
            scale * value + Number(suffixIds[Math.floor(index / vocabularySize)] === index % vocabularySize),
        );
        const outputs = await runDeclared(await programs.gradients(), {
          oneHot: float32(oneHot, [suffixLength, vocabularySize]),
          first: int32([state.lastToken]),
          rest: int32(rest),
          clean: float32(prompt.cleanLogits, [1, window, vocabularySize]),
          ...answerInputs(windowIds, pair.drafter.graph!.targetTokens),
          ...passInputs(
            state,
            { target: pair.target.model, drafter: pair.drafter },
            1 + suffixLength + rest.length,
          ),
        });
        return (name) => floatsOf(outputs, name);
      };
      const step = 1e-3;
      const [here, above, below] = [await runAt(0), await runAt(step), await runAt(-step)];
      for (const loss of ['degradation', 'divergence']) {
        const slope = here(`${loss}Gradient`).reduce(
          (sum, value, index) => sum + value * direction[index]!,
          0,
        );
        const measured = (above(loss)[0]! - below(loss)[0]!) / (2 * step);
        expect(Math.abs(measured)).toBeGreaterThan(1e-3);
        expect(Math.abs(slope / measured - 1), `${slope} against ${measured}`).toBeLessThan(0.02);
      }
    },
  );
});
