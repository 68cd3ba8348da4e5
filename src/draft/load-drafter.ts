import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { misfit } from './reading/checks.js';
import type { DrafterOptions } from './draft-system.js';
import type { Drafter } from './drafter.js';
import { findWeightless, recogniseCheckpoint, systemTitles } from './systems.js';

/** `source`: a folder, recognized by its tensors, or a text such as `ngram:1,4`. */
export async function loadDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const drafter = await openDrafter(source, options);
  options.target.checkTaps(drafter.taps);
  return drafter;
}

async function openDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const weightless = findWeightless(source);
  if (weightless !== undefined) return weightless.create(source, options.target);
  const checkpoint = await openCheckpoint(source);
  const { system, layout } = recogniseCheckpoint(checkpoint);
  if (system !== undefined) return system.load(checkpoint, options);
  throw misfit(
    source,
    `has ${layout}`,
    `Supported: ${systemTitles.join(', ')}; \`mistletoe inspect\` shows what a folder holds.`,
  );
}
