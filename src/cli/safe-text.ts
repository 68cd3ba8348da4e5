/**
 * Colours that only we can write. Names, ids and answers come from strangers and may hold any escape sequence, so
 * whatever goes out is cleaned of all of them but ours, which carry a number that nobody outside of this process
 * knows. The number is part of an ordinary colour sequence: whoever measures or strips colours needs to know nothing.
 */
import { randomInt } from 'node:crypto';

/** The code that begins a style, and the one that ends it. */
const styles = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

type Style = keyof typeof styles;

export type Colors = { readonly isColorSupported: boolean } & Readonly<
  Record<Style, (text: string) => string>
>;

const seal = Array.from({ length: 4 }, () => randomInt(1000, 10_000)).join(';');
/** Matches our own sequences alone; the group is the code. */
export const sealedCode = new RegExp(`\u001b\\[${seal};(\\d+)m`, 'g');

/** Text that only an Output can turn into colours. */
export function createColors(isColorSupported: boolean): Colors {
  const entries = Object.entries(styles).map(([style, [begin, end]]) => {
    const [opening, closing] = [begin, end].map((code) => `\u001b[${seal};${code}m`) as [string, string];
    // A style inside another ends both where they share an end: the outer one begins anew.
    const paint = (text: string): string =>
      `${opening}${text.replaceAll(closing, closing + opening)}${closing}`;
    return [style, isColorSupported ? paint : (text: string) => text] as const;
  });
  return { isColorSupported, ...(Object.fromEntries(entries) as Record<Style, (text: string) => string>) };
}
