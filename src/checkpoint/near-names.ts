const maximumNames = 5000;
const maximumLength = 120;

/** Up to three names that a missing one was probably meant to be, the nearest first. */
export function findNearNames(wanted: string, names: Iterable<string>): readonly string[] {
  const scored: { name: string; distance: number }[] = [];
  let seen = 0;
  for (const name of names) {
    seen += 1;
    if (seen > maximumNames) break;
    if (name.length > maximumLength || wanted.length > maximumLength) continue;
    const isAffix = name.endsWith(`.${wanted}`) || wanted.endsWith(`.${name}`);
    const distance = isAffix ? 1 : countEdits(wanted, name);
    if (distance <= Math.max(3, wanted.length / 3)) scored.push({ name, distance });
  }
  scored.sort((left, right) => left.distance - right.distance || (left.name < right.name ? -1 : 1));
  return scored.slice(0, 3).map(({ name }) => name);
}

/** Levenshtein distance. */
function countEdits(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let line = 1; line <= left.length; line += 1) {
    const next = [line];
    for (let column = 1; column <= right.length; column += 1) {
      const substitution = row[column - 1]! + (left[line - 1] === right[column - 1] ? 0 : 1);
      next.push(Math.min(substitution, row[column]! + 1, next[column - 1]! + 1));
    }
    row = next;
  }
  return row[right.length]!;
}
