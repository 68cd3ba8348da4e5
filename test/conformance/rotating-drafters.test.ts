/** Drafters that take turns within a request: whoever drafts, the answer is the target's own. */
import { afterAll, describe, expect, it } from 'vitest';
import { decodePlain } from '../../src/decode/plain.js';
import type { PolicyChooser } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import { rotateDrafters } from '../../src/draft/rotating-drafter.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const variants = drafterVariants.filter(({ name }) =>
  ['draft model', 'Medusa, torch file', 'Hydra++', 'EAGLE, torch file, with bias', 'EAGLE-3 with d2t'].some(
    (chosen) => name.startsWith(chosen),
  ),
);

const orders = [0, 1].flatMap((temperature) => [true, false].map((isFirst) => ({ temperature, isFirst })));

describe.each(variants)('$name and ngram in turns', (variant) => {
  it.each(orders)('answer as the target does: %j', async ({ temperature, isFirst }) => {
    const { target, tokenizer } = await models.loadTarget();
    const folder = variant.write(models.freshFolder(), tiny);
    const main = await models.loadDrafter(folder, target, tokenizer);
    const ngram = await models.loadDrafter('ngram:1,3', target, tokenizer);
    const drafter = rotateDrafters(isFirst ? [main, ngram] : [ngram, main]);
    let step = 0;
    const used: number[] = [];
    // Main, ngram and plain steps in turns of two.
    const policy: PolicyChooser = {
      chainLengths: [2],
      choose() {
        const turn = Math.floor(step++ / 2) % 3;
        if (turn === 2) return { policy: undefined };
        drafter.use(turn);
        used.push(turn);
        return { policy: { kind: 'chain', length: 2 } };
      },
      learn: () => undefined,
    };
    const promptIds = randomTokens('rotation', 12, tiny.vocabularySize);
    const request = {
      promptIds,
      maxNewTokens: 30,
      stopIds: [],
      tokenizer,
      sampling: { temperature },
      seed: 1,
    };
    const speculative = await decodeSpeculative(target, drafter, { ...request, policy, mustDraft: true });
    expect(speculative.tokenIds).toHaveLength(30);
    expect(new Set(used)).toEqual(new Set([0, 1]));
    expect(speculative.drafterFailed).toBe(false);
    if (temperature === 0)
      expect(speculative.tokenIds).toEqual((await decodePlain(target, request)).tokenIds);
  });
});

describe('drafters that cannot take turns', () => {
  it('are refused', async () => {
    const { target, tokenizer } = await models.loadTarget();
    const ngram = await models.loadDrafter('ngram', target, tokenizer);
    const eagle = drafterVariants.find(({ name }) => name.startsWith('EAGLE, torch'))!;
    const reading = await models.loadDrafter(eagle.write(models.freshFolder(), tiny), target, tokenizer);
    const other = drafterVariants.find(({ name }) => name.startsWith('EAGLE-3 with d2t'))!;
    const tapping = await models.loadDrafter(other.write(models.freshFolder(), tiny), target, tokenizer);
    expect(() => rotateDrafters([ngram, reading, tapping])).toThrow(
      /reads layers .*take turns read the same/,
    );
  });
});
