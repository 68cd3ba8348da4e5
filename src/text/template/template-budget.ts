/**
 * What running a chat template may cost, as one budget that every operation is charged to before it runs. Its unit is one
 * character that is read or made; a step, a list item or a function cost as many as they take memory or time for. The
 * budget bounds the sum; single texts and lists have bounds of their own, because one operation cannot be stopped midway.
 */

/** A value of the template library. */
export interface Value {
  readonly type: string;
  readonly value: unknown;
}

/** About a second of CPU time, or 200 MB. An honest template takes a thousandth, and thirty passes over a long conversation. */
const maxUnits = 64_000_000;
export const maxTextLength = 2_000_000;
export const maxListLength = 100_000;
/** A million steps take about a second. */
const stepUnits = 64;
/** A value that is made. */
const valueUnits = 64;
const iterationUnits = 256;
/** An item that is copied or looked at. */
const itemUnits = 12;
/** Searching may compare every character of the one text with every character of the other, four in a unit. */
const comparisonsPerUnit = 4;
/** Of a text that is joined with another. */
const charactersPerJoin = 32;
/** Numbers and words such as `false` are shorter. */
const maxScalarLength = 24;

/** Steps between two looks at the clock. */
const stepsPerLook = 256;
/** CPU time of the process, in case that a unit takes longer than expected. */
const maxMs = 3000;

export interface WritingForm {
  /** Characters between two items. */
  readonly separator?: number;
  /** Blanks for each level of nesting. */
  readonly indent?: number;
}

export class TemplateBudget {
  private left = maxUnits;
  private steps = 0;
  private readonly start = process.cpuUsage();

  step(): void {
    this.spend(stepUnits);
    this.steps += 1;
    if (this.steps % stepsPerLook !== 0) return;
    const { user, system } = process.cpuUsage(this.start);
    if ((user + system) / 1000 > maxMs) throw new Error(`it took more than ${maxMs / 1000} seconds`);
  }

  /** Characters that are read or made. */
  spend(units: number): void {
    this.left -= units;
    if (!(this.left >= 0)) throw new Error(`it takes too many steps, or reads and makes too much text`);
  }

  /** A text of this length is made. */
  makeText(length: number): void {
    requireTextLength(length);
    this.spend(length);
  }

  /** Two texts are joined, which copies them only when the result is read; reading is charged again. */
  joinTexts(left: number, right: number): void {
    requireTextLength(left + right);
    this.spend(valueUnits + (left + right) / charactersPerJoin);
  }

  /** A list of this many items that exist already is made. */
  copyList(length: number): void {
    this.makeItems(length, itemUnits);
  }

  /** A list is made together with its items. */
  makeList(length: number): void {
    this.makeItems(length, valueUnits);
  }

  visit(count: number): void {
    this.spend(itemUnits * count);
  }

  /** Each iteration has a scope and a record of its own. */
  iterate(count: number): void {
    this.spend(iterationUnits * count);
  }

  makeValues(count: number): void {
    this.spend(valueUnits * count);
  }

  search(textLength: number, partLength: number): void {
    this.spend(textLength + partLength + (textLength * partLength) / comparisonsPerUnit);
  }

  /** A value becomes text: everything that it holds, as often as it is in there. Returns a bound on the length. */
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

  /** The longest text anywhere in a value. */
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
