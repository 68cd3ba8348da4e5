/**
 * The layers before which an EAGLE-3 head taps its target. Without a list they are 2, L/2 and L - 3. A list comes in two
 * conventions, and nothing but its first number tells them apart (sgl-project/sglang, pull request 25454):
 *
 *   before   [2, 47, 91]  the residual stream before these layers; vLLM and its speculators format
 *   outputs  [1, 46, 90]  the outputs of these layers, which is the same; SpecForge and SGLang
 *
 * The embedding's own output is no useful tap, so that a list beginning with 1 means outputs.
 */
import { z } from 'zod';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { showValue } from '../core/json-text.js';
import { misfit } from './checks.js';
import { isSpeculatorsFormat, readEagleSetting } from './draft-configuration.js';

export interface TapRule {
  /** As config.json lists them; absent for the default of three. */
  readonly listed: readonly number[] | undefined;
  /** What is added to a listed number to get the layer before which is tapped. */
  readonly offset: 0 | 1;
  /** The rule in words. */
  readonly origin: string;
}

const key = 'eagle_aux_hidden_state_layer_ids';
const shortKey = 'aux_hidden_state_layer_ids'; // some trainers' spelling

export function readTapRule({ config, folder }: Pick<Checkpoint, 'config' | 'folder'>): TapRule {
  const given = readEagleSetting(config, key) ?? readEagleSetting(config, shortKey);
  if (given === undefined || given === null)
    return { listed: undefined, offset: 0, origin: 'the default: before layers 2, L/2 and L - 3' };
  const listed = z.array(z.number().int().nonnegative()).min(1).safeParse(given);
  if (!listed.success) throw badTaps(folder, given, 'whole numbers from 0 were expected');
  if (isSpeculatorsFormat(config))
    return { listed: listed.data, offset: 0, origin: `${key}, speculators format: before these layers` };
  return listed.data[0] === 1
    ? { listed: listed.data, offset: 1, origin: `${key}, beginning with 1: outputs of these layers` }
    : { listed: listed.data, offset: 0, origin: `${key}: before these layers` };
}

export function readTaps(
  checkpoint: Pick<Checkpoint, 'config' | 'folder'>,
  layerCount: number,
): readonly number[] {
  const { listed, offset } = readTapRule(checkpoint);
  if (listed === undefined) {
    const usual = [2, Math.floor(layerCount / 2), layerCount - 3];
    if (layerCount >= 3) return usual;
    throw badTaps(checkpoint.folder, usual, range(layerCount));
  }
  const taps = listed.map((layer) => layer + offset);
  if (taps.some((layer) => layer > layerCount)) throw badTaps(checkpoint.folder, listed, range(layerCount));
  return taps;
}

const range = (layerCount: number): string => `layers from 0 to ${layerCount} were expected`;

function badTaps(folder: string, given: unknown, expected: string): Error {
  return misfit(
    folder,
    `asks for the taps ${showValue(given)}; ${expected}`,
    'It was trained for a deeper target.',
  );
}
