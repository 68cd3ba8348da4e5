/** Strict readings of option values: the whole text must be the number, and lie where it may. */
import { InvalidArgumentError } from 'commander';

export function wholeNumber(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^[+-]?\d+$/.test(text) || value < least || !Number.isSafeInteger(value)) {
      throw new InvalidArgumentError(`Expected a whole number of ${least} or more.`);
    }
    return value;
  };
}

interface Range {
  readonly least?: number;
  readonly above?: number;
  readonly most?: number;
  readonly expected: string;
}

export function number({ least, above, most, expected }: Range): (text: string) => number {
  return (text) => {
    const value = Number(text);
    const isInside =
      /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) &&
      Number.isFinite(value) &&
      value >= (least ?? -Infinity) &&
      value > (above ?? -Infinity) &&
      value <= (most ?? Infinity);
    if (!isInside) throw new InvalidArgumentError(`Expected ${expected}.`);
    return value;
  };
}

/** For options that may stand several times. */
export function collect(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text];
}
