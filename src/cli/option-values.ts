/** Strict readings of option values: the whole text must be the number, and lie where it may. */
import { InvalidArgumentError } from 'commander';
import { parseBytes } from '../core/byte-size.js';
import { deviceForm, deviceForms } from '../runtime/device-choice.js';

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

export function byteSize(least: number): (text: string) => number {
  return (text) => {
    const bytes = parseBytes(text);
    if (bytes !== undefined && bytes >= least) return bytes;
    throw new InvalidArgumentError('Expected a size with its unit, such as 20GB.');
  };
}

export function deviceName(text: string): string {
  if (deviceForm.test(text)) return text;
  throw new InvalidArgumentError(`Expected ${deviceForms}.`);
}

/** For options that may stand several times. */
export function collect(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text];
}
