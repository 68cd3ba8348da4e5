/**
 * The budget of a chat template. Every operation is charged before it runs. The unit is one character read or made; steps,
 * list items and calls cost units in proportion to their time or memory. The budget limits the sum. Single texts and
 * lists have their own limits, because an operation cannot be interrupted.
 */

export interface Value {
  readonly type: string;
  readonly value: unknown;
}

/** About a second of CPU time, or 200 MB. Published templates need less than a thousandth of it. */
const maxUnits = 64_000_000;
export const maxTextLength = 2_000_000;
export const maxListLength = 100_000;
/** A million steps take about a second. */
const stepUnits = 64;
/** For making a value. */
export const valueUnits = 64;
/** For an iteration, which makes a scope and a record. */
export const iterationUnits = 256;
/** For copying or reading an item. */
export const itemUnits = 12;
/** A search may compare every character of one text with every character of the other, four per unit. */
const comparisonsPerUnit = 4;
/** For joining texts. */
const charactersPerJoin = 32;
/** Numbers and literals such as `false` are shorter. */
const maxScalarLength = 24;

/** Steps between two checks of the time. */
const stepsPerCheck = 256;
/** In case a unit takes longer than expected. */
const maxMs = 3000;

export interface WritingForm {
  readonly separator?: number | undefined;
  readonly indent?: number | undefined;
}

export class TemplateBudget {
  private left = maxUnits;
  private steps = 0;
  private readonly startMs = performance.now();
  private readonly start = process.cpuUsage();

  step(): void {
    this.spend(stepUnits);
    this.steps += 1;
    if (this.steps % stepsPerCheck !== 0) return;
    // An upper bound of this thread's CPU time: the process includes other threads, the clock includes waiting.
    const { user, system } = process.cpuUsage(this.start);
    const usedMs = Math.min((user + system) / 1000, performance.now() - this.startMs);
    if (usedMs > maxMs) throw new Error(`it took more than ${maxMs / 1000} seconds`);
  }

  /** By default for characters that are read or made. */
  spend(count: number, unitsEach = 1): void {
    this.left -= count * unitsEach;
    if (!(this.left >= 0)) throw new Error(`it takes too many steps, or reads and makes too much text`);
  }

  makeText(length: number): void {
    requireTextLength(length);
    this.spend(length);
  }

  /** Joining two texts. They are copied when the result is read, which is charged again. */
  joinTexts(left: number, right: number): void {
    requireTextLength(left + right);
    this.spend(valueUnits + (left + right) / charactersPerJoin);
  }

  /** Making a list of existing items. */
  copyList(length: number): void {
    this.makeItems(length, itemUnits);
  }

  /** Making a list with its items. */
  makeList(length: number): void {
    this.makeItems(length, valueUnits);
  }

  search(textLength: number, partLength: number): void {
    this.spend(textLength + partLength + (textLength * partLength) / comparisonsPerUnit);
  }

  /** A value becomes text, with everything in it, as often as it occurs. Returns an upper bound of the length. */
  write(value: Value, { separator = 2, indent = 0 }: WritingForm = {}): number {
    if (typeof value.value === 'string') return value.value.length; // no copy
    let length = 0;
    const add = (characters: number): void => {
      length += characters;
      if (!(length <= maxTextLength))
        throw new Error(`it writes out more than ${maxTextLength} characters at once`);
    };
    const visit = (item: Value | undefined, depth: number): void => {
      this.spend(itemUnits);
      const held = item?.value;
      add(typeof held === 'string' ? held.length + 2 : maxScalarLength);
      const between = separator + 1 + indent * (depth + 1);
      if (Array.isArray(held))
        for (const inner of held as readonly Value[]) {
          add(between);
          visit(inner, depth + 1);
        }
      else if (held instanceof Map)
        for (const [key, inner] of held as ReadonlyMap<string, Value>) {
          add(between + key.length + 4);
          visit(inner, depth + 1);
        }
    };
    add(indent);
    visit(value, 0);
    this.spend(length);
    return length;
  }

  longestText(value: Value | undefined): number {
    this.spend(itemUnits);
    const held = value?.value;
    if (typeof held === 'string') return held.length;
    const items = Array.isArray(held) ? (held as readonly Value[]) : held instanceof Map ? held.values() : [];
    let longest = 0;
    for (const item of items as Iterable<Value>) longest = Math.max(longest, this.longestText(item));
    return longest;
  }

  private makeItems(length: number, units: number): void {
    if (!(length <= maxListLength))
      throw new Error(`it makes a list of ${length} items; at most ${maxListLength} are allowed`);
    this.spend(units * (length + 1));
  }
}

function requireTextLength(length: number): void {
  if (length <= maxTextLength) return;
  throw new Error(`it makes a text of ${length} characters; at most ${maxTextLength} are allowed`);
}
