/** Which tokens a suffix may be made of: printable ASCII by default, never special or raw-byte tokens. */
import { MistletoeError } from '../core/errors.js';
import type { Tokenizer } from '../text/tokenizer/tokenizer.js';

export interface TokenRules {
  readonly allowNonAscii: boolean;
}

/** Ids in ascending order. */
export function listAllowedTokens(
  tokenizer: Tokenizer,
  vocabularySize: number,
  { allowNonAscii }: TokenRules,
): Int32Array {
  const allowed: number[] = [];
  for (let id = 0; id < Math.min(tokenizer.vocabularySize, vocabularySize); id++) {
    if (!tokenizer.hasToken(id) || tokenizer.isSpecial(id) || tokenizer.isByte(id)) continue;
    // Decoded behind another token: decoders strip a space at the very beginning of a text.
    const text = decodeBehind(tokenizer, id);
    if (text !== '' && (allowNonAscii ? !/[\p{C}\uFFFD]/u.test(text) : /^[\x20-\x7e]+$/.test(text)))
      allowed.push(id);
  }
  if (allowed.length === 0) {
    throw new MistletoeError(
      'text',
      'No token of the vocabulary may stand in a suffix; printable ones were expected.',
      {
        hint: 'Allow text beyond ASCII (--allow-non-ascii), or check that the tokenizer belongs to the model.',
      },
    );
  }
  return Int32Array.from(allowed);
}

function decodeBehind(tokenizer: Tokenizer, id: number): string {
  return tokenizer.decode([id, id]).slice(tokenizer.decode([id]).length);
}
