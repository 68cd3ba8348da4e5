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

/** A run of tokens both sides have, or only the left (removed), or only the right (added). */
export interface AlignedRun {
  readonly kind: 'same' | 'removed' | 'added';
  readonly tokens: readonly number[];
  /** Where the run stands on each side; for a one-sided run, where it would stand on the other. */
  readonly leftStart: number;
  readonly rightStart: number;
}

/** A shortest edit script as runs; between two common runs what was removed comes before what was added. */
export function alignTokens(left: readonly number[], right: readonly number[]): AlignedRun[] {
  const runs: AlignedRun[] = [];
  let leftStart = 0;
  let rightStart = 0;
  for (const match of [
    ...findCommonRuns(left, right),
    { left: left.length, right: right.length, length: 0 },
  ]) {
    const removed = left.slice(leftStart, match.left);
    const added = right.slice(rightStart, match.right);
    const same = left.slice(match.left, match.left + match.length);
    if (removed.length > 0) runs.push({ kind: 'removed', tokens: removed, leftStart, rightStart });
    if (added.length > 0) runs.push({ kind: 'added', tokens: added, leftStart: match.left, rightStart });
    if (same.length > 0) {
      runs.push({ kind: 'same', tokens: same, leftStart: match.left, rightStart: match.right });
    }
    leftStart = match.left + match.length;
    rightStart = match.right + match.length;
  }
  return runs;
}

interface CommonRun {
  readonly left: number;
  readonly right: number;
  length: number;
}

/** A longest common subsequence, as maximal runs. */
function findCommonRuns(left: readonly number[], right: readonly number[]): CommonRun[] {
  const width = right.length;
  const skipsLeft = chooseSkips(left, right);
  const runs: CommonRun[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < width) {
    if (left[i] === right[j]) {
      const last = runs.at(-1);
      if (last !== undefined && last.left + last.length === i && last.right + last.length === j)
        last.length++;
      else runs.push({ left: i, right: j, length: 1 });
      i++;
      j++;
    } else if (skipsLeft[i * width + j] === 1) i++;
    else j++;
  }
  return runs;
}

/** Per pair of positions, whether dropping the left token keeps the longest common rest: one byte a cell. */
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
