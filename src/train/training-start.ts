/** The drafter that a run begins with: the one it goes on from, or a new one in the run's folder. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Target } from '../decode/target.js';
import { countText } from '../core/number-text.js';
import type { NewDrafter } from './new-drafter.js';
import { createDrafterFolder } from './new-drafter.js';
import type { TrainRequest } from './train-request.js';
import type { TrainingTexts } from './training-texts.js';
import { chooseVocabulary } from './training-texts.js';

/** In the words of reports and progress. */
export function nameStart({
  from,
  targetLayers,
}: {
  readonly from?: { readonly name: string } | undefined;
  readonly targetLayers?: number | undefined;
}): string {
  if (from !== undefined) return from.name;
  return targetLayers === undefined ? 'fresh weights' : `${countText(targetLayers, 'layer')} of the target`;
}

export interface TrainingStart {
  readonly folder: string;
  readonly draftVocabulary?: { readonly size: number; readonly coverage: number };
}

/** Half of a large vocabulary is hardly ever drafted. */
const usualVocabularyShare = 0.5;

/** Undefined where it depends on the texts. */
export async function prepareStart(run: string, request: TrainRequest): Promise<TrainingStart | undefined> {
  if (request.from !== undefined) return { folder: request.from.folder };
  const drafter = describeFresh(request);
  return drafter === undefined ? undefined : { folder: await createStart(run, request, drafter) };
}

/** EAGLE-3, which proposes the tokens that are frequent in what it learns. */
export async function prepareEagle3(
  run: string,
  target: Target,
  request: TrainRequest,
  { training }: TrainingTexts,
  onNotice: (text: string) => void = () => undefined,
): Promise<TrainingStart> {
  const { vocabularySize } = target.model.configuration;
  const size = request.shape.draftVocabulary ?? Math.ceil(vocabularySize * usualVocabularyShare);
  const { tokens, coverage, notice } = chooseVocabulary(target, training, size);
  if (notice !== undefined) onNotice(notice);
  const folder = await createStart(run, request, { system: 'eagle3', draftTokens: tokens });
  return { folder, draftVocabulary: { size, coverage } };
}

async function createStart(
  run: string,
  { targetFolder, settings }: TrainRequest,
  drafter: NewDrafter,
): Promise<string> {
  const folder = join(run, 'start');
  if (!existsSync(join(folder, 'config.json')))
    await createDrafterFolder({ target: targetFolder, drafter, folder, seed: settings.seed });
  return folder;
}

function describeFresh({ system, shape }: TrainRequest): NewDrafter | undefined {
  const { heads, layers, hiddenSize, targetLayers, prefixLayer = false } = shape;
  const counts = {
    ...(heads === undefined ? {} : { heads }),
    ...(layers === undefined ? {} : { layers }),
  };
  switch (system) {
    case 'speculative-sampling':
      if (targetLayers !== undefined) return { system, targetLayers };
      return {
        system,
        ...(layers === undefined ? {} : { layers }),
        ...(hiddenSize === undefined ? {} : { hiddenSize }),
      };
    case 'medusa':
      return { system, ...counts };
    case 'hydra':
      return { system, ...counts, hasPrefix: prefixLayer };
    case 'eagle':
      return { system };
    case 'eagle3':
      return undefined;
  }
}
