/** Every drafting system there is. */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { draftModel } from './draft-model/draft-model.js';
import type { DraftSystem, WeightedSystem, WeightlessSystem } from './draft-system.js';
import { namesOf } from './draft-system.js';
import { eagle } from './eagle/eagle.js';
import { eagle3 } from './eagle/eagle3.js';
import { parseHybrid } from './hybrid/hybrid.js';
import { hydra } from './hydra/hydra.js';
import { medusa } from './medusa/medusa.js';
import { ngram } from './ngram/ngram.js';

/** The first one that knows a folder's tensors has it: the more particular stand before the more general. */
export const systems: readonly DraftSystem[] = [medusa, hydra, eagle3, eagle, draftModel, ngram];

const weighted = systems.filter((system): system is WeightedSystem => 'recognise' in system);
const weightless = systems.filter((system): system is WeightlessSystem => 'create' in system);

export interface Recognition {
  /** `decoder` is a whole language model: a target, or the drafter of plain speculative sampling. */
  readonly kind: string;
  /** Which of the published layouts it is, in words. */
  readonly layout: string;
  /** What drafts with it; absent where the kind is `unknown`. */
  readonly system?: WeightedSystem;
}

export function recogniseCheckpoint(checkpoint: Pick<Checkpoint, 'tensors'>): Recognition {
  const names = namesOf(checkpoint);
  for (const system of weighted) {
    const recognised = system.recognise(names);
    if (recognised === undefined) continue;
    const { layout, isTarget = false } = recognised;
    return { kind: isTarget ? 'decoder' : system.name, layout, system };
  }
  return { kind: 'unknown', layout: 'no layout that is known here' };
}

/** The system that a text names in place of a folder, as in `ngram:1,4`; a folder of that name is written `./ngram`. */
export function findWeightless(text: string): WeightlessSystem | undefined {
  if (parseHybrid(text) !== undefined) return undefined;
  const [name] = text.split(':', 1);
  return weightless.find((system) => system.name === name);
}

/** How systems without weights are written, for messages and help. */
export const weightlessForms: readonly string[] = weightless.map(({ form }) => form);

export const systemTitles: readonly string[] = systems.map(({ title }) => title);
