/**
 * Target and draft model of one tokenizer whose tables are padded to different sizes: what is drafted is what both
 * have, and the answer is the target's own. The drafter's padding shouts, so that it would be proposed if it could be.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildForcedPass, embedIds, embedOneHotSuffix } from '../../src/audit/search/forced-pass.js';
import { passInputs, readPromptState } from '../../src/audit/search/prompt-state.js';
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';
import { createRandom } from '../../src/core/random.js';
import { toDistribution } from '../../src/core/sampling.js';
import { decodePlain } from '../../src/decode/generate.js';
import { prefill } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { input } from '../../src/graph/tensor.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { type NamedValues, type Program, float32, floatsOf, int32 } from '../../src/runtime/program.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { chiSquareExcess } from '../chi-square.js';
import type { TinySizes } from '../support/tiny-checkpoints.js';
import {
  decoderTensors,
  llamaConfig,
  noise,
  tiniest,
  tiny,
  writeCheckpoint,
  writeLetterTokenizer,
} from '../support/tiny-checkpoints.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import { levelsIn } from '../support/level-sessions.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

/** Rows beyond the tokenizer's tokens. */
interface Padding {
  readonly rows: number;
  /** Deviation of their output weights; trained ones are about as large as a model's output scale. */
  readonly loudness: number;
}

function write(sizes: TinySizes, seed: number, { rows, loudness }: Padding): string {
  const random = createRandom(seed, 'padding');
  const pad = (tensor: WritableTensor, deviation: number): WritableTensor => {
    const added = noise(random, [rows, sizes.hiddenSize], deviation);
    const values = Float32Array.from([...tensor.values, ...added.values].map(Number));
    return { dtype: 'F32', shape: [sizes.vocabularySize + rows, sizes.hiddenSize], values };
  };
  const tensors = decoderTensors(sizes, seed);
  const padded: WritableTensors = {
    ...tensors,
    'model.embed_tokens.weight': pad(tensors['model.embed_tokens.weight']!, 1),
    'lm_head.weight': pad(tensors['lm_head.weight']!, loudness),
  };
  const config = llamaConfig({ ...sizes, vocabularySize: sizes.vocabularySize + rows });
  const folder = models.freshFolder();
  writeCheckpoint(folder, 'model.safetensors', padded, config);
  writeLetterTokenizer(folder, sizes);
  return folder;
}

interface Pair {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

async function load(targetFolder: string, drafterFolder: string): Promise<Pair> {
  const target = await models.loadModel(targetFolder);
  const tokenizer = await loadTokenizer(targetFolder);
  return { target, drafter: await models.loadDrafter(drafterFolder, target, tokenizer) };
}

const paddings = [
  { title: 'a drafter padded further', target: 2, drafter: 6 },
  { title: 'a target padded further', target: 6, drafter: 2 },
  { title: 'a drafter without padding', target: 6, drafter: 0 },
];

describe.each(paddings)('$title', (padding) => {
  const words = tiny.vocabularySize;
  let pair: Pair;
  beforeAll(async () => {
    pair = await load(
      write(tiny, 1, { rows: padding.target, loudness: 0.01 }),
      write({ ...tiny, layerCount: 2 }, 1, { rows: padding.drafter, loudness: 2 }),
    );
  });

  it('drafts from the tokens that both have', () => {
    expect(pair.drafter.vocabularySize).toBe(words + Math.min(padding.target, padding.drafter));
  });

  it.each(['chain:1', 'chain:4', 'dynamic:30,3,12'])('answers as plain decoding does: %s', async (text) => {
    const { target, drafter } = pair;
    let accepted = 0;
    for (const length of [1, 5, 17]) {
      const promptIds = randomTokens(`padded ${length}`, length, words);
      const request = { promptIds, maxNewTokens: 24, stopIds: [], sampling: { temperature: 0 }, seed: 0 };
      const plain = await decodePlain(target, request);
      const policy = always(resolveText(text, drafter));
      const speculative = await decodeSpeculative(target, drafter, { ...request, policy });
      expect(speculative.tokenIds).toEqual(plain.tokenIds);
      expect(speculative.drafterFailed).toBe(false);
      accepted += speculative.acceptance.accepted;
    }
    expect(accepted).toBeGreaterThan(0);
  });

  it('says so and drafts no more behind a token that it cannot read', async () => {
    const { target, drafter } = pair;
    const last = target.configuration.vocabularySize - 1;
    const promptIds = [3, last, 5];
    const request = { promptIds, maxNewTokens: 8, stopIds: [], sampling: { temperature: 0 }, seed: 0 };
    const plain = await decodePlain(target, request);
    const policy = always(resolveText('chain:2', drafter));
    const notices: string[] = [];
    const { tokenIds, acceptance, drafterFailed } = await decodeSpeculative(target, drafter, {
      ...request,
      policy,
      onNotice: (notice) => notices.push(notice),
    });
    const isKnown = padding.drafter >= padding.target;
    expect(tokenIds).toEqual(plain.tokenIds);
    expect(drafterFailed).toBe(!isKnown);
    expect(acceptance.proposed > 0).toBe(isKnown);
    const notice = expect.stringContaining(`The text holds token ${last}; the draft model`) as string;
    expect(notices).toEqual(isKnown ? [] : [notice]);
  });

  it('is the same drafter as a graph, with token ids and with one-hot rows', async () => {
    const { target, drafter } = pair;
    const window = 6;
    const suffix = randomTokens('suffix', 4, words);
    const answer = randomTokens('answer', window, words);
    const state = await readPromptState(pair, randomTokens('prompt', 9, words));
    const rest = answer.slice(0, -1);
    const tokens = [state.lastToken, ...suffix, ...rest];
    const { vocabularySize } = target.configuration;
    const hot = new Float32Array(suffix.length * vocabularySize);
    suffix.forEach((token, row) => (hot[row * vocabularySize + token] = 1));
    const oneHot = input('oneHot', [suffix.length, vocabularySize]);
    const given: NamedValues = {
      tokens: int32(tokens, [1, tokens.length]),
      first: int32([state.lastToken]),
      rest: int32(rest),
      oneHot: float32(hot, [suffix.length, vocabularySize]),
      ...passInputs(state, pair, tokens.length),
    };
    const [byIds, byRows] = await Promise.all(
      [embedIds(), embedOneHotSuffix(oneHot)].map(async (embedWith) => {
        const pass = buildForcedPass({ target, drafter, window, embedWith, depth: 1 });
        const stores = [target.weights, ...drafter.graph!.weights];
        const outputs = await runDeclared(
          await target.runtime.compile({ logits: pass.draftLogits[0]! }, stores),
          given,
        );
        expect(outputs.logits!.shape).toEqual([1, window - 1, drafter.vocabularySize]);
        return floatsOf(outputs, 'logits');
      }),
    );
    const session = drafter.startSession();
    const ids = [...randomTokens('prompt', 9, words), ...suffix, ...answer];
    const read = ids.length - window;
    session.observe({
      tokens: Int32Array.from(ids.slice(0, read)),
      states: undefined,
      next: ids[read]!,
    });
    const root = { tokens: [ids[read]!], parents: [-1], depths: [0] };
    const scores = (await levelsIn(session)!.expand(root, [0], 'logits')).logits(0);
    expect(scores).toHaveLength(Math.max(drafter.vocabularySize, vocabularySize));
    scores.forEach((score, token) => {
      if (token >= drafter.vocabularySize) expect(score).toBe(-Infinity);
      else expect(byIds![token]).toBeCloseTo(score, 4);
    });
    byRows!.forEach((value, index) => {
      expect(value).toBeCloseTo(byIds![index]!, 4);
    });
  });
});

async function runDeclared(program: Program, values: NamedValues): Promise<NamedValues> {
  const names = new Set(program.inputs.map(({ name }) => name));
  return program.run(Object.fromEntries(Object.entries(values).filter(([name]) => names.has(name))));
}

describe.each(paddings.slice(0, 1))('sampled, $title', (padding) => {
  const draws = 400;
  const promptIds = [5, 2];
  const sampling = { temperature: 1 };

  it('keeps the distribution of the target', async () => {
    const { target, drafter } = await load(
      write(tiniest, 1, { rows: padding.target, loudness: 0.1 }),
      write({ ...tiniest, layerCount: 2 }, 1, { rows: padding.drafter, loudness: 0.5 }),
    );
    const { vocabularySize } = target.configuration;
    const next = async (ids: readonly number[]): Promise<ArrayLike<number>> => {
      const { logits } = (await prefill(target, target.createCache(), ids, { want: ['logits'] }))!;
      return toDistribution(logits!, sampling);
    };
    const expected = new Array<number>(vocabularySize ** 2).fill(0);
    const first = await next(promptIds);
    for (let one = 0; one < vocabularySize; one++) {
      const second = await next([...promptIds, one]);
      for (let two = 0; two < vocabularySize; two++)
        expected[one * vocabularySize + two] = first[one]! * second[two]!;
    }
    const counts = new Array<number>(vocabularySize ** 2).fill(0);
    const policy = always(resolveText('chain:2', drafter));
    let accepted = 0;
    let proposed = 0;
    for (let seed = 0; seed < draws; seed++) {
      const request = { promptIds, maxNewTokens: 2, stopIds: [], sampling, seed };
      const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
      counts[tokenIds[0]! * vocabularySize + tokenIds[1]!]! += 1;
      accepted += acceptance.accepted;
      proposed += acceptance.proposed;
    }
    expect(chiSquareExcess(counts, expected)).toBeLessThan(1);
    expect(accepted).toBeGreaterThan(draws / 10);
    expect(accepted).toBeLessThan(proposed);
  });
});

describe('what is not padding', () => {
  it('is a vocabulary that the shared rows do not hold', async () => {
    const smaller = { ...tiny, vocabularySize: 20 };
    const folder = write(smaller, 1, { rows: 0, loudness: 1 });
    writeLetterTokenizer(folder, tiny);
    await expect(load(write(tiny, 1, { rows: 2, loudness: 1 }), folder)).rejects.toThrow(
      /has a vocabulary of 20 tokens; the target's has 26, and the tokenizer's 24 tokens do not fit into both/,
    );
  });
});
