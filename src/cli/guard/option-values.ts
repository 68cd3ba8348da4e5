/** Numbers in the flags that `guard` declares with commander. */
import { InvalidArgumentError } from 'commander';

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    const isWhole = /^[+-]?\d+$/.test(text);
    if (isWhole && value >= least && value <= most) return value;
    const isOpen = most === Number.MAX_SAFE_INTEGER && !(isWhole && value > most);
    throw new InvalidArgumentError(
      `Expected a whole number ${isOpen ? `of ${least} or more` : `from ${least} to ${most}`}.`,
    );
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
