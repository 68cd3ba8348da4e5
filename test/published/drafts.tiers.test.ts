/** Every published drafter against the reference in double precision: drafts node by node, in their order. */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import { byTier, casesOfTier } from '../support/tier.js';
import type { PublishedDrafter } from './drafter-row.js';
import {
  draftWithMistletoe,
  draftWithReference,
  PublishedPairs,
  textFor,
  type PolicyText,
} from './drafting.js';
import type { Scorer } from './float64-drafters.js';
import { scoreWithBlocks, type BlockFacts } from './float64-blocks.js';
import { scoreWithHydra, scoreWithMedusa } from './float64-drafters.js';
import { scoreWithEagle, scoreWithEagle3, type Eagle3Facts } from './float64-eagle.js';
import type { Float64Model } from './float64-model.js';
import { scoreWithMtp, type MtpFacts } from './float64-mtp.js';
import { pardMask, publishedDrafters } from './published-drafters.js';
import { blockRows } from './published-blocks.js';
import { eagle3Rows } from './published-eagle3.js';
import { mtpRows } from './published-mtp.js';

const pairs = new PublishedPairs();
afterAll(() => pairs.dispose());

/** Closer decisions could fall either way in single precision; a row that has one needs another seed. */
const leastMargin = 1e-4;

const policiesOf: Readonly<Record<PublishedDrafter['kind'], readonly PolicyText[]>> = {
  decoder: ['chain:4', 'dynamic:24,3,4'],
  pard: ['chain:4', 'dynamic:24,3,4'],
  medusa: ['chain:4', 'tree:mc_sim_7b_63'],
  hydra: ['chain:4', 'tree:mc_sim_7b_63'],
  eagle: ['chain:4', 'dynamic:24,3,4'],
  eagle3: ['chain:4', 'dynamic:24,3,4'],
  'p-eagle': ['chain:4', 'dynamic:24,3,4'],
  dflash: ['chain:4', 'dynamic:24,3,4'],
  dspark: ['chain:4', 'dynamic:24,3,4'],
  mtp: ['chain:4', 'dynamic:24,3,4'],
};

/** The first layout of each system is quick. */
const isQuick = (row: PublishedDrafter): boolean =>
  row === publishedDrafters.find(({ kind }) => kind === row.kind) || row.name.endsWith('of the type rnn');

describe.each(casesOfTier(publishedDrafters, isQuick))('$name', (row) => {
  it.each(policiesOf[row.kind])('drafts %s as the reference', async (policy) => {
    const text = textFor(row);
    const expected = [...draftWithReference(row, (target) => row.score(target), text, policy)];
    for (const { margin } of expected) expect(margin).toBeGreaterThan(leastMargin);
    const drafted = await draftWithMistletoe(await pairs.open(row), text, policy);
    expect(drafted).toEqual(expected.map(({ tokens, parents }) => ({ tokens, parents })));
  });
});

it.each(byTier({ quick: [0.2, 0.4, 0.6, 0.8], full: [] }))(
  'ends chains of DSpark below the confidence %s',
  async (threshold) => {
    const plain = blockRows.find(({ name }) => name === 'deepseek-ai/dspark_qwen3_8b_block7')!;
    const config = { ...plain.folder.config, confidence_threshold: threshold };
    const row = { ...plain, name: `${plain.name}, cut at ${threshold}`, folder: { ...plain.folder, config } };
    const score = (target: Float64Model): Scorer =>
      scoreWithBlocks(row.folder.tensors, target, { ...row.facts, threshold });
    const text = textFor(plain);
    const expected = [...draftWithReference(row, score, text, 'chain:4')].map(({ tokens, parents }) => {
      const end = (tokens as readonly (number | undefined)[]).indexOf(undefined);
      const kept = end < 0 ? tokens.length : end;
      return { tokens: tokens.slice(0, kept), parents: parents.slice(0, kept) };
    });
    expect(await draftWithMistletoe(await pairs.open(row), text, 'chain:4')).toEqual(expected);
    lengths.push(...expected.map(({ tokens }) => tokens.length - 1));
    if (lengths.length === 16) expect(new Set(lengths).size).toBeGreaterThan(1);
  },
);
const lengths: number[] = [];

/** A judge that never says no proves nothing: with one fact wrong, at least one node has to be another. */
describe.runIf(byTier({ quick: false, full: true }))('a reference with one fact wrong', () => {
  const policy = 'dynamic:24,3,4';
  type Wrong = (target: Float64Model) => Scorer;

  async function expectDisagreement(row: PublishedDrafter, wrong: Wrong, by: PolicyText): Promise<void> {
    const text = textFor(row);
    const drafted = await draftWithMistletoe(await pairs.open(row), text, by);
    let root = 0;
    for (const { tokens, parents } of draftWithReference(row, wrong, text, by))
      if (!isDeepStrictEqual(drafted[root++], { tokens, parents })) return;
    expect.fail('The wrong reference drafts the same.');
  }

  const changed: readonly [fact: string, name: string, changes: Partial<Eagle3Facts>][] = [
    [
      "the target's rotary base instead of the default",
      'yuhuili/EAGLE3-LLaMA3.1-Instruct-8B',
      { rotary: { base: 500_000 } },
    ],
    [
      'the default rotary base instead of its own',
      'RedHatAI/Qwen3-8B-speculator.eagle3',
      { rotary: { base: 10_000 } },
    ],
    [
      'no rotary scaling',
      'the speculators conversion for Llama-3.1-8B-Instruct',
      { rotary: { base: 500_000 } },
    ],
    ['taps off by one', 'the SpecForge head for Qwen3-235B-A22B', { taps: [1, 3, 4] }],
    ['inputs for outputs', 'a SpecForge head on the outputs of 2, 4, 6', { taps: [2, 4, 6] }],
    ['inputs for outputs', 'a SpecForge head on the outputs of 0, 3, 6', { taps: [0, 3, 6] }],
    ['inputs for outputs', 'a SpecForge head on the outputs of 6, 1, 4', { taps: [6, 1, 4] }],
    ["the list's order", 'a SpecForge head on the outputs of 6, 1, 4', { taps: [7, 2, 5] }],
    ['taps off by one', 'a later speculators head with taps of its own', { taps: [3, 5, 8] }],
    [
      'the residual un-normed',
      'a later speculators head with taps of its own',
      { normBeforeResidual: false },
    ],
    [
      'the residual normed',
      'the speculators conversion for Llama-3.1-8B-Instruct',
      { normBeforeResidual: true },
    ],
    ['no norm before the fusion', 'RedHatAI/gpt-oss-20b-speculator.eagle3', { fusionNorm: 'none' }],
    ['one layer too few', 'an EAGLE-3 head with three layers', { layers: 2 }],
    ['a window', 'an EAGLE-3 head with sliding_window alone', { window: 6 }],
    ['a window one too long', 'an EAGLE-3 head with a sliding window', { window: 7 }],
    ['a window one too short', 'an EAGLE-3 head with a sliding window', { window: 5 }],
    ['a window one too long', 'an EAGLE-3 head with two sliding layers by layer_types', { window: 3 }],
    ['a window one too long', 'a P-EAGLE head with a sliding window', { window: 4 }],
    ['another mask token', 'RedHatAI/Qwen3-8B-speculator.peagle', { maskToken: 1 }],
    ['the residual normed', 'RedHatAI/Qwen3-8B-speculator.peagle', { normBeforeResidual: true }],
    ['no norm of each tap', 'the SpecForge EAGLE 3.1 head for Qwen3-30B-A3B', { fusionNorm: 'none' }],
    [
      'the un-normed output fed back',
      'the SpecForge EAGLE 3.1 head for Qwen3-30B-A3B',
      { feedsNormed: false },
    ],
  ];
  it.each(changed)('differs by %s: %s', async (_, name, changes) => {
    const row = eagle3Rows.find((one) => one.name === name)!;
    const wrong: Wrong = (target) =>
      scoreWithEagle3(row.folder.tensors, target, { ...row.facts, ...changes });
    await expectDisagreement(row, wrong, policy);
  });

  const markovHead = 'a DSpark head with a Markov head of the type';
  const changedBlocks: readonly [fact: string, name: string, changes: Partial<BlockFacts>][] = [
    ['another mask token', 'z-lab/Qwen3-8B-DFlash-b16', { maskToken: 36 }],
    ['slots that predict the next token', 'z-lab/Qwen3-8B-DFlash-b16', { isShifted: true }],
    ['taps off by one', 'z-lab/Qwen3-8B-DFlash-b16', { taps: [1, 2, 3, 4, 5] }],
    ['taps off by one', 'RedHatAI/Qwen3-8B-speculator.dflash', { taps: [3, 5, 8] }],
    ['the fused state without its norm', 'z-lab/Qwen3-8B-DFlash-b16', { contextNorm: 'none' }],
    ["the layers' input norm on the fused state", 'z-lab/Qwen3-8B-DFlash-b16', { contextNorm: 'both' }],
    ['a block one slot too short', 'z-lab/Qwen3-8B-DFlash-b16', { slots: 15 }],
    ['one layer too few', 'z-lab/Qwen3-8B-DFlash-b16', { layers: 4 }],
    ['slots that predict their own position', 'deepseek-ai/dspark_qwen3_8b_block7', { isShifted: false }],
    ['slots that predict their own position', 'deepseek-ai/dflash_qwen3_8b_block7', { isShifted: false }],
    ['an open gate', `${markovHead} gated`, { markov: 'vanilla' }],
    ['a forgotten state', `${markovHead} rnn`, { markovFault: 'no state' }],
    [
      'a first slot that the rnn skips',
      'a DSpark head in the speculators format with a Markov head of the type rnn',
      { markovFault: 'first slot skipped' },
    ],
    ['gate and candidate swapped', `${markovHead} rnn`, { markovFault: 'swapped parts' }],
    ['the state behind the feature', `${markovHead} rnn`, { markovFault: 'state last' }],
    [
      'slots of a sliding layer that see later ones',
      'a DFlash head with sliding layers, causal within the block',
      { isCausal: [false, false] },
    ],
  ];
  it.each(changedBlocks)('differs by %s: %s', async (_, name, changes) => {
    const row = blockRows.find((one) => one.name === name)!;
    const wrong: Wrong = (target) =>
      scoreWithBlocks(row.folder.tensors, target, { ...row.facts, ...changes });
    await expectDisagreement(row, wrong, policy);
  });

  const changedMtp: readonly [fact: string, changes: Partial<MtpFacts>][] = [
    ['token and state swapped', { order: 'token, state' }],
    ['the first token in sight', { hidesFirstToken: false }],
    ['states behind the final norm of the target', { reads: 'normed' }],
    ["states before the target's last layer", { reads: 'earlier residual' }],
    ['the un-normed output fed back', { feedsNormed: false }],
    ['no norm of the token', { withoutNorm: 'token_layernorm' }],
    ['no norm of the state', { withoutNorm: 'hidden_layernorm' }],
    ['no final norm', { withoutNorm: 'final_layernorm' }],
    ['the default rotary base', { rotary: { base: 10_000 } }],
  ];
  it.each(changedMtp)('differs by %s of an MTP module', async (_, changes) => {
    const row = mtpRows[0]!;
    const wrong: Wrong = (target) => scoreWithMtp(row.folder.tensors, target, { ...row.facts, ...changes });
    await expectDisagreement(row, wrong, policy);
  });

  it('differs without the Markov head of DSpark', async () => {
    const row = blockRows.find(({ name }) => name === 'deepseek-ai/dspark_qwen3_8b_block7')!;
    const tensors = without(row.folder.tensors, 'markov_head.markov_w1.weight');
    await expectDisagreement(row, (target) => scoreWithBlocks(tensors, target, row.facts), policy);
  });

  const find = (name: string): PublishedDrafter => publishedDrafters.find((row) => row.name === name)!;
  const without = (tensors: WritableTensors, name: string): WritableTensors =>
    Object.fromEntries(Object.entries(tensors).filter(([key]) => key !== name));
  const layer = { heads: 4, keyValueHeads: 4, headSize: 8, normEpsilon: 1e-6, rotary: { base: 10_000 } };

  it.each([
    ['another mask token', (path: readonly number[]) => path.map(() => pardMask - 1)],
    ['the drafted tokens in the place of masks', (path: readonly number[]) => path],
    ['one mask too few', (path: readonly number[]) => path.slice(1).map(() => pardMask)],
  ])('differs by %s of a PARD model', async (_, read) => {
    const row = find('amd/PARD-Qwen2.5-0.5B');
    const wrong: Wrong = (target) => {
      const score = find('Qwen/Qwen2.5-0.5B-Instruct for Qwen2.5-7B-Instruct').score(target);
      return (situation, path) => score(situation, read(path));
    };
    await expectDisagreement(row, wrong, 'chain:4');
  });

  it('differs without the embeddings of its own', async () => {
    const row = eagle3Rows.find(({ name }) => name === 'RedHatAI/Qwen3-8B-speculator.eagle3')!;
    const tensors = without(row.folder.tensors, 'embed_tokens.weight');
    await expectDisagreement(row, (target) => scoreWithEagle3(tensors, target, row.facts), policy);
  });

  it('differs if a P-EAGLE head reads the drafted tokens and its own features', async () => {
    const row = eagle3Rows.find(({ name }) => name === 'RedHatAI/Qwen3-8B-speculator.peagle')!;
    const { maskToken, ...fedBack } = row.facts;
    expect(maskToken).toBeDefined();
    await expectDisagreement(row, (target) => scoreWithEagle3(row.folder.tensors, target, fedBack), policy);
  });

  it.each(['embed_tokens.weight', 'fc.bias'])('differs without %s of an EAGLE head', async (name) => {
    const row = find('yuhuili/EAGLE-Vicuna-7B-v1.3');
    const tensors = without(row.folder.tensors, name);
    await expectDisagreement(row, (target) => scoreWithEagle(tensors, target, layer), policy);
  });

  it("differs by the order of vLLM's Medusa layers", async () => {
    const row = find("Medusa in vLLM's layout, with biases and two layers");
    const names = {
      layers: 2,
      block: (head: number, layer: number) => `medusa_heads.blocks.${head}.layers.${1 - layer}`,
      output: (head: number) => `medusa_heads.lm_heads.${head}`,
    };
    await expectDisagreement(row, () => scoreWithMedusa(row.folder.tensors, names), 'chain:4');
  });

  it("differs by the rotary base of Hydra++'s layer", async () => {
    const row = find('ankner/hydra-vicuna-7b-v1.3');
    const prefix = { ...row.target.facts, rotary: { base: 10_000 } };
    const wrong: Wrong = (target) => scoreWithHydra(row.folder.tensors, target, { layers: 4, prefix });
    await expectDisagreement(row, wrong, 'tree:mc_sim_7b_63');
  });
});
