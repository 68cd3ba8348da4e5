import { afterAll, describe, expect, it } from 'vitest';
import { always } from '../../src/decode/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants, ngramVariant, oneOfEachSystem } from '../support/tiny-drafters.js';
import { resolveText, TinyModels } from '../support/tiny-pair.js';
import { describeDrafters } from './drafter-suite.js';

describeDrafters([...oneOfEachSystem, ngramVariant]);

const models = new TinyModels(tiny);
afterAll(() => models.dispose());
const greedy = { sampling: { temperature: 0 }, seed: 0 };

describe('a dynamic tree in the interpreter', () => {
  it('is the one of ONNX Runtime', async () => {
    const interpreted = new TinyModels(tiny, createInterpreter());
    const variant = drafterVariants.find(({ name }) => name === 'EAGLE-3 with d2t')!;
    const folder = variant.write(models.freshFolder(), tiny);
    const steps = [];
    for (const each of [models, interpreted]) {
      const { target, drafter } = await each.load(folder);
      const request = { promptIds: [4, 8, 15], maxNewTokens: 8, stopIds: [], ...greedy };
      const policy = always(resolveText('dynamic:12,2,3', drafter));
      const { tokenIds, acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
      steps.push({ tokenIds, acceptance });
    }
    expect(steps[1]).toEqual(steps[0]);
    await interpreted.dispose();
  });
});

describe('a draft model equal to its target', () => {
  it('has every draft accepted', async () => {
    const variant = drafterVariants.find(({ name }) => name === 'draft model equal to the target')!;
    const { target, drafter } = await models.load(variant.write(models.freshFolder(), tiny));
    const request = { promptIds: [4, 8, 15], maxNewTokens: 41, stopIds: [], ...greedy };
    const policy = always(resolveText('chain:4', drafter));
    const { acceptance } = await decodeSpeculative(target, drafter, { ...request, policy });
    expect(acceptance.acceptedLengths).toEqual(Array<number>(8).fill(5));
    expect(acceptance.acceptanceRate).toBe(1);
  });
});
