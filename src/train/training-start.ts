/** The drafter that a run begins with: the one it goes on from, or fresh weights in the run's folder. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Target } from '../decode/target.js';
import type { NewDrafter } from './new-drafter.js';
import { createDrafterFolder } from './new-drafter.js';
import type { TrainRequest } from './train-request.js';
import type { TrainingTexts } from './training-texts.js';
import { chooseVocabulary } from './training-texts.js';

export interface TrainingStart {
  readonly folder: string;
  readonly draftVocabulary?: { readonly size: number; readonly coverage: number };
}

/** Half of a large vocabulary is hardly ever drafted. */
const usualVocabularyShare = 0.5;

export async function prepareStart(
  run: string,
  target: Target,
  request: TrainRequest,
  texts: TrainingTexts,
  onNotice: (text: string) => void = () => undefined,
): Promise<TrainingStart> {
  if (request.from !== undefined) return { folder: request.from.folder };
  const folder = join(run, 'start');
  const { drafter, draftVocabulary } = describeFresh(target, request, texts, onNotice);
  if (!existsSync(join(folder, 'config.json'))) {
    const { targetFolder, settings } = request;
    await createDrafterFolder({ target: targetFolder, drafter, folder, seed: settings.seed });
  }
  return { folder, ...(draftVocabulary === undefined ? {} : { draftVocabulary }) };
}

function describeFresh(
  target: Target,
  { system, shape }: TrainRequest,
  { training }: TrainingTexts,
  onNotice: (text: string) => void,
): { readonly drafter: NewDrafter } & Pick<TrainingStart, 'draftVocabulary'> {
  const { heads, layers, hiddenSize, prefixLayer } = shape;
  const counts = {
    ...(heads === undefined ? {} : { heads }),
    ...(layers === undefined ? {} : { layers }),
  };
  switch (system) {
    case 'speculative-sampling':
      return {
        drafter: {
          system,
          ...(layers === undefined ? {} : { layers }),
          ...(hiddenSize === undefined ? {} : { hiddenSize }),
        },
      };
    case 'medusa':
      return { drafter: { system, ...counts } };
    case 'hydra':
      return { drafter: { system, ...counts, hasPrefix: prefixLayer ?? false } };
    case 'eagle':
      return { drafter: { system } };
    case 'eagle3': {
      const { vocabularySize } = target.model.configuration;
      const size = shape.draftVocabulary ?? Math.ceil(vocabularySize * usualVocabularyShare);
      const { tokens, coverage, notice } = chooseVocabulary(target, training, size);
      if (notice !== undefined) onNotice(notice);
      return { drafter: { system, draftTokens: tokens }, draftVocabulary: { size, coverage } };
    }
  }
}
