/** Published MTP modules: MiMo-7B, whose checkpoint holds the target and one module, and the module alone. */
import { createRandom } from '../../src/core/random.js';
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import { noise } from '../support/tiny-checkpoints.js';
import { draftSizes, type PublishedDrafter } from './drafter-row.js';
import { scoreWithMtp, type MtpFacts } from './float64-mtp.js';
import { layerWeights, linear, storeAs, type PublishedFolder } from './published-layouts.js';
import { publishedTargets } from './published-targets.js';

export interface MtpDrafter extends PublishedDrafter {
  readonly facts: MtpFacts;
}

const { hidden } = draftSizes;
const module = 'model.mtp_layers.0';
const random = createRandom(4, 'mtp');
const tensors: WritableTensors = storeAs('BF16', {
  ...Object.fromEntries(
    ['token_layernorm', 'hidden_layernorm', 'final_layernorm'].map((name) => [
      `${module}.${name}.weight`,
      noise(random, [hidden], 1),
    ]),
  ),
  [`${module}.input_proj.weight`]: linear(random, hidden, 2 * hidden),
  ...layerWeights(module, draftSizes, random, { queryKeyValueBias: true }),
});

const mimo = publishedTargets.find(({ name }) => name === 'XiaomiMiMo/MiMo-7B-RL')!;
const whole: PublishedFolder = { ...mimo.folder, tensors: { ...mimo.folder.tensors, ...tensors } };

function describeRow(
  row: Pick<PublishedDrafter, 'name' | 'kind' | 'layout'>,
  folder: PublishedFolder,
): MtpDrafter {
  const facts: MtpFacts = {
    ...{ ...draftSizes, normEpsilon: 1e-5, rotary: { base: 640_000 }, order: 'state, token' },
    ...{ hidesFirstToken: true, reads: 'last residual', feedsNormed: true },
  };
  return {
    ...row,
    ...{ folder, facts, target: { ...mimo, folder: whole } },
    score: (target) => scoreWithMtp(tensors, target, facts),
  };
}

export const mtpRows: readonly MtpDrafter[] = [
  describeRow(
    { name: 'the MTP module of MiMo-7B-RL alone', kind: 'mtp', layout: 'MTP module of MiMo' },
    { ...mimo.folder, tensors },
  ),
  describeRow(
    {
      name: 'XiaomiMiMo/MiMo-7B-RL',
      kind: 'decoder',
      layout: 'language model with an MTP module of MiMo',
    },
    whole,
  ),
];
