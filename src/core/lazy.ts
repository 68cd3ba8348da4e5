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
