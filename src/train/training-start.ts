import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { countText } from '../core/number-text.js';
import type { Target } from '../decode/target.js';
import type { NewDrafter } from '../draft/fresh/new-drafter.js';
import { createDrafterFolder } from '../draft/fresh/new-drafter.js';
import type { TrainRequest } from './train-request.js';
import type { TrainingTexts } from './data/training-texts.js';
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
  if (request.from !== undefined) return { folder: request.from.folder };
  const drafter = describeFresh(request);
  return drafter === undefined ? undefined : { folder: await createStart(run, request, drafter) };
}

export async function prepareEagle3(
  run: string,
  target: Target,
  request: TrainRequest,
  { training }: TrainingTexts,
  onNotice: (text: string) => void = () => undefined,
): Promise<TrainingStart> {
  const { vocabularySize } = target.model.configuration;
  const size = request.shape.draftVocabulary ?? Math.ceil(vocabularySize * defaultVocabularyShare);
  const { tokens, coverage, notice } = chooseVocabulary(target, training, size);
  if (notice !== undefined) onNotice(notice);
  const system = request.system === 'p-eagle' ? 'p-eagle' : 'eagle3';
  const { layers } = request.shape;
  const folder = await createStart(run, request, { system, draftTokens: tokens, layers });
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
  switch (system) {
    case 'speculative-sampling':
      if (targetLayers !== undefined) return { system, targetLayers };
      return { system, layers, hiddenSize };
    case 'pard':
      return { system, layers, hiddenSize };
    case 'medusa':
      return { system, heads, layers };
    case 'hydra':
      return { system, heads, layers, hasPrefix: prefixLayer };
    case 'eagle':
      return { system };
    case 'eagle3':
    case 'p-eagle':
      return undefined;
  }
}

/**
 * The tokens that a drafter with its own vocabulary can propose: the most frequent ones of its training texts. All
 * other tokens end a draft.
 */
export interface DraftVocabulary {
  readonly tokens: Int32Array; // [draft token]
  readonly coverage: number;
  /** Tokens without an occurrence, if the data has too few distinct ones. */
  readonly unseen: number;
  readonly notice: string | undefined;
}

interface VocabularyOptions {
  /** Special and stop tokens, included however rare. */
  readonly always?: Iterable<number> | undefined;
}

export function countLearntTokens(
  examples: Iterable<{ readonly tokens: Int32Array; readonly isLearnt: Uint8Array }>,
  vocabularySize: number,
): Float64Array {
  const counts = new Float64Array(vocabularySize);
  for (const { tokens, isLearnt } of examples) {
    for (let position = 0; position < tokens.length; position++) {
      if (isLearnt[position] === 0) continue;
      const token = tokens[position]!;
      if (token < 0 || token >= vocabularySize) throw outside(token, vocabularySize);
      counts[token]! += 1;
    }
  }
  return counts;
}

export function chooseDraftVocabulary(
  counts: Float64Array /* [vocabulary] */,
  size: number,
  { always = [] }: VocabularyOptions = {},
): DraftVocabulary {
  const vocabularySize = counts.length;
  if (!Number.isInteger(size) || size < 1 || size > vocabularySize) {
    throw new MistletoeError(
      'usage',
      `The draft vocabulary cannot have ${size} tokens; 1 to ${vocabularySize}, the target's, were expected.`,
      { hint: 'Ask for fewer, or leave the size out.' },
    );
  }
  const kept = new Set(always);
  for (const token of kept)
    if (!Number.isInteger(token) || token < 0 || token >= vocabularySize)
      throw outside(token, vocabularySize);
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
  return { tokens, coverage: measureCoverage(counts, tokens), unseen, notice: describe(size, unseen) };
}

export function measureCoverage(counts: Float64Array, tokens: Int32Array): number {
  const total = counts.reduce((sum, count) => sum + count, 0);
  const covered = tokens.reduce((sum, token) => sum + counts[token]!, 0);
  return total === 0 ? 1 : covered / total;
}

function describe(size: number, unseen: number): string | undefined {
  if (unseen === 0) return undefined;
  return `The data has fewer distinct tokens than the draft vocabulary's ${size}: ${unseen} that were never seen fill it up, those with the lowest ids.`;
}

function outside(token: number, vocabularySize: number): MistletoeError {
  return new MistletoeError('text', `Token ${token} lies outside the target's ${vocabularySize} tokens.`, {
    hint: 'The data was encoded with another tokenizer: make it anew with this target.',
  });
}

function chooseVocabulary(
  { model, stopIds }: Target,
  training: readonly Example[],
  size: number,
): DraftVocabulary {
  const counts = countLearntTokens(training, model.configuration.vocabularySize);
  return chooseDraftVocabulary(counts, size, { always: stopIds });
}
