/**
 * Values that are made when they are first asked for and then kept, unless making them failed: a failure is told to
 * everybody who waits for it, and the next one who asks tries again.
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
