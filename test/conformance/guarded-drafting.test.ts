/** Guarded answers through an engine: whatever rungs they take, the answer is the target's own. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toDistribution } from '../../src/core/sampling.js';
import { Engine } from '../../src/decode/engine/engine.js';
import { BudgetedDrafting } from '../../src/decode/policies/budgeted-drafting.js';
import { decodePlain, prefill } from '../../src/decode/plain.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { PassScheduler } from '../../src/model/lanes/lane-program.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { chiSquareExcess } from '../chi-square.js';
import { spoilDrafter } from '../support/spoiled-drafter.js';
import { tiniest, tiny, writeDecoder, writeLetterTokenizer } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
const tiniestModels = new TinyModels(tiniest);
afterAll(async () => {
  await models.dispose();
  await tiniestModels.dispose();
});

async function load(from: TinyModels, target: CausalModel, start: string): Promise<Drafter> {
  const variant = drafterVariants.find(({ name }) => name.startsWith(start))!;
  const { tokenizer } = await from.loadTarget();
  return from.loadDrafter(variant.write(from.freshFolder(), from.sizes), target, tokenizer);
}

let target: CausalModel;
/** One that is never right, one that is right as often as it is, and the target itself. */
let drafters: ReadonlyMap<string, Drafter>;
beforeAll(async () => {
  ({ target } = await models.loadTarget());
  const head = await load(models, target, 'EAGLE-3 with d2t');
  const copy = writeDecoder(models.freshFolder(), tiny);
  writeLetterTokenizer(copy, tiny);
  const same = await models.loadDrafter(copy, target, (await models.loadTarget()).tokenizer);
  drafters = new Map<string, Drafter>([
    ['broken', spoilDrafter(head)],
    ['head', head],
    ['same', same],
  ]);
});

const requestOf = (index: number, temperature = 0) => ({
  promptIds: randomTokens(`guarded-${index}`, 6 + 5 * index, tiny.vocabularySize),
  ...{ maxNewTokens: 70, stopIds: [], seed: index, sampling: { temperature } },
});
const ladderOf = (name: string, isGreedy = true) => ({
  ...{ name, policy: undefined, isGreedy, hasSharedPrompt: false },
});

describe('guarded drafting', () => {
  it('answers as plain decoding does, with every drafter and several requests at once', async () => {
    const guarding = new BudgetedDrafting(drafters, target, { floor: 0.5 });
    const engine = new Engine();
    const names = ['broken', 'head', 'same', 'broken'];
    const answers = await Promise.all(
      names.map((name, index) =>
        engine.run(async (scheduler) => {
          const { drafter, policy, end } = guarding.begin(ladderOf(name));
          const request = { ...requestOf(index), scheduler, policy, mustDraft: true };
          const answer = await decodeSpeculative(target, drafter, request);
          return { ...answer, guarding: end(answer.steps) };
        }),
      ),
    );
    for (const [index, { tokenIds }] of answers.entries())
      expect(tokenIds).toEqual((await decodePlain(target, requestOf(index))).tokenIds);
    expect(answers[0]!.guarding.ladder).toEqual(['broken', 'head', 'same', 'ngram']);
    for (const index of [0, 3])
      expect(answers[index]!.guarding.switches[0]).toMatchObject({
        from: 'broken',
        step: expect.any(Number) as number,
      });
    expect(answers[2]!.steps.filter(({ drafter }) => drafter === 0).length).toBeGreaterThan(0);
  });

  it('leaves a rung whose drafts fail, on evidence, while another request beside it keeps its own', async () => {
    const guarding = new BudgetedDrafting(drafters, target, { floor: 0.5, slowdown: 10 });
    const engine = new Engine();
    // Costs that nothing but acceptance can tell apart.
    const play = async (name: string, scheduler: PassScheduler) => {
      const { drafter, policy, end } = guarding.begin(ladderOf(name));
      const timeless = {
        chainLengths: policy.chainLengths,
        trees: policy.trees ?? [],
        choose: () => policy.choose(),
        learn: (...[choice, outcome]: Parameters<typeof policy.learn>) => {
          const { own, ...rest } = outcome;
          expect(own).toBeDefined();
          policy.learn(choice, { ...rest, draftMs: 0.1, verifyMs: 1 });
        },
      };
      const answer = await decodeSpeculative(target, drafter, {
        ...requestOf(1),
        scheduler,
        policy: timeless,
      });
      return end(answer.steps).switches;
    };
    const [attacked, beside] = await Promise.all(
      ['broken', 'same'].map((name) => engine.run((scheduler) => play(name, scheduler))),
    );
    expect(attacked![0]).toMatchObject({ from: 'broken', to: 'head', reason: 'evidence' });
    expect(beside).toEqual([]);
  });

  it('says what does not fit, and refuses ladders of strangers', async () => {
    const features = await load(models, target, 'EAGLE, torch file');
    const all = new Map([...drafters, ['features', features] as const]);
    const { misfits } = new BudgetedDrafting(all, target);
    expect(misfits).toContainEqual(
      expect.stringMatching(/^Guarded requests of head cannot go on with features/),
    );
    expect(misfits.some((text) => text.includes('with ngram'))).toBe(false);
    expect(() => new BudgetedDrafting(drafters, target, { ladder: ['head', 'other'] })).toThrow(
      /names "other"/,
    );
    expect(() => new BudgetedDrafting(drafters, target, { slowdown: 11 })).toThrow(/slowdown 11/);
    const chosen = new BudgetedDrafting(drafters, target, { ladder: ['ngram', 'head'] });
    expect(chosen.begin(ladderOf('head')).end([]).ladder).toEqual(['head', 'ngram']);
    // What nobody knows the price of is not read: a prompt that several answers share.
    const shared = chosen.begin({ ...ladderOf('broken'), hasSharedPrompt: true });
    expect(shared.end([]).ladder).toEqual(['broken', 'ngram']);
  });

  it('draws from the target’s distribution while rungs change at every step, and the same for the same seed', async () => {
    const { target: small } = await tiniestModels.loadTarget();
    const head = await load(tiniestModels, small, 'EAGLE-3 with d2t');
    const guarding = new BudgetedDrafting(new Map([['head', head]]), small);
    const promptIds = [5, 2, 5, 2, 5];
    const decode = (seed: number) => {
      const { drafter } = guarding.begin(ladderOf('head', false));
      let step = seed;
      const policy = {
        chainLengths: [2],
        choose: () => {
          const place = step++ % 3;
          if (place < 2) drafter.use(place);
          return { policy: place < 2 ? ({ kind: 'chain', length: 2 } as const) : undefined };
        },
        learn: () => undefined,
      };
      const request = { promptIds, maxNewTokens: 3, stopIds: [], seed, sampling: { temperature: 1 } };
      return decodeSpeculative(small, drafter, { ...request, policy, mustDraft: true });
    };
    const { vocabularySize } = tiniest;
    const counts = new Array<number>(vocabularySize ** 2).fill(0);
    for (let seed = 0; seed < 400; seed++) {
      const [first, second] = (await decode(seed)).tokenIds;
      counts[first! * vocabularySize + second!]! += 1;
    }
    const next = async (ids: readonly number[]) => {
      const { logits } = (await prefill(small, small.createCache(), ids, { want: ['logits'] }))!;
      return toDistribution(logits!, { temperature: 1 });
    };
    const first = await next(promptIds);
    const expected = [];
    for (let one = 0; one < vocabularySize; one++)
      for (const probability of await next([...promptIds, one])) expected.push(first[one]! * probability);
    expect(chiSquareExcess(counts, expected)).toBeLessThan(1);
    expect((await decode(7)).tokenIds).toEqual((await decode(7)).tokenIds);
  });
});
