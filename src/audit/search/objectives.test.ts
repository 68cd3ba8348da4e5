import { describe, expect, it } from 'vitest';
import { acceptanceProbability } from '../../../test/support/decode/acceptance-probability.js';
import { input } from '../../graph/tensor.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { float32, floatsOf } from '../../runtime/program.js';
import { answerInputs, declareAnswer } from './held-answer.js';
import type { ObjectiveName } from './objectives.js';
import {
  createObjective,
  defaultObjective,
  meanDivergence,
  objectiveNames,
  positionDivergence,
} from './objectives.js';

type Distribution = readonly number[];

/** One candidate whose target distributions (one for each answer token) and draft distributions (by depth, then row) are given. */
async function degradationOf(
  name: ObjectiveName,
  target: readonly Distribution[],
  drafts: readonly (readonly Distribution[])[],
  targetTokens?: Int32Array,
  answerIds: readonly number[] = target.map(() => 0),
): Promise<number> {
  const logitsOf = (distributions: readonly Distribution[]) =>
    float32(Float32Array.from(distributions.flat(), Math.log), [
      1,
      distributions.length,
      distributions[0]!.length,
    ]);
  const declare = (label: string, distributions: readonly Distribution[]) =>
    input(label, [1, distributions.length, distributions[0]!.length]);
  const pass = {
    targetLogits: declare('target', target),
    draftLogits: drafts.map((distributions, depth) => declare(`draft${depth}`, distributions)),
  };
  const answer = declareAnswer(targetTokens, target.length);
  const degradation = createObjective(name, drafts.length).degradation(pass, answer);
  const program = await createInterpreter().compile({ degradation }, []);
  const values = {
    target,
    ...Object.fromEntries(drafts.map((distributions, depth) => [`draft${depth}`, distributions])),
  };
  const used = new Set(program.inputs.map((entry) => entry.name));
  const given = {
    ...Object.fromEntries(
      Object.entries(values).map(([label, distributions]) => [label, logitsOf(distributions)]),
    ),
    ...answerInputs(answerIds, targetTokens),
  };
  const outputs = await program.run(
    Object.fromEntries(Object.entries(given).filter(([label]) => used.has(label))),
  );
  return floatsOf(outputs, 'degradation')[0]!;
}

const uniform: Distribution = [0.25, 0.25, 0.25, 0.25];
const targetDistribution: Distribution = [0.5, 0.25, 0.125, 0.125];
/** Not a permutation of the target's: the divergences of the two directions differ. */
const draftDistribution: Distribution = [0.125, 0.5, 0.25, 0.125];
/** The first row is the target's distribution of the token that every draft stands behind. */
const oneAhead = (name: ObjectiveName): Promise<number> =>
  degradationOf(name, [uniform, targetDistribution], [[draftDistribution]]);

describe('objectives on distributions that can be counted by hand', () => {
  const ln2 = Math.LN2;
  it.each([
    // The answer's token 0 has 0.125, the best wrong one 0.5: a margin of ln 4, of which a quarter counts.
    ['margin', 1 / (1 + 0.25 ** 0.25)],
    ['surprisal', 0.125 * ln2 + 0.5 * 2 * ln2 + 0.375 * 3 * ln2],
    ['kl', 0.5 * 2 * ln2 - 0.25 * ln2 - 0.125 * ln2],
    ['reverse-kl', -0.125 * 2 * ln2 + 0.5 * ln2 + 0.25 * ln2],
    ['total-variation', 0.375],
    ['one-sided', 0.5 * ln2 + 0.25 * ln2],
    ['expected-length', 0.375],
  ] as const)('%s', async (name, expected) => {
    expect(await oneAhead(name)).toBeCloseTo(expected, 6);
  });

  it('are all 0 where drafter and target agree, except for the surprisal, which is the entropy', async () => {
    for (const name of objectiveNames.filter((each) => each !== 'margin')) {
      const value = await degradationOf(name, [uniform, targetDistribution], [[targetDistribution]]);
      expect(value, name).toBeCloseTo(name === 'surprisal' ? 1.75 * ln2 : 0, 6);
    }
  });

  it('average over rows', async () => {
    const value = await degradationOf(
      'total-variation',
      [uniform, targetDistribution, targetDistribution],
      [[draftDistribution, targetDistribution]],
    );
    expect(value).toBeCloseTo(0.1875, 6);
  });

  it('total variation is the rejection probability of the verification', async () => {
    const kept = acceptanceProbability(
      Float32Array.from(targetDistribution),
      Float32Array.from(draftDistribution),
    );
    expect(await oneAhead('total-variation')).toBeCloseTo(1 - kept, 6);
  });

  it('expected length is K minus the sum of the products of the acceptance probabilities', async () => {
    // Two levels: the first row of each belongs to the draft that begins at the first answer token.
    const second: Distribution = [0.1, 0.2, 0.3, 0.4];
    const value = await degradationOf(
      'expected-length',
      [uniform, targetDistribution, second],
      [[draftDistribution, uniform], [[0.4, 0.3, 0.2, 0.1]]],
    );
    const first = 0.625;
    const then = 0.1 + 0.2 + 0.2 + 0.1;
    expect(value).toBeCloseTo(2 - (first + first * then), 6);
  });

  it('margin averages over positions and depths, and a token that cannot be drafted is lost', async () => {
    // Depth 0 drafts answer tokens 1 and 2, depth 1 token 2; token 3 of the target is not in the draft vocabulary.
    const known = Int32Array.of(0, 1, 2);
    const drafts: Distribution[][] = [
      [
        [0.5, 0.25, 0.25],
        [0.2, 0.2, 0.6],
      ],
      [[0.8, 0.1, 0.1]],
    ];
    const value = await degradationOf('margin', [uniform, uniform, uniform], drafts, known, [1, 0, 3]);
    const first = 1 / (1 + 2 ** 0.25); // token 0 leads by ln 2
    expect(value).toBeCloseTo(((first + 1) / 2 + 1) / 2, 6);
  });

  it('margin takes the best wrong token where the answer’s own is first', async () => {
    const value = await degradationOf(
      'margin',
      [uniform, uniform],
      [[[0.6, 0.3, 0.05, 0.05]]],
      undefined,
      [0, 0],
    );
    expect(value).toBeCloseTo(1 / (1 + (0.6 / 0.3) ** 0.25), 6);
  });

  it('the default follows the temperature', () => {
    expect([defaultObjective(0), defaultObjective(0.7)]).toEqual(['margin', 'total-variation']);
  });
});

describe('KL and a smaller draft vocabulary', () => {
  // The drafter knows target tokens 0 to 3; token 4 it cannot propose.
  const known = Int32Array.of(0, 1, 2, 3);
  const target: Distribution = [0.4, 0.2, 0.2, 0.1, 0.1];
  /** All that changes is how little the drafter thinks of token 3, which it proposes too rarely anyway. */
  const draft = (rare: number): Distribution => [0.55, 0.3, 0.15 - rare, rare];
  const measure = (name: ObjectiveName, rare: number): Promise<number> =>
    degradationOf(name, [[0.2, 0.2, 0.2, 0.2, 0.2], target], [[draft(rare)]], known);

  it('grows without bound while the acceptance does not change', async () => {
    const values: number[] = [];
    for (const rare of [1e-2, 1e-8, 1e-16, 1e-32]) {
      expect(await measure('total-variation', rare)).toBeCloseTo(0.25, 6);
      expect(await measure('expected-length', rare)).toBeCloseTo(0.25, 6);
      values.push(await measure('kl', rare));
    }
    // Each halving of the exponent costs the drafter p(3) times as many nats, and there is no end to it.
    expect(values[2]! - values[1]!).toBeCloseTo(0.1 * 8 * Math.LN10, 3);
    expect(values[3]! - values[2]!).toBeCloseTo(0.1 * 16 * Math.LN10, 3);
  });

  it('falls where the target leaves the draft vocabulary and every draft is lost', async () => {
    const measureLeft = (name: ObjectiveName, left: number): Promise<number> =>
      degradationOf(
        name,
        [
          [0.2, 0.2, 0.2, 0.2, 0.2],
          [...uniform.map((share) => share * (1 - left)), left],
        ],
        [[uniform]],
        known,
      );
    expect(await measureLeft('kl', 0.9)).toBeLessThan(await measureLeft('kl', 0.1));
    expect(await measureLeft('total-variation', 0.9)).toBeCloseTo(0.9, 6);
    expect(await measureLeft('total-variation', 0.1)).toBeCloseTo(0.1, 6);
  });
});

describe('preservation', () => {
  it.each([
    ['clean-to-suffixed', 0.625 * Math.LN2],
    ['suffixed-to-clean', 0.5 * Math.LN2],
  ] as const)('%s is a mean of position divergences', async (direction, each) => {
    const shape = [1, 2, 4];
    const pass = { targetLogits: input('suffixed', shape), draftLogits: [] };
    const answer = declareAnswer(undefined, 2);
    const divergence = meanDivergence(positionDivergence(pass, input('clean', shape), direction), answer);
    const program = await createInterpreter().compile({ divergence }, []);
    const logits = (distributions: readonly Distribution[]) =>
      float32(Float32Array.from(distributions.flat(), Math.log), shape);
    const outputs = await program.run({
      clean: logits([targetDistribution, uniform]),
      suffixed: logits([draftDistribution, uniform]),
      weights: answerInputs([0, 0], undefined).weights!,
    });
    expect(floatsOf(outputs, 'divergence')[0]!).toBeCloseTo(each / 2, 6);
  });
});
