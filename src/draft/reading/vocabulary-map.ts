import { readIntegers } from '../../checkpoint/read-tensor.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { incomplete, misfit } from './checks.js';

/** The target tokens of the draft vocabulary; undefined if it is the target's. */
export async function readVocabularyMap(
  checkpoint: Checkpoint,
  draftSize: number,
  targetSize: number,
): Promise<Int32Array | undefined> {
  const { tensors, folder } = checkpoint;
  const offsets = tensors.get('d2t') ?? tensors.get('model.d2t');
  if (offsets === undefined) {
    if (draftSize === targetSize) return undefined;
    throw misfit(folder, `drafts over ${draftSize} of ${targetSize} tokens and lacks d2t`, incomplete);
  }
  const values = await readIntegers(offsets);
  const targetTokens = values.map((offset, token) => token + offset);
  const hint = `Expected ${draftSize} distinct tokens below ${targetSize}: the drafter belongs to another target or is damaged.`;
  const outside = targetTokens.findIndex((token) => token < 0 || token >= targetSize);
  if (outside >= 0) {
    const found = targetTokens[outside]!;
    throw misfit(
      folder,
      `has a d2t that maps draft token ${outside} to ${found}; the target has ${targetSize} tokens`,
      hint,
    );
  }
  const distinct = new Set(targetTokens).size;
  if (targetTokens.length !== draftSize || distinct !== draftSize) {
    throw misfit(
      folder,
      `has a d2t that maps ${targetTokens.length} draft tokens to ${distinct} target tokens; the drafter has ${draftSize}`,
      hint,
    );
  }
  const mask = tensors.get('t2d') ?? tensors.get('model.t2d');
  if (mask !== undefined) {
    const known = await readIntegers(mask);
    const wrong = targetTokens.find((token) => known[token] !== 1);
    if (wrong !== undefined)
      throw misfit(
        folder,
        `has d2t and t2d that disagree on target token ${wrong}`,
        'The file is damaged: download it again.',
      );
  }
  return targetTokens;
}
