/** A map that forgets what was not asked for longest, so that strangers' names cannot fill the memory. */
import { MistletoeError } from '../../core/errors.js';

export class RecentMap<Value> {
  /** Oldest first: a Map keeps the order of insertion. */
  private readonly values = new Map<string, Value>();
  /**
   * Goes on where it stood: a new one would walk over all that was deleted since the map last tidied up. It keeps every
   * table alive that the map has outgrown since, so it is made anew after as many moves as there is room for.
   */
  private oldest = this.values.keys();
  private moves = 0;

  constructor(readonly limit: number) {
    if (!Number.isInteger(limit) || limit < 1) {
      throw new MistletoeError(
        'usage',
        `The limit of a table is ${limit}; a whole number from 1 was expected.`,
      );
    }
  }

  get size(): number {
    return this.values.size;
  }

  /** Without counting as asked for. */
  peek(key: string): Value | undefined {
    return this.values.get(key);
  }

  get(key: string): Value | undefined {
    const value = this.values.get(key);
    if (value === undefined) return undefined;
    this.putLast(key, value);
    return value;
  }

  getOrCreate(key: string, create: () => Value): Value {
    const known = this.get(key);
    if (known !== undefined) return known;
    const value = create();
    this.set(key, value);
    return value;
  }

  set(key: string, value: Value): void {
    this.putLast(key, value);
    if (this.values.size <= this.limit) return;
    let { value: oldest } = this.oldest.next();
    if (oldest === undefined) {
      this.oldest = this.values.keys();
      ({ value: oldest } = this.oldest.next());
    }
    if (oldest !== undefined) this.values.delete(oldest);
  }

  private putLast(key: string, value: Value): void {
    this.values.delete(key);
    this.values.set(key, value);
    this.moves += 1;
    if (this.moves < this.limit) return;
    this.moves = 0;
    this.oldest = this.values.keys();
  }

  delete(key: string): boolean {
    return this.values.delete(key);
  }

  /** Oldest first. */
  entries(): IterableIterator<[string, Value]> {
    return this.values.entries();
  }
}
