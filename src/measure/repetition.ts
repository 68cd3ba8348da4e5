import { MistletoeError } from '../core/errors.js';

/**
 * Share of repeated n-grams, 1 - distinct / total; with the default size this is Rep-4. A text shorter than one n-gram
 * repeats nothing: 0.
 */
export function repetitionShare(tokens: readonly number[], size = 4): number {
  if (!Number.isInteger(size) || size < 1) {
    throw new MistletoeError('usage', `The n-gram size is ${size}; expected a whole number of at least 1.`, {
      hint: 'Use 4 for Rep-4.',
    });
  }
  const total = tokens.length - size + 1;
  if (total <= 0) return 0;
  const distinct = new Set<string>();
  for (let start = 0; start < total; start++) distinct.add(tokens.slice(start, start + size).join(' '));
  return 1 - distinct.size / total;
}
