/**
 * Whether draft model and target share a vocabulary. Models of one tokenizer are padded to different sizes (Qwen2.5:
 * 151,936 rows at 0.5B, 152,064 at 7B, for 151,665 tokens). The drafter proposes from the common ids, renormalized,
 * which keeps verification lossless; ids that only the target has are never proposed.
 */
import { findVocabularyDifference, type Tokenizer } from '../../text/tokenizer/tokenizer.js';
import { misfit } from '../reading/checks.js';
import type { Vocabularies } from '../programs/scores.js';

export interface TokenizerPair {
  readonly target: Tokenizer | undefined;
  /** Undefined if the folder has none: it then uses the target's. */
  readonly drafter: Tokenizer | undefined;
}

interface VocabularySize {
  readonly vocabularySize: number;
}

export function shareVocabulary(target: VocabularySize, drafter: VocabularySize): Vocabularies {
  const targetSize = target.vocabularySize;
  const draftSize = Math.min(targetSize, drafter.vocabularySize);
  if (draftSize === targetSize) return { targetSize, draftSize };
  return { targetSize, draftSize, targetTokens: Int32Array.from({ length: draftSize }, (_, token) => token) };
}

const sameTokenizer = "Speculative sampling needs a draft model with the target's tokenizer.";

export function requireSameVocabulary(
  folder: string,
  { target, drafter }: TokenizerPair,
  sizes: { readonly target: number; readonly drafter: number },
): void {
  const sizesDiffer = sizes.target !== sizes.drafter;
  if (target === undefined || drafter === undefined) {
    if (!sizesDiffer) return;
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.drafter} tokens; the target's has ${sizes.target}, and without the tokenizers of both nothing shows that the difference is padding`,
      `${sameTokenizer} Put its tokenizer.json into its folder.`,
    );
  }
  const difference = findVocabularyDifference(target, drafter);
  if (difference !== undefined) {
    const quote = (piece: string | undefined): string =>
      piece === undefined ? 'nothing' : JSON.stringify(piece);
    throw misfit(
      folder,
      `has another vocabulary: token ${difference.id} is ${quote(difference.right)} there and ${quote(difference.left)} in the target`,
      sameTokenizer,
    );
  }
  const shared = Math.min(sizes.target, sizes.drafter);
  if (sizesDiffer && shared < target.vocabularySize) {
    throw misfit(
      folder,
      `has a vocabulary of ${sizes.drafter} tokens; the target's has ${sizes.target}, and the tokenizer's ${target.vocabularySize} tokens do not fit into both`,
      sameTokenizer,
    );
  }
}
