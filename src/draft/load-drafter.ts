/** From a folder to a drafter: recognised by its tensors, checked against the target, loaded by its own file. */
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import type { Tokenizer } from '../text/tokenizer.js';
import { loadTokenizer } from '../text/tokenizer.js';
import { hasTokenizer } from '../text/tokenizer-file.js';
import { misfit } from './checks.js';
import type { Drafter } from './drafter.js';
import { loadEagle } from './eagle.js';
import { loadEagle3 } from './eagle3.js';
import { loadHydra } from './hydra.js';
import { loadMedusa } from './medusa.js';
import { recogniseCheckpoint } from './recognise.js';
import { loadDraftModel } from './speculative-sampling.js';

export interface DrafterOptions extends CacheOptions {
  readonly target: CausalModel;
  /** The target's, to compare with a draft model's own. */
  readonly tokenizer?: Tokenizer | undefined;
}

export async function loadDrafter(folder: string, options: DrafterOptions): Promise<Drafter> {
  const drafter = await openDrafter(folder, options);
  options.target.checkTaps(drafter.taps);
  return drafter;
}

async function openDrafter(folder: string, options: DrafterOptions): Promise<Drafter> {
  const { target, tokenizer } = options;
  const checkpoint = await openCheckpoint(folder);
  const { kind, layout, heads } = recogniseCheckpoint(checkpoint);
  if (heads === 'medusa') return loadMedusa(checkpoint, target, options);
  switch (kind) {
    case 'decoder':
    case 'speculative-sampling': {
      const own = hasTokenizer(folder) ? await loadTokenizer(folder) : undefined;
      return loadDraftModel(checkpoint, target, { target: tokenizer, drafter: own }, options);
    }
    case 'medusa':
      return loadMedusa(checkpoint, target, options);
    case 'hydra':
      return loadHydra(checkpoint, target, options);
    case 'eagle':
      return loadEagle(checkpoint, target, options);
    case 'eagle3':
      return loadEagle3(checkpoint, target, options);
    case 'unknown':
      throw misfit(
        folder,
        `has ${layout}`,
        'Supported: a draft model, Medusa, Hydra, EAGLE-1/-2 and EAGLE-3; `mistletoe inspect` shows what a folder holds.',
      );
  }
}
