/** A map that forgets what was used least recently, so that strangers' names cannot fill the memory. */
export class RecentMap<Value> {
  /** Oldest first: a Map keeps the order of insertion. */
  private values = new Map<string, Value>();
  private newest: string | undefined;

  constructor(readonly limit: number) {}

  get size(): number {
    return this.values.size;
  }

  /** Does not count as use. */
  peek(key: string): Value | undefined {
    return this.values.get(key);
  }

  get(key: string): Value | undefined {
    const value = this.values.get(key);
    if (value !== undefined) this.set(key, value);
    return value;
  }

  getOrCreate(key: string, create: () => Value): Value {
    const value = this.values.get(key) ?? create();
    this.set(key, value);
    return value;
  }

  set(key: string, value: Value): void {
    if (key !== this.newest) this.values.delete(key);
    this.newest = key;
    this.values.set(key, value);
    if (this.values.size <= this.limit) return;
    const [oldest] = this.values.keys();
    this.values.delete(oldest!);
  }

  delete(key: string): boolean {
    return this.values.delete(key);
  }

  /** Oldest first. */
  entries(): IterableIterator<[string, Value]> {
    return this.values.entries();
  }

  replace(entries: readonly (readonly [string, Value])[]): void {
    this.values = new Map(entries.slice(-this.limit));
    this.newest = undefined;
  }
}
