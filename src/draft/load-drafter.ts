/** From what names a drafter to a drafter that is checked against its target. */
import { nameModel } from '../checkpoint/hub/hub-cache.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { misfit } from './reading/checks.js';
import type { DrafterOptions } from './draft-system.js';
import type { Drafter } from './drafter.js';
import { addLookup, parseHybrid } from './hybrid/hybrid.js';
import { findWeightless, recogniseCheckpoint, systemTitles } from './systems.js';

/** `source`: a folder, which is recognized by its tensors, a text such as `ngram:1,4`, or both as `ngram:3,8+FOLDER`. */
export async function loadDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const drafter = await openDrafter(source, options);
  options.target.checkTaps(drafter.taps);
  return drafter;
}

/** Short: `eagle3`, `ngram`, `ngram+eagle3`. */
export function nameDrafter(source: string): string {
  const hybrid = parseHybrid(source);
  if (hybrid !== undefined) return `ngram+${nameDrafter(hybrid.behind)}`;
  return findWeightless(source)?.name ?? nameModel(source);
}

async function openDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const hybrid = parseHybrid(source);
  if (hybrid !== undefined) return addLookup(hybrid.lookup, await openDrafter(hybrid.behind, options));
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
