/** Settings of a block drafter in config.json. */
import * as z from '../../core/schema.js';
import { showValue } from '../../core/json-text.js';
import { deepestDraft } from '../../core/limits.js';
import { countText } from '../../core/number-text.js';
import { misfit, type Reading } from '../reading/checks.js';
import { flattenConfig, isSpeculatorsFormat, type Config } from '../reading/draft-configuration.js';
import {
  isLayerCount,
  maxLayers,
  readLayerKinds,
  readMaskToken,
  sameOrigin,
  slidingKind,
} from '../reading/head-configuration.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';

export const architecturesOf = ({ architectures }: Config): readonly string[] =>
  Array.isArray(architectures) ? architectures.filter((name) => typeof name === 'string') : [];

/**
 * DSpark's own class shifts by one, whatever the folder is called: deepseek-ai/dflash_*_block7 are such heads without a
 * Markov head. Files in the speculators format say it.
 */
export function isShifted({ config, settings }: Reading): boolean {
  if (isSpeculatorsFormat(config)) return settings.sample_from_anchor === true;
  return architecturesOf(config).some((name) => name.includes('DSpark'));
}

export function readSlots({ settings, reject }: Reading, firstSlot: number): number {
  const { block_size: size } = settings;
  const [least, most] = [1 + firstSlot, deepestDraft + firstSlot];
  if (typeof size === 'number' && Number.isInteger(size) && size >= least && size <= most) return size;
  const seen = size === undefined ? 'no block_size' : `"block_size": ${showValue(size)}`;
  reject(`has ${seen} in its config.json; a whole number from ${least} to ${most} was expected`, sameOrigin);
  return least;
}

export function refuseVariants({ config, settings, tensors, reject }: Reading): void {
  const { architectures: listed } = config;
  const isList = Array.isArray(listed) && listed.length === architecturesOf(config).length;
  if (listed != null && !isList)
    reject(`has "architectures": ${showValue(listed)}; a list of names was expected`, sameOrigin);
  const isDFlash2 =
    architecturesOf(config).some((name) => name.includes('DFlash2')) ||
    (settings.conv_kernel_size ?? settings.selector_rank) !== undefined;
  const sinks = [...tensors.keys()].some((name) => name.includes('attention_sink_bias'));
  const isAsked = (key: string): boolean => settings[key] === true;
  const variants: readonly (readonly [boolean, string])[] = [
    [isDFlash2, 'is of the variant DFlash2 (convolutions and a selector)'],
    [settings.projector_type === 'domino', 'is of the variant Domino (a recurrent projector)'],
    [
      sinks || isAsked('attention_sink_bias') || isAsked('add_swa_attention_sink_bias'),
      'has attention sinks',
    ],
    [settings.is_neox_style === false, 'rotates interleaved pairs ("is_neox_style": false)'],
    [settings.use_aux_hidden_state === false, 'reads the last feature alone ("use_aux_hidden_state": false)'],
    [(settings.logit_scale ?? 1) !== 1, `scales its logits by ${showValue(settings.logit_scale)}`],
  ];
  for (const [isThere, what] of variants)
    if (isThere) reject(`${what}, which is not supported`, 'Use a plain DFlash or DSpark head.');
}

/** That of config.json, which mask_embedding.pt may name, too. */
export function readBlockMask(reading: Reading, vocabularySize: number): number {
  const token = readMaskToken(reading, vocabularySize);
  const { maskToken: other = token, reject } = reading;
  if (other !== token)
    reject(
      `has a mask_embedding.pt for the mask token ${other}; config.json names ${token}`,
      'Take config.json and mask_embedding.pt from the same drafter.',
    );
  return token;
}

/** Engines take the threshold as an option; here it is a key of config.json. */
export function readThreshold({ settings, reject }: Reading): number | undefined {
  const { confidence_threshold: threshold } = settings;
  if (threshold === undefined) return undefined;
  if (typeof threshold === 'number' && threshold > 0 && threshold < 1) return threshold;
  reject(
    `has "confidence_threshold": ${showValue(threshold)}; a number between 0 and 1 was expected`,
    'Leave it out to draft whole blocks.',
  );
  return undefined;
}

export function countLayers({ settings, tensors, reject }: Reading): number {
  const { num_hidden_layers: layers } = settings;
  const isCounted = isLayerCount(layers);
  if (isCounted && tensors.has(`layers.${layers - 1}.self_attn.q_proj.weight`)) return layers;
  const seen = layers === undefined ? 'no num_hidden_layers' : `"num_hidden_layers": ${showValue(layers)}`;
  const expected = isCounted ? 'its tensors have fewer' : `1 to ${maxLayers} were expected`;
  reject(`has ${seen} in its config.json; ${expected}`, sameOrigin);
  return 1;
}

export interface BlockAttention {
  /** [layer] Slots see only earlier slots. */
  readonly isCausal: readonly boolean[];
  /** Positions that a row of a sliding layer sees, including its own; drafts end there. */
  readonly window: number | undefined;
}

/** Sliding layers are causal within the block unless another key says something else. */
export function readAttention(reading: Reading, layerCount: number): BlockAttention {
  const { settings } = reading;
  const kinds = readLayerKinds(reading, layerCount) ?? [];
  const length = settings.swa_window_size ?? settings.sliding_window;
  const isWindowed = kinds.includes(slidingKind) || settings.use_swa === true;
  const isLength = typeof length === 'number' && Number.isInteger(length) && length > 0;
  if (isWindowed && !isLength)
    reading.reject(`asks for sliding attention with the window ${showValue(length ?? null)}`, sameOrigin);
  const stated =
    settings.is_causal ??
    settings.causal ??
    (settings.sliding_window_non_causal === true ? false : undefined);
  return {
    isCausal: Array.from({ length: layerCount }, (_, layer) =>
      typeof stated === 'boolean' ? stated : kinds[layer] === slidingKind,
    ),
    window: isWindowed && isLength ? length : undefined,
  };
}

const maxTaps = 256;
const tapsSchema = z.array(z.number().int().min(-1)).min(1).max(maxTaps);

type Head = Pick<Checkpoint, 'config' | 'folder'>;

/** Heads list outputs of layers, -1 for the embeddings; the speculators format lists inputs. Nothing is the default. */
function listTaps({ config, folder }: Head) {
  const { target_layer_ids: outputs, aux_hidden_state_layer_ids: listed } = flattenConfig(config);
  const inputs = isSpeculatorsFormat(config) ? listed : undefined;
  const list = inputs ?? outputs;
  if (list === undefined) return { listed: undefined, isInputs: false };
  const parsed = tapsSchema.safeParse(list);
  const isAscending = parsed.data?.every((layer, place, all) => place === 0 || layer > all[place - 1]!);
  if (isAscending !== true)
    throw misfit(
      folder,
      `lists the taps ${showValue(list)}; 1 to ${maxTaps} ascending whole numbers were expected`,
      sameOrigin,
    );
  return { listed: parsed.data, isInputs: inputs !== undefined };
}

/** Layers of the target before which its residual stream is read. */
export function readBlockTaps(head: Head, targetLayers: number, draftLayers: number): readonly number[] {
  const { listed, isInputs } = listTaps(head);
  const outputs = listed ?? spreadTaps(targetLayers, draftLayers);
  const taps = isInputs ? outputs : outputs.map((layer) => layer + 1);
  if (taps.every((layer) => layer >= 0 && layer <= targetLayers)) return taps;
  throw misfit(
    head.folder,
    `taps the ${isInputs ? 'inputs' : 'outputs'} of layers ${outputs.join(', ')}; the target has ${countText(targetLayers, 'layer')}`,
    'It was trained for a deeper target.',
  );
}

/** Outputs from the second layer to the third from the end, one per layer of the drafter. */
export function spreadTaps(targetLayers: number, draftLayers: number): readonly number[] {
  if (draftLayers === 1) return [Math.floor(targetLayers / 2)];
  return Array.from({ length: draftLayers }, (_, place) =>
    roundHalfToEven(1 + (place * (targetLayers - 4)) / (draftLayers - 1)),
  );
}

/** As Python rounds. */
function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  return value - below === 0.5 && below % 2 === 0 ? below : Math.round(value);
}

export function describeBlockTaps(head: Head): string {
  const { listed, isInputs } = listTaps(head);
  if (listed === undefined) return 'the default: spread from the second layer to the third from the end';
  return `${listed.join(', ')}: ${isInputs ? 'inputs' : 'outputs'} of these layers`;
}
