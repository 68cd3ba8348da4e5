/**
 * Plain greedy = speculative greedy, token for token, on the bundled models. A pass over many rows and a pass over one
 * may round differently; two tokens whose logits lie closer than that are a tie, which either answer may break its own
 * way. Ties are looked up in the target's logits, counted and reported; anything else fails.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { decodePlain } from '../../src/decode/generate.js';
import { prefill } from '../../src/decode/prompt-reading.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import type { Target } from '../../src/decode/target.js';
import { encodePrompt, openTarget } from '../../src/decode/target.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { bundledModels, hasShared, sharedFolder } from '../support/shared.js';
import { resolveText } from '../support/tiny-pair.js';

const runtime = createOnnxRuntime();
afterAll(() => runtime.dispose());

const systems = [
  { name: 'sps', policies: ['chain:4', 'tree:eagle_25', 'dynamic:60,5,10'] },
  { name: 'medusa', policies: ['chain:4', 'tree:mc_sim_7b_63', 'dynamic:60,3,10'] },
  { name: 'hydra', policies: ['chain:4', 'tree:mc_sim_7b_63', 'dynamic:60,3,10'] },
  { name: 'eagle', policies: ['chain:4', 'tree:eagle_25', 'dynamic:60,5,10'] },
  { name: 'eagle3', policies: ['chain:4', 'tree:eagle_25', 'dynamic:60,5,10'] },
] as const;
const cases = systems.flatMap(({ name, policies }) => policies.map((policy) => ({ name, policy })));

const sets = ['mt_bench', 'humaneval', 'gsm8k'];
const promptsPerSet = 8;
const randomPrompts = 6;
const promptsPerCase = 2;
/** One with each kind of policy; each has another prompt. */
const longCases = ['sps chain:4', 'hydra dynamic:60,3,10', 'eagle3 tree:eagle_25'];
const longLength = 900;
const tieGap = 1e-4;

interface Case {
  readonly promptIds: readonly number[];
  readonly maxNewTokens: number;
}

function readQuestions(set: string): string[] {
  const lines = readFileSync(resolve(sharedFolder, `data/${set}.jsonl`), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => (JSON.parse(line) as { turns: string[] }).turns[0]!);
}

describe.skipIf(!hasShared)('plain greedy = speculative greedy', () => {
  let target: Target;
  let short: readonly Case[];
  let long: readonly Case[];
  const plainAnswers = new Map<Case, Promise<readonly number[]>>();
  let compared = 0;
  const ties: string[] = [];

  beforeAll(async () => {
    target = await openTarget(resolve(bundledModels, 'target'), { runtime });
    const questions = sets.map((set) => readQuestions(set));
    const asked = await Promise.all(
      questions.flatMap((set) => set.slice(0, promptsPerSet).map((text) => encodePrompt(target, text))),
    );
    const random = createRandom(3, 'lossless');
    const { vocabularySize } = target.model.configuration;
    const drawn = Array.from({ length: randomPrompts }, () =>
      Array.from({ length: 1 + random.nextInteger(40) }, () => random.nextInteger(vocabularySize)),
    );
    const mixed = [...asked, ...drawn];
    random.shuffle(mixed);
    short = mixed.map((promptIds) => ({ promptIds, maxNewTokens: 20 }));
    const joined = questions.map((set) => set.join('\n\n').slice(0, 10 * longLength));
    const texts = await Promise.all(joined.map((text) => target.tokenizer.encode(text)));
    long = texts.map((ids, index) => ({ promptIds: ids.slice(0, longLength - 7 * index), maxNewTokens: 16 }));
  });

  function answerPlainly(given: Case): Promise<readonly number[]> {
    let answer = plainAnswers.get(given);
    if (answer === undefined) {
      answer = decodePlain(target.model, requestFor(given)).then(({ tokenIds }) => tokenIds);
      plainAnswers.set(given, answer);
    }
    return answer;
  }

  function requestFor({ promptIds, maxNewTokens }: Case) {
    return { promptIds, maxNewTokens, sampling: { temperature: 0 }, seed: 0, stopIds: target.stopIds };
  }

  /** The gap between two tokens' logits behind a text. */
  async function gapBetween(ids: readonly number[], one: number, other: number): Promise<number> {
    const cache = target.model.createCache();
    const { logits } = (await prefill(target.model, cache, ids, { want: ['logits'] }))!;
    return Math.abs(logits![one]! - logits![other]!);
  }

  const drafters = new Map<string, Promise<Drafter>>();
  function openDrafter(name: string): Promise<Drafter> {
    const drafter = drafters.get(name) ?? loadDrafter(resolve(bundledModels, name), { target: target.model });
    drafters.set(name, drafter);
    return drafter;
  }

  it.each(cases)('$name with $policy', async ({ name, policy }) => {
    const index = cases.findIndex((other) => other.name === name && other.policy === policy);
    const drafter = await openDrafter(name);
    const chooser = always(resolveText(policy, drafter));
    const chosen = Array.from(
      { length: promptsPerCase },
      (_, offset) => short[(index * promptsPerCase + offset) % short.length]!,
    );
    const which = longCases.indexOf(`${name} ${policy}`);
    for (const given of which < 0 ? chosen : [...chosen, long[which]!]) {
      const expected = await answerPlainly(given);
      const request = { ...requestFor(given), policy: chooser };
      const { tokenIds } = await decodeSpeculative(target.model, drafter, request);
      compared += 1;
      const place = tokenIds.findIndex((id, position) => id !== expected[position]);
      if (place < 0) {
        expect(tokenIds).toEqual(expected);
        continue;
      }
      const before = [...given.promptIds, ...expected.slice(0, place)];
      const gap = await gapBetween(before, tokenIds[place]!, expected[place] ?? tokenIds[place]!);
      const fault = `${name} ${policy}: token ${place} is ${tokenIds[place]}, not ${expected[place]}, gap ${gap}`;
      expect(expected[place], fault).toBeDefined();
      expect(gap, fault).toBeLessThan(tieGap);
      ties.push(fault);
    }
  });

  afterAll(() => {
    console.info(
      `${compared} answers compared, ${ties.length} ties.${ties.map((tie) => `\n  ${tie}`).join('')}`,
    );
  });
});
