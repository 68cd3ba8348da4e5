/**
 * Draft models with another tokenizer than the target's: the answer is the target's own, token for token at temperature 0
 * and in distribution above it. Draft models are translations of their target, so that they often agree with it. The full
 * tier draws four times as often.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/audit-request.js';
import { toDistribution } from '../../src/core/sampling.js';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { prefill } from '../../src/decode/prompt-reading.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { OtherVocabulary } from '../../src/draft/draft-model/other-vocabulary.js';
import { translateDrafter } from '../../src/draft/draft-model/other-vocabulary.js';
import { findOtherVocabulary } from '../../src/draft/draft-model/vocabulary-match.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { inspectCheckpoint } from '../../src/draft/inspection.js';
import { requireGraph } from '../../src/draft/reading/checks.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { growTree } from '../../src/draft/tree/grow-tree.js';
import type { AttentionDrafter } from '../../src/draft/programs/attention-drafter.js';
import { withLevels } from '../support/level-sessions.js';
import { findVocabularyDifference, loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { chiSquareExcess } from '../chi-square.js';
import { describeCuda } from '../support/emulated-suite.js';
import { byTier, casesOfTier, isFullTier } from '../support/tier.js';
import { tiniest, tiny, type TinySizes } from '../support/tiny-checkpoints.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import type { TinyVocabulary } from '../support/tiny-vocabularies.js';
import { byteLevel, sentencePiece, writeTarget, writeTranslation } from '../support/tiny-vocabularies.js';

const onCpu = new TinyModels(tiny);
afterAll(() => onCpu.dispose());

interface Pair {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

interface Vocabularies {
  readonly from: TinyVocabulary;
  readonly to: TinyVocabulary;
}

async function load(
  sizes: TinySizes,
  { from, to }: Vocabularies,
  draftSizes = sizes,
  models = onCpu,
): Promise<Pair> {
  const folder = writeTarget(models.freshFolder(), sizes, from);
  const target = await models.loadModel(folder);
  const draft = await writeTranslation(models.freshFolder(), draftSizes, { from, to });
  return { target, drafter: await models.loadDrafter(draft, target, await loadTokenizer(folder)) };
}

const pairs = [
  { title: 'byte-level target, SentencePiece draft model', from: byteLevel, to: sentencePiece },
  { title: 'SentencePiece target, byte-level draft model', from: sentencePiece, to: byteLevel },
];

const policies = casesOfTier(['chain:1', 'chain:4', 'dynamic:12,3,3'], (policy) => policy === 'chain:4');
const greedy = { maxNewTokens: 24, stopIds: [], sampling: { temperature: 0 }, seed: 0 };
const prompts = [1, 5, 17].map((length) => ({ length, name: `prompt ${length}` }));

describe.each(pairs)('$title', ({ from, to }) => {
  const words = from.pieces.length;
  let pair: Pair;
  beforeAll(async () => {
    pair = await load(tiny, { from, to });
  });

  it.each(policies)('answers as plain decoding does: %s', async (text) => {
    const { target, drafter } = pair;
    let accepted = 0;
    for (const { name, length } of prompts) {
      const request = { ...greedy, promptIds: randomTokens(name, length, words) };
      const plain = await decodePlain(target, request);
      const policy = always(resolveText(text, drafter));
      const speculative = await decodeSpeculative(target, drafter, { ...request, policy, mustDraft: true });
      expect(speculative.tokenIds).toEqual(plain.tokenIds);
      accepted += speculative.acceptance.accepted;
    }
    expect(accepted).toBeGreaterThan(3);
  });

  it('answers together as alone', async () => {
    const { target, drafter } = pair;
    const engine = new Engine({ concurrency: 3 });
    const answers = await Promise.all(
      prompts.map(({ name, length }) =>
        engine.run(() => {
          const promptIds = randomTokens(name, length, words);
          const policy = always(resolveText('chain:3', drafter));
          return decodeSpeculative(target, drafter, { ...greedy, promptIds, policy, engine });
        }),
      ),
    );
    for (const [index, { name, length }] of prompts.entries()) {
      const plain = await decodePlain(target, { ...greedy, promptIds: randomTokens(name, length, words) });
      expect(answers[index]!.tokenIds).toEqual(plain.tokenIds);
    }
    expect(answers.some(({ acceptance }) => acceptance.accepted > 0)).toBe(true);
  });

  it('drafts in the middle of a character', async () => {
    const { target, drafter } = pair;
    const euro = from.pieces.flatMap((piece, id) => (/^(<0x|[âĤ¬])/.test(piece) ? [id] : []));
    for (const end of [1, 2, 3]) {
      const request = { ...greedy, maxNewTokens: 6, promptIds: [2, ...euro.slice(0, end)] };
      const plain = await decodePlain(target, request);
      const policy = always(resolveText('chain:3', drafter));
      const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
      expect(tokenIds).toEqual(plain.tokenIds);
      expect(acceptance.proposed).toBeGreaterThan(0);
    }
  });
});

describe('a draft model whose context is shorter than the text', () => {
  it('stops drafting, at any temperature', async () => {
    const short = { ...tiny, contextLength: 12 };
    const { target, drafter } = await load(tiny, { from: byteLevel, to: sentencePiece }, short);
    for (const temperature of [0, 1]) {
      const notices: string[] = [];
      const promptIds = randomTokens('long', 6, byteLevel.pieces.length);
      const { acceptance, tokenIds } = await decodeSpeculative(target, drafter, {
        ...{ ...greedy, promptIds, sampling: { temperature }, mustDraft: true },
        policy: always(resolveText('chain:3', drafter)),
        onNotice: (notice) => notices.push(notice),
      });
      expect([tokenIds.length, acceptance.proposed > 0]).toEqual([24, true]);
      expect(notices).toEqual([expect.stringContaining('The context of the drafter is full')]);
    }
  });
});

describe('sampled drafts', () => {
  const from: TinyVocabulary = { kind: 'byte-level', pieces: ['</s>', 'a', 'b', 'Ġ', 'c', 'd', 'ab', 'Ġa'] };
  const to: TinyVocabulary = {
    kind: 'sentencepiece',
    pieces: ['<s>', '</s>', 'd', 'c', 'b', 'a', '▁', '▁a', 'bc', 'cd'],
  };
  const promptIds = [5, 2];
  const sampling = { temperature: 1 };
  const size = from.pieces.length;
  const draws = byTier({ quick: 300, full: 1200 });

  async function findExpected(target: CausalModel): Promise<number[]> {
    const next = async (ids: readonly number[]): Promise<ArrayLike<number>> => {
      const { logits } = (await prefill(target, target.createCache(), ids, { want: ['logits'] }))!;
      return toDistribution(logits!, sampling);
    };
    const first = await next(promptIds);
    const expected: number[] = [];
    for (let one = 0; one < size; one++) {
      const second = await next([...promptIds, one]);
      for (let two = 0; two < size; two++) expected.push(first[one]! * second[two]!);
    }
    return expected;
  }

  async function draw({ target, drafter }: Pair, times = draws): Promise<{ counts: number[]; rate: number }> {
    const counts = new Array<number>(size ** 2).fill(0);
    const policy = always(resolveText('chain:1', drafter));
    let [accepted, proposed] = [0, 0];
    for (let seed = 0; seed < times; seed++) {
      const request = { promptIds, maxNewTokens: 2, stopIds: [], sampling, seed, policy };
      const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, request);
      counts[tokenIds[0]! * size + tokenIds[1]!]! += 1;
      accepted += acceptance.accepted;
      proposed += acceptance.proposed;
    }
    return { counts, rate: accepted / proposed };
  }

  it('keep the distribution of the target', async () => {
    const pair = await load(tiniest, { from, to }, { ...tiniest, layerCount: 2 });
    expect(pair.drafter.vocabularySize).toBe(7); // all but ab
    const expected = await findExpected(pair.target);
    const { counts, rate } = await draw(pair);
    expect(chiSquareExcess(counts, expected)).toBeLessThan(1);
    expect(rate).toBeGreaterThan(0.3);
  });

  it.runIf(isFullTier)('would show a law that they were not drawn from', async () => {
    const { target, drafter } = await load(tiniest, { from, to }, { ...tiniest, layerCount: 2 });
    const { counts } = await draw({ target, drafter: misreport(drafter, size) });
    expect(chiSquareExcess(counts, await findExpected(target))).toBeGreaterThan(1.5);
  });

  it.runIf(isFullTier)('stay exact with a wrong map of tokens, and are accepted less', async () => {
    const targetFolder = writeTarget(onCpu.freshFolder(), tiniest, from);
    const folder = await writeTranslation(onCpu.freshFolder(), tiniest, { from, to });
    const target = await onCpu.loadModel(targetFolder);
    const inner = (await onCpu.loadDrafter(folder, await onCpu.loadModel(folder))) as AttentionDrafter;
    const sizes = { target: size, draft: to.pieces.length };
    const tokenizers = { target: await loadTokenizer(targetFolder), draft: await loadTokenizer(folder) };
    const difference = findVocabularyDifference(tokenizers.target, tokenizers.draft);
    const vocabulary = { ...findOtherVocabulary(folder, { ...tokenizers, sizes, difference })!, start: [0] };
    const right = await draw({ target, drafter: translateDrafter(inner, vocabulary) }, 300);
    const wrong = await draw({ target, drafter: translateDrafter(inner, shiftMap(vocabulary)) });
    expect(chiSquareExcess(wrong.counts, await findExpected(target))).toBeLessThan(1);
    expect(wrong.rate).toBeLessThan(0.8 * right.rate);
  });
});

/** Verification is told that a token was drawn evenly, whatever it was drawn from. */
function misreport(drafter: Drafter, size: number): Drafter {
  return withLevels(drafter, ({ expand }) => ({
    expand,
    async chain(ask) {
      const tree = await growTree({ expand }, ask);
      return { ...tree, laws: Array.from(tree.tokens, () => new Float32Array(size).fill(1 / size)) };
    },
  }));
}

function shiftMap({ shared, ...rest }: OtherVocabulary): OtherVocabulary {
  const own = [...shared.targetTokens.keys()].filter((token) => shared.targetTokens[token]! >= 0);
  const targetTokens = shared.targetTokens.slice();
  const draftTokens = shared.draftTokens.slice();
  own.forEach((token, index) => {
    const target = shared.targetTokens[own[(index + 1) % own.length]!]!;
    targetTokens[token] = target;
    draftTokens[target] = token;
  });
  return { ...rest, shared: { ...shared, targetTokens, draftTokens } };
}

describe('without a gradient', () => {
  it('audits ask for a random search, and training refuses', async () => {
    const target = writeTarget(onCpu.freshFolder(), tiny, byteLevel);
    const draft = await writeTranslation(onCpu.freshFolder(), tiny, { from: byteLevel, to: sentencePiece });
    const prompts = [{ id: 'a', text: 'ab', turns: ['ab'] }];
    const plan = { prompts, target, drafters: [draft], device: 'cpu' } as const;
    await expect(createRequest(plan)).rejects.toThrow(
      /has another vocabulary than the target's, and so no gradient that a search could follow\.$/,
    );
    const { drafters } = await createRequest({ ...plan, settings: { search: 'random' } });
    expect(drafters.map(({ system }) => system)).toEqual(['speculative-sampling']);
    const { drafter } = await load(tiny, { from: byteLevel, to: sentencePiece });
    expect(() => requireGraph(drafter)).toThrow(/has no gradient: its tokens are not the target's\.$/);
  });

  it('inspect compares the vocabularies', async () => {
    const target = writeTarget(onCpu.freshFolder(), tiny, byteLevel);
    const draft = await writeTranslation(onCpu.freshFolder(), tiny, { from: byteLevel, to: sentencePiece });
    const notesOf = async (folder: string) => (await inspectCheckpoint(folder, { target })).notes.at(-1);
    expect(await notesOf(draft)).toMatch(/1\d of the target's 21 tokens are shared.*no gradient/);
    expect(await notesOf(target)).toMatch(/nothing shows another vocabulary/);
  });
});

if (isFullTier)
  describeCuda('on a GPU, which draws in programs', {}, (bench) => {
    it('answers as on the CPU, at any temperature', async () => {
      const onGpu = new TinyModels(tiny, bench.runtime);
      const vocabularies = { from: byteLevel, to: sentencePiece };
      const [cpu, gpu] = [await load(tiny, vocabularies), await load(tiny, vocabularies, tiny, onGpu)];
      for (const temperature of [0, 1])
        for (const seed of [0, 1]) {
          const promptIds = randomTokens(`device ${seed}`, 5, byteLevel.pieces.length);
          const sampling = { temperature };
          const policy = always(resolveText('chain:3', cpu.drafter));
          const request = { ...greedy, maxNewTokens: 12, promptIds, sampling, seed, policy };
          const [left, right] = [
            await decodeSpeculative(cpu.target, cpu.drafter, request),
            await decodeSpeculative(gpu.target, gpu.drafter, request),
          ];
          expect(right.tokenIds).toEqual(left.tokenIds);
          expect(right.acceptance).toEqual(left.acceptance);
        }
    });
  });

describe('a vocabulary of a size that the weights do not have', () => {
  const message = /"model\.embed_tokens\.weight" would have the size \[1000000000000000, 16\]\./;
  const folders = async () => {
    const vocabularies = { from: byteLevel, to: sentencePiece };
    return {
      target: writeTarget(onCpu.freshFolder(), tiny, byteLevel),
      draft: await writeTranslation(onCpu.freshFolder(), tiny, vocabularies),
    };
  };
  const setSize = (folder: string): void => {
    const path = join(folder, 'config.json');
    const config = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...config, vocab_size: 1e15 }));
  };

  it('is refused in a draft model before a table of that size is made', async () => {
    const { target, draft } = await folders();
    setSize(draft);
    const model = await onCpu.loadModel(target);
    await expect(onCpu.loadDrafter(draft, model, await loadTokenizer(target))).rejects.toThrow(message);
    const { problems } = await inspectCheckpoint(draft, { target });
    expect(problems.map(({ problem }) => problem).join('\n')).toMatch(message);
  });

  it('is refused in the target of a draft model', async () => {
    const { target, draft } = await folders();
    setSize(target);
    const { problems } = await inspectCheckpoint(draft, { target });
    expect(problems.map(({ problem }) => problem)).toEqual([expect.stringMatching(message)]);
  });
});

describe('vocabularies with hardly a token in common', () => {
  it('are refused in one sentence', async () => {
    const greek: TinyVocabulary = { kind: 'byte-level', pieces: ['</s>', 'Î', 'Ï', '±', 'Ĭ'] };
    await expect(load(tiny, { from: byteLevel, to: greek })).rejects.toThrow(
      /has 0 of its 5 tokens in common with the target, which has 21\.$/,
    );
  });
});
