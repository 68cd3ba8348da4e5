/**
 * Values that are made on first use and kept. If making one fails, all current callers get the error, and the next caller
 * tries again.
 */

/** @example const compile = lazily(() => runtime.compile(outputs)); */
export function lazily<Value>(make: () => Promise<Value>): () => Promise<Value> {
  const kept = lazilyBy(make);
  return () => kept(undefined);
}

/** The same for each key. */
export function lazilyBy<Key, Value>(make: (key: Key) => Promise<Value>): (key: Key) => Promise<Value> {
  const kept = new Map<Key, Promise<Value>>();
  return (key) => {
    const known = kept.get(key);
    if (known !== undefined) return known;
    const made = make(key);
    kept.set(key, made);
    made.catch(() => kept.delete(key));
    return made;
  };
}

/** Starts tasks in order, at most `limit` at a time, and returns their results in the same order. */
export async function runWithLimit<Result>(
  tasks: readonly (() => Promise<Result>)[],
  limit: number,
): Promise<Result[]> {
  const running: Promise<Result>[] = [];
  const results: Result[] = [];
  try {
    for (const task of tasks) {
      if (running.length >= limit) results.push(await running.shift()!);
      const started = task();
      // It may fail while an earlier one is awaited; the error is thrown when its own turn comes.
      started.catch(() => undefined);
      running.push(started);
    }
    for (const started of running) results.push(await started);
    return results;
  } catch (cause) {
    // No task may outlive this call.
    await Promise.allSettled(running);
    throw cause;
  }
}
