/**
 * Holm's step-down correction (1979) of several tests made at once: the smallest of n p-values is multiplied by n, the
 * next by n - 1 and so on, and none may fall below the one before it. Rejecting what stays under a level keeps the
 * chance of any false rejection under it, however the tests depend on each other.
 */
import { MistletoeError } from '../core/errors.js';

/** In the order given. A test that could not be made is NaN: it stays NaN, and the others do not pay for it. */
export function adjustHolm(pValues: readonly number[]): number[] {
  for (const [index, pValue] of pValues.entries()) checkPValue(pValue, index);
  const adjusted = pValues.map(() => NaN);
  const order = [...pValues.keys()]
    .filter((index) => !Number.isNaN(pValues[index]!))
    .sort((a, b) => pValues[a]! - pValues[b]!);
  let largest = 0;
  for (const [rank, index] of order.entries()) {
    largest = Math.max(largest, Math.min(1, (order.length - rank) * pValues[index]!));
    adjusted[index] = largest;
  }
  return adjusted;
}

function checkPValue(pValue: number, index: number): void {
  if (!(pValue < 0 || pValue > 1)) return;
  throw new MistletoeError(
    'usage',
    `Test ${index} has a p-value of ${pValue}; expected a number from 0 to 1, or NaN.`,
    { hint: 'Pass the p-values as the tests gave them.' },
  );
}
