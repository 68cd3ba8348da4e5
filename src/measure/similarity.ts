/** How alike two answers are, token by token. */

/** Tokens both share from the start: the index of the first difference, or the length if there is none. */
export function firstDifference(left: readonly number[], right: readonly number[]): number {
  const shorter = Math.min(left.length, right.length);
  let index = 0;
  while (index < shorter && left[index] === right[index]) index++;
  return index;
}

/** 1 - Levenshtein distance / longer length: 1 for equal sequences (two empty ones too), 0 for nothing kept in place. */
export function editSimilarity(left: readonly number[], right: readonly number[]): number {
  const longer = Math.max(left.length, right.length);
  return longer === 0 ? 1 : 1 - editDistance(left, right) / longer;
}

function editDistance(left: readonly number[], right: readonly number[]): number {
  let previous = Uint32Array.from({ length: right.length + 1 }, (_, column) => column);
  let current = new Uint32Array(right.length + 1);
  for (let row = 1; row <= left.length; row++) {
    current[0] = row;
    for (let column = 1; column <= right.length; column++) {
      const replaced = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1);
      current[column] = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
    }
    [previous, current] = [current, previous];
  }
  return previous[right.length]!;
}

/** Positions of the right side that are not part of a longest common subsequence. */
export function findAdded(left: readonly number[], right: readonly number[]): ReadonlySet<number> {
  const skipsLeft = chooseSkips(left, right);
  const added = new Set(right.keys());
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) {
      added.delete(j);
      i++;
      j++;
    } else if (skipsLeft[i * right.length + j] === 1) i++;
    else j++;
  }
  return added;
}

/** [left, right] 1 where dropping the left token keeps the longest common rest. */
function chooseSkips(left: readonly number[], right: readonly number[]): Uint8Array {
  const width = right.length;
  const skipsLeft = new Uint8Array(left.length * width);
  // [column]: length of the longest common subsequence of the rests, for the row below and for this one.
  let below = new Uint32Array(width + 1);
  let current = new Uint32Array(width + 1);
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = width - 1; j >= 0; j--) {
      const withoutLeft = below[j]!;
      const withoutRight = current[j + 1]!;
      if (withoutLeft >= withoutRight) skipsLeft[i * width + j] = 1;
      current[j] = left[i] === right[j] ? below[j + 1]! + 1 : Math.max(withoutLeft, withoutRight);
    }
    [below, current] = [current, below];
  }
  return skipsLeft;
}
