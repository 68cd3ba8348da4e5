/**
 * Lists whose length depends on data. Spread as arguments (`Math.max(...values)`), a hundred thousand values end the
 * stack of the main thread and fewer that of a worker.
 */

/** Like Math.max, NaN included. */
export function largest(values: Iterable<number>, least = -Infinity): number {
  let found = least;
  for (const value of values) found = Math.max(found, value);
  return found;
}

/** Like Math.min, NaN included. */
export function smallest(values: Iterable<number>, most = Infinity): number {
  let found = most;
  for (const value of values) found = Math.min(found, value);
  return found;
}

export function pushAll<Item>(list: Item[], items: Iterable<Item>): void {
  for (const item of items) list.push(item);
}
