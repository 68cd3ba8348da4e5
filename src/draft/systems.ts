import { nameModel } from '../checkpoint/hub/hub-settings.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { dflash, dspark } from './dflash/dflash.js';
import { draftModel } from './draft-model/draft-model.js';
import type { DraftSystem, DrafterOptions } from './draft-system.js';
import { namesOf } from './draft-system.js';
import type { Drafter } from './drafter.js';
import { eagle } from './eagle/eagle.js';
import { eagle3, pEagle } from './eagle/eagle3.js';
import { joinDrafters } from './joined/joined.js';
import { joinSources, mapSource, splitSource } from './joined/sources.js';
import { ngram } from './ngram/ngram.js';
import { hydra } from './hydra/hydra.js';
import { medusa } from './medusa/medusa.js';
import { mtp } from './mtp/mtp.js';
import { pard } from './pard/pard.js';
import { misfit } from './reading/checks.js';

/** `source`: a folder, recognized by its tensors, a text such as `ngram:1,4`, or several as `ngram:1,16+FOLDER`. */
export async function loadDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const drafter = await openDrafter(source, options);
  options.target.checkTaps(drafter.taps);
  return drafter;
}

/** The same drafters with other folders: paths, bundled names, or names on the hub. Lookups stay. */
export function mapFolders(source: string, find: (folder: string) => Promise<string>): Promise<string> {
  return mapSource(source, async (part) => (findWeightless(part) === undefined ? find(part) : part));
}

/** Of the drafters with weights. */
export function foldersOf(source: string): readonly string[] {
  return splitSource(source).filter((part) => findWeightless(part) === undefined);
}

/** Short: `eagle3`, `ngram`, `ngram+eagle3`. */
export function nameDrafter(source: string): string {
  return joinSources(splitSource(source).map((part) => findWeightless(part)?.name ?? nameModel(part)));
}

async function openDrafter(source: string, options: DrafterOptions): Promise<Drafter> {
  const parts = splitSource(source);
  if (parts.length > 1)
    return joinDrafters(
      await Promise.all(parts.map((part) => openDrafter(part, options))),
      options.target.runtime,
    );
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

/** With weights. The first match counts: more specific systems come first. */
export const systems: readonly DraftSystem[] = [
  medusa,
  hydra,
  dflash,
  dspark,
  pEagle,
  eagle3,
  eagle,
  pard,
  mtp,
  draftModel,
];

/** All can be trained. */
export const trainableSystems: readonly string[] = systems.map(({ name }) => name);

export const findTrainable = (name: string | undefined): DraftSystem | undefined =>
  systems.find((system) => system.name === name);

export interface Recognition {
  /** `decoder`: a language model, as target or drafter. */
  readonly kind: string;
  readonly layout: string;
  /** Absent if the kind is `unknown`. */
  readonly system?: DraftSystem | undefined;
}

export function recogniseCheckpoint(
  checkpoint: Pick<Checkpoint, 'tensors'> & Partial<Pick<Checkpoint, 'config'>>,
): Recognition {
  const names = namesOf(checkpoint);
  for (const system of systems) {
    const recognised = system.recognise(names, checkpoint.config);
    if (recognised === undefined) continue;
    const { layout, isTarget = false } = recognised;
    return { kind: isTarget ? 'decoder' : system.name, layout, system };
  }
  const refused = unsupported.find(({ tensors }) => names.some(tensors));
  return { kind: 'unknown', layout: refused?.layout ?? 'no layout that is known here' };
}

/** Known layouts that nothing here runs. */
const unsupported: readonly { readonly tensors: RegExp; readonly layout: string }[] = [
  {
    tensors: /^(model\.)?fc\.(fc|mlp\.(up|down)_proj)\.weight$/,
    layout: 'the layout of GRIFFIN, an MLP in the place of fc and two output states, which is not supported',
  },
];

/** As in `ngram:1,4`; write `./ngram` for a folder of that name. */
export function findWeightless(text: string): typeof ngram | undefined {
  const isNgram = splitSource(text).length === 1 && text.split(':', 1)[0] === ngram.name;
  return isNgram ? ngram : undefined;
}

export const systemTitles: readonly string[] = [...systems, ngram].map(({ title }) => title);
