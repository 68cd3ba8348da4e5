import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { countText } from '../core/number-text.js';
import type { Target } from '../decode/target.js';
import { createDrafterFolder } from '../draft/fresh/new-drafter.js';
import { findTrainable } from '../draft/systems.js';
import type { TrainRequest } from './train-request.js';
import type { TrainingTexts } from './training-run.js';
import type { Example } from './data/examples.js';

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
  readonly draftVocabulary?: { readonly size: number; readonly coverage: number } | undefined;
}

/** Half of a large vocabulary is rarely drafted. */
const defaultVocabularyShare = 0.5;

/** Undefined if it depends on the texts. */
export async function prepareStart(run: string, request: TrainRequest): Promise<TrainingStart | undefined> {
  const { from, system } = request;
  if (from !== undefined) return { folder: from.folder };
  const hasVocabulary = findTrainable(system)!.training.sizes.includes('draftVocabulary');
  return hasVocabulary ? undefined : { folder: await createStart(run, request) };
}

/** With a draft vocabulary of the most frequent tokens. */
export async function prepareWithVocabulary(
  run: string,
  target: Target,
  request: TrainRequest,
  { training }: TrainingTexts,
  onNotice: (text: string) => void = () => undefined,
): Promise<TrainingStart> {
  const { vocabularySize } = target.model.configuration;
  const size = request.shape.draftVocabulary ?? Math.ceil(vocabularySize * defaultVocabularyShare);
  const counts = countLearntTokens(training, vocabularySize);
  const { tokens, coverage, notice } = chooseDraftVocabulary(counts, size, target.stopIds);
  if (notice !== undefined) onNotice(notice);
  return { folder: await createStart(run, request, tokens), draftVocabulary: { size, coverage } };
}

async function createStart(
  run: string,
  { targetFolder, settings, system, shape }: TrainRequest,
  draftTokens?: Int32Array,
): Promise<string> {
  const folder = join(run, 'start');
  const drafter = { system, ...shape, draftTokens };
  if (!existsSync(join(folder, 'config.json')))
    await createDrafterFolder({ target: targetFolder, drafter, folder, seed: settings.seed });
  return folder;
}

export function countLearntTokens(
  examples: readonly Pick<Example, 'tokens' | 'isLearnt'>[],
  vocabularySize: number,
): Float64Array {
  const counts = new Float64Array(vocabularySize);
  for (const { tokens, isLearnt } of examples) {
    for (let position = 0; position < tokens.length; position++) {
      if (isLearnt[position] === 0) continue;
      counts[tokens[position]!]! += 1;
    }
  }
  return counts;
}

/**
 * The tokens that a drafter with its own vocabulary can propose: the most frequent ones of its training texts, and
 * `always`, the target's special and stop tokens. All other tokens end a draft. A notice says if the data has too few.
 */
export function chooseDraftVocabulary(
  counts: Float64Array, // [vocabulary]
  size: number,
  always: Iterable<number>,
) {
  const kept = new Set(always);
  if (kept.size > size) {
    throw new MistletoeError(
      'usage',
      `A draft vocabulary of ${size} tokens has no room for the target's ${kept.size} special and stop tokens.`,
      { hint: `Ask for ${kept.size} at least, and for many more to draft with.` },
    );
  }
  const others = Array.from(counts.keys()).filter((token) => !kept.has(token));
  others.sort((left, right) => counts[right]! - counts[left]! || left - right);
  const chosen = others.slice(0, size - kept.size);
  const tokens = Int32Array.from([...kept, ...chosen]).sort();
  const unseen = chosen.filter((token) => counts[token] === 0).length;
  const total = counts.reduce((sum, count) => sum + count, 0);
  const covered = tokens.reduce((sum, token) => sum + counts[token]!, 0);
  const notice = `The data has fewer distinct tokens than the draft vocabulary's ${size}: ${unseen} that were never seen fill it up, those with the lowest ids.`;
  return { tokens, coverage: total === 0 ? 1 : covered / total, notice: unseen === 0 ? undefined : notice };
}
