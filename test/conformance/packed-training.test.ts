import { afterAll, describe, expect, it } from 'vitest';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { TinyModels } from '../support/tiny-pair.js';
import { describePackedTraining, expectSameAsPadded, packedObjectives, plans } from './packed-training.js';

describePackedTraining(['draft model', 'EAGLE-3 with d2t'], packedObjectives.slice(0, 1));

it('has several texts in a row', () => {
  const [padded, packed] = plans.map((plan) => plan.batchAt(0));
  expect(new Set(padded!.texts.map(({ row }) => row)).size).toBe(padded!.texts.length);
  expect(packed!.texts.length).toBeGreaterThan(packed!.shape[0]);
  expect(plans[1]!.paddingShare).toBeLessThan(plans[0]!.paddingShare);
});

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

describe('behind a window', () => {
  const windowed = { ...llamaConfig(tiny), architectures: ['MistralForCausalLM'], sliding_window: 6 };
  const write = (): string =>
    writeCheckpoint(models.freshFolder(), 'model.safetensors', decoderTensors(tiny), windowed);

  it('target and draft model look back no further than it, nor beyond their text', async () => {
    const target = await models.loadModel(write());
    const drafter = await models.loadDrafter(write(), target);
    expect(drafter.graph!.attention!.window).toBe(6);
    await expectSameAsPadded({ target, drafter }, packedObjectives[1]!);
  });
});
