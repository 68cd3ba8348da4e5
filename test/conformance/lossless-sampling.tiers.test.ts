/**
 * Sampling through the whole loop keeps the target's distribution: the first three tokens of many short answers against the distribution
 * that the target's own logits give. The first token is the prefill's; the two behind it are drafted and verified.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SamplingOptions } from '../../src/core/sampling.js';
import { toDistribution } from '../../src/core/sampling.js';
import type { AcceptanceRecord } from '../../src/decode/acceptance.js';
import { poolAcceptance } from '../../src/decode/acceptance.js';
import { decodePlain } from '../../src/decode/generate.js';
import { prefill } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { chiSquareExcess } from '../chi-square.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { tiniest } from '../support/tiny-checkpoints.js';
import { drafterVariants, drawnVariant, hybridVariant, ngramVariant } from '../support/tiny-drafters.js';
import type { TinyPair } from '../support/tiny-pair.js';
import { resolveText, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiniest);
afterAll(() => models.dispose());
const { vocabularySize } = tiniest;
const shortPrompt = [5, 2];
/** Every token, twice: whatever comes has been followed by something. */
const repeatingPrompt = Array.from(
  { length: 2 * vocabularySize },
  (_, place) => (3 * place) % vocabularySize,
);
const draws = 500;

const smallTree = models.writeTree([[0], [1], [2], [0, 0], [0, 1], [1, 0]]);
const gappedTree = models.writeTree([[1], [3], [1, 2], [3, 0]]);
const widestTree = models.writeTree(Array.from({ length: vocabularySize }, (_, rank) => [rank]));

/** By token ids. All pairs have the same target, so its scores are computed once. */
const knownLogits = new Map<string, Float32Array>();

async function nextDistribution(target: CausalModel, ids: readonly number[], sampling: SamplingOptions) {
  const logits =
    knownLogits.get(ids.join()) ??
    (await prefill(target, target.createCache(), ids, { want: ['logits'] }))!.logits!;
  knownLogits.set(ids.join(), logits);
  return toDistribution(logits, sampling);
}

/** [first, second, third], flattened */
async function jointDistribution(
  target: CausalModel,
  sampling: SamplingOptions,
  promptIds: readonly number[] = shortPrompt,
): Promise<number[]> {
  const joint = new Array<number>(vocabularySize ** 3).fill(0);
  const first = await nextDistribution(target, promptIds, sampling);
  for (let one = 0; one < vocabularySize; one++) {
    const second = await nextDistribution(target, [...promptIds, one], sampling);
    for (let two = 0; two < vocabularySize; two++) {
      const third = await nextDistribution(target, [...promptIds, one, two], sampling);
      third.forEach((probability, three) => {
        const cell = (one * vocabularySize + two) * vocabularySize + three;
        joint[cell] = first[one]! * second[two]! * probability;
      });
    }
  }
  return joint;
}

/** The distribution of the two tokens that were drafted. */
function dropFirstToken(cells: readonly number[]): number[] {
  const pairs = new Array<number>(vocabularySize ** 2).fill(0);
  cells.forEach((mass, cell) => (pairs[cell % pairs.length]! += mass));
  return pairs;
}

function countCells(answers: readonly (readonly number[])[]): number[] {
  const counts = new Array<number>(vocabularySize ** 3).fill(0);
  for (const [one, two, three] of answers)
    counts[(one! * vocabularySize + two!) * vocabularySize + three!]! += 1;
  return counts;
}

async function expectDistribution(
  target: CausalModel,
  sampling: SamplingOptions,
  answers: readonly (readonly number[])[],
  promptIds = shortPrompt,
) {
  const expected = await jointDistribution(target, sampling, promptIds);
  const counts = countCells(answers);
  expect(chiSquareExcess(counts, expected)).toBeLessThan(1);
  expect(chiSquareExcess(dropFirstToken(counts), dropFirstToken(expected))).toBeLessThan(1);
}

const whole = { temperature: 1 };
const cut = { temperature: 1.3, topK: 6, topP: 0.85 };
const requestFor = (sampling: SamplingOptions, seed: number, promptIds = shortPrompt) => ({
  promptIds,
  maxNewTokens: 3,
  stopIds: [],
  sampling,
  seed,
});

const quick = [
  'draft model chain:2',
  `EAGLE-3 with d2t ${gappedTree}`,
  'ngram chain:1',
  'ngram+EAGLE-3 with d2t chain:2',
];

/** Every system and every shape of drafts, in few of their combinations. */
const systems = [
  {
    name: 'draft model',
    cases: [
      { policyText: 'chain:2', sampling: whole },
      { policyText: smallTree, sampling: cut },
      { policyText: widestTree, sampling: whole },
    ],
  },
  { name: 'PARD', cases: [{ policyText: 'chain:2', sampling: whole }] },
  { name: 'P-EAGLE', cases: [{ policyText: 'chain:2', sampling: whole }] },
  { name: 'MTP', cases: [{ policyText: 'chain:2', sampling: whole }] },
  {
    name: 'DSpark',
    cases: [
      { policyText: 'chain:2', sampling: whole },
      { policyText: smallTree, sampling: whole },
    ],
  },
  {
    name: 'DSpark with a Markov head of the type rnn',
    cases: [{ policyText: 'chain:2', sampling: whole }],
  },
  { name: 'EAGLE-3 of two layers', cases: [{ policyText: 'chain:2', sampling: whole }] },
  {
    name: 'DFlash',
    cases: [
      { policyText: 'chain:2', sampling: whole },
      { policyText: smallTree, sampling: cut },
    ],
  },
  { name: 'Medusa, torch file', cases: [{ policyText: gappedTree, sampling: whole }] },
  {
    name: 'EAGLE, torch file, with bias',
    cases: [{ policyText: 'dynamic:8,1,3', sampling: whole }],
  },
  {
    name: 'EAGLE-3 with d2t',
    cases: [
      { policyText: gappedTree, sampling: whole },
      { policyText: 'dynamic:8,1,3', sampling: cut },
    ],
  },
  {
    name: 'ngram',
    cases: [
      { policyText: 'chain:2', sampling: whole },
      { policyText: 'chain:1', sampling: cut },
    ],
  },
  {
    name: 'ngram+EAGLE-3 with d2t',
    cases: [
      { policyText: 'chain:2', sampling: whole },
      { policyText: smallTree, sampling: cut },
    ],
  },
  {
    name: 'draft model+EAGLE-3 with d2t',
    cases: [{ policyText: 'chain:2', sampling: whole }],
  },
].map(({ name, cases }) => ({
  name,
  cases: casesOfTier(cases, ({ policyText }) => quick.includes(`${name} ${policyText}`)),
}));

describe.each(systems.filter(({ cases }) => cases.length > 0))('$name', ({ name, cases }) => {
  const promptIds = name.startsWith('ngram') ? repeatingPrompt : shortPrompt;
  let pair: TinyPair;
  beforeAll(async () => {
    const variant = [...drafterVariants, ngramVariant, hybridVariant, drawnVariant].find(
      (other) => other.name === name,
    )!;
    pair = await models.load(variant.write(models.freshFolder(), tiniest));
  });

  const titled = cases.map((row) => ({ ...row, title: row.policyText.replace(/tree:.*\/(.*)/, 'tree:$1') }));
  it.each(titled)('$title at $sampling', async ({ policyText, sampling }) => {
    const { target, drafter } = pair;
    const policy = always(resolveText(policyText, drafter));
    const answers: (readonly number[])[] = [];
    const records: AcceptanceRecord[] = [];
    for (let seed = 0; seed < draws; seed++) {
      const result = await decodeSpeculative(target, drafter, {
        ...requestFor(sampling, seed, promptIds),
        policy,
      });
      expect(result.rule).toBe('rejection');
      answers.push(result.tokenIds);
      records.push(result.acceptance);
    }
    await expectDistribution(target, sampling, answers, promptIds);
    // Both outcomes must have been met for the distribution to say anything.
    const { accepted, proposed } = poolAcceptance(records);
    expect(accepted).toBeGreaterThan(draws / 10);
    expect(accepted).toBeLessThan(proposed);
  });
});

it.runIf(byTier({ quick: true, full: false }))(
  'is a test that plain decoding passes and a distribution of another temperature fails',
  async () => {
    const { target } = await models.load(drafterVariants[0]!.write(models.freshFolder(), tiniest));
    const answers: (readonly number[])[] = [];
    for (let seed = 0; seed < draws; seed++)
      answers.push((await decodePlain(target, requestFor(whole, seed))).tokenIds);
    await expectDistribution(target, whole, answers);
    const other = await jointDistribution(target, { temperature: 1.3 });
    expect(chiSquareExcess(countCells(answers), other)).toBeGreaterThan(1);
  },
);
