/** From a few lines about a published EAGLE-3 head to its folder in tiny and its reference. */
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';
import { noise, normWeight } from '../support/tiny-checkpoints.js';
import type { PublishedDrafter } from './drafter-row.js';
import { draftSizes } from './drafter-row.js';
import type { Eagle3Facts } from './float64-eagle.js';
import { scoreWithEagle3 } from './float64-eagle.js';
import type { Config, LayerSizes, PublishedFolder } from './published-layouts.js';
import { bias, layerWeights, linear, storeAs } from './published-layouts.js';
import { drafterTarget } from './published-targets.js';

/** Two of three tokens, so that d2t has gaps. */
export const draftTokens = Array.from({ length: draftSizes.vocabulary }, (_, token) => token).filter(
  (token) => token % 3 !== 1,
);

export interface Eagle3Row {
  readonly name: string;
  readonly file: string;
  readonly dtype?: 'F16' | 'BF16';
  readonly keyValueHeads?: number;
  readonly headSize?: number;
  /** Draft tokens are the target's own, and the file has no map. */
  readonly isWhole?: boolean;
  /** Type of d2t. */
  readonly mapType?: 'I32' | 'I64';
  readonly ownEmbedding?: boolean;
  /** Biases of all projections, and norms of queries and keys. */
  readonly extras?: boolean;
  readonly config: Config;
  readonly facts: Partial<Eagle3Facts> & Pick<Eagle3Facts, 'normEpsilon' | 'rotary'>;
}

export interface Eagle3Drafter extends PublishedDrafter {
  readonly facts: Eagle3Facts;
}

/** EAGLE-3's own rule for a target of eight layers: before 2, L/2 and L - 3. */
const usualTaps = [2, 4, 5];

export function describeEagle3Row(row: Eagle3Row): Eagle3Drafter {
  const { layer = 'midlayer', fusionNorm = 'none' } = row.facts;
  const sizes = {
    ...draftSizes,
    keyValueHeads: row.keyValueHeads ?? draftSizes.keyValueHeads,
    headSize: row.headSize ?? draftSizes.headSize,
  };
  const facts: Eagle3Facts = {
    ...{ layer, fusionNorm, taps: usualTaps, normBeforeResidual: false, feedsNormed: false, layers: 1 },
    ...{ ...sizes, targetVocabulary: sizes.vocabulary },
    ...row.facts,
  };
  const { hidden } = sizes;
  const random = createRandom(4, 'eagle3', row.name);
  const width = facts.taps.length * hidden;
  const tensors: WritableTensors = {
    'fc.weight': linear(random, hidden, width),
    [`${layer}.hidden_norm.weight`]: normWeight(random, hidden),
    ...layerWeights(layer, sizes, random, {
      attentionInput: 2 * hidden,
      ...(row.extras === true ? { queryKeyValueBias: true, outputBias: true, queryKeyNorm: true } : {}),
    }),
    ...(row.extras === true
      ? { 'fc.bias': bias(random, hidden), 'lm_head.bias': bias(random, draftTokens.length) }
      : {}),
    ...furtherLayers(facts.layers, sizes, random),
    ...(facts.maskToken === undefined ? {} : { mask_hidden: noise(random, [1, 1, width], 1) }),
    'norm.weight': normWeight(random, hidden),
    'lm_head.weight': linear(random, row.isWhole === true ? sizes.vocabulary : draftTokens.length, hidden, 3),
    ...(row.isWhole === true ? {} : vocabularyMap(row.mapType)),
    ...(row.ownEmbedding === true
      ? { 'embed_tokens.weight': noise(random, [sizes.vocabulary, hidden], 1) }
      : {}),
    ...(fusionNorm === 'joined' ? { 'input_norm.weight': normWeight(random, width) } : {}),
    ...(fusionNorm === 'each'
      ? Object.fromEntries(facts.taps.map((_, tap) => [`fc_norm.${tap}.weight`, noise(random, [hidden], 1)]))
      : {}),
  };
  const stored = row.dtype === undefined ? tensors : storeAs(row.dtype, tensors);
  const folder: PublishedFolder = { config: row.config, file: row.file, tensors: stored };
  return {
    name: row.name,
    kind: facts.maskToken === undefined ? 'eagle3' : 'p-eagle',
    layout: nameLayout(facts),
    target: drafterTarget,
    folder,
    facts,
    score: (target) => scoreWithEagle3(stored, target, facts),
  };
}

function furtherLayers(count: number, sizes: LayerSizes, random: Random): WritableTensors {
  const layers = Array.from({ length: count - 1 }, (_, index) =>
    layerWeights(`layers.${index + 1}`, sizes, random),
  );
  return Object.fromEntries(layers.flatMap((layer) => Object.entries(layer)));
}

function nameLayout({ layer, maskToken }: Eagle3Facts): string {
  if (maskToken !== undefined) return 'P-EAGLE head';
  return layer === 'midlayer' ? 'EAGLE-3 head' : 'EAGLE-3 head, layers.0 naming';
}

function vocabularyMap(dtype: 'I32' | 'I64' = 'I64'): Readonly<Record<'d2t' | 't2d', WritableTensor>> {
  const known = Array.from({ length: draftSizes.vocabulary }, (_, token) =>
    draftTokens.includes(token) ? 1 : 0,
  );
  const offsets = draftTokens.map((token, draft) => token - draft);
  return {
    d2t: { dtype, shape: [offsets.length], values: offsets },
    t2d: { dtype: 'BOOL', shape: [known.length], values: known },
  };
}
