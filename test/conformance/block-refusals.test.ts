/** Heads of DFlash and DSpark that cannot be run are refused in a sentence, by loading and by `inspect`. */
import { afterAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { inspectCheckpoint } from '../../src/draft/inspection.js';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import {
  blockTensors,
  dflashConfig,
  dsparkConfig,
  dsparkTensors,
  writeMaskEmbedding,
} from '../support/tiny-blocks.js';
import { noise, tiny, writeCheckpoint } from '../support/tiny-checkpoints.js';
import { TinyModels } from '../support/tiny-pair.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());

const config = dflashConfig(tiny);

function write(
  changes: Readonly<Record<string, unknown>>,
  tensors: WritableTensors = blockTensors(tiny),
): string {
  return writeCheckpoint(models.freshFolder(), 'model.safetensors', tensors, { ...config, ...changes });
}

const nested = (changes: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
  dflash_config: { ...(config.dflash_config as object), ...changes },
});

async function expectRefusal(folder: string, message: RegExp, byInspection = true): Promise<void> {
  await expect(models.load(folder)).rejects.toEqual(
    expect.objectContaining({ name: 'MistletoeError', message: expect.stringMatching(message) as string }),
  );
  if (!byInspection) return;
  const { problems } = await inspectCheckpoint(folder);
  expect(problems.map(({ problem }) => problem).join('\n')).toMatch(message);
}

describe('a DSpark head', () => {
  it.each([
    [{ markov_head_type: 'lstm' }, /Markov head of the type "lstm"/],
    [{ markov_head_type: 'gated' }, /gate_proj/],
    [{ block_size: 0 }, /a whole number from 1 to 64 was expected/],
    [{ mask_token_id: 99 }, /mask_token_id 99/],
    [{ confidence_threshold: 2 }, /"confidence_threshold": 2; a number between 0 and 1/],
  ])('with %j', async (changes, message) => {
    const folder = writeCheckpoint(models.freshFolder(), 'model.safetensors', dsparkTensors(tiny), {
      ...dsparkConfig(tiny),
      ...changes,
    });
    await expectRefusal(folder, message);
  });

  it('without the Markov head that it declares', async () => {
    const folder = writeCheckpoint(
      models.freshFolder(),
      'model.safetensors',
      blockTensors(tiny),
      dsparkConfig(tiny),
    );
    await expectRefusal(folder, /declares a Markov head of rank 6 and lacks it/);
  });
});

describe('a DFlash head', () => {
  it.each([
    [nested({ mask_token_id: 24 }), /mask_token_id 24 .*; a token id below 24 was expected/],
    [nested({ mask_token_id: -1 }), /mask_token_id -1/],
    [nested({ mask_token_id: undefined }), /no mask token/],
    [{ block_size: 0 }, /"block_size": 0 .*; a whole number from 2 to 65 was expected/],
    [{ block_size: 1 }, /"block_size": 1 /],
    [{ block_size: 1_000_000 }, /"block_size": 1000000 /],
    [{ block_size: undefined }, /no block_size/],
    [{ num_hidden_layers: 3 }, /"num_hidden_layers": 3 .*; its tensors have fewer/],
    [{ num_hidden_layers: 1_000_000 }, /1 to 64 were expected/],
    [{ architectures: ['DFlash2DraftModel'] }, /DFlash2/],
    [{ architectures: [{ toString: 1 }] }, /"architectures": \[\{"toString":1\}\]; a list of names was/],
    [{ architectures: 'DFlashDraftModel' }, /"architectures": "DFlashDraftModel"; a list of names was/],
    [{ conv_kernel_size: 3 }, /DFlash2/],
    [nested({ projector_type: 'domino' }), /Domino/],
    [nested({ attention_sink_bias: true }), /attention sinks/],
    [{ layer_types: ['sliding_attention', 'sliding_attention'] }, /window null/],
    [{ layer_types: ['full_attention', 'linear_attention'] }, /"layer_types"/],
    [nested({ target_layer_ids: [3, 1] }), /lists the taps \[3,1\]; .* ascending/],
    [{ rope_scaling: { rope_type: 'dynamic', factor: 2 } }, /"dynamic"/],
  ])('with %j', async (changes, message) => {
    await expectRefusal(write(changes), message);
  });

  it.each([
    [nested({ target_layer_ids: [1, 4] }), /outputs of layers 1, 4; the target has 4 layers/],
    [nested({ target_layer_ids: [1, 2, 3] }), /fc\.weight with 32 columns; the target asks for 48/],
    [{ hidden_size: 20 }, /hidden size 20; the target's is 16/],
  ])('for another target: %j', async (changes, message) => {
    await expectRefusal(write(changes), message, false);
  });

  it('with an object for its type', async () => {
    const folder = write({ speculators_model_type: { toString: 1 } });
    expect((await inspectCheckpoint(folder)).kind).toBe('dflash');
  });

  it('with a mask embedding of another width', async () => {
    await expectRefusal(writeMaskEmbedding(write({}), 15), /"mask_embedding".*shape \[15\], expected \[16\]/);
  });

  it('with a mask embedding of another token', async () => {
    await expectRefusal(
      writeMaskEmbedding(write({}), 16, 5),
      /has a mask_embedding\.pt for the mask token 5; config\.json names 3\./,
    );
  });

  it('with a tensor that nothing reads', async () => {
    const extra = { 'gate.weight': noise(createRandom(1), [4], 1) };
    await expectRefusal(
      write({}, { ...blockTensors(tiny), ...extra }),
      /"gate\.weight", which nothing here reads/,
    );
  });

  it('without one of its tensors', async () => {
    const { 'layers.1.self_attn.k_norm.weight': missing, ...others } = blockTensors(tiny);
    expect(missing).toBeDefined();
    await expectRefusal(write({}, others), /layers\.1\.self_attn\.k_norm\.weight/);
  });
});
