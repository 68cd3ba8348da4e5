/** How numbers read in a report: few digits, a true minus sign, a dash where there is no number. */
const absent = '–';

export function fixed(value: number | null, digits: number): string {
  if (value === null || !Number.isFinite(value)) return absent;
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−');
}

export const acceptedLengthText = (value: number | null): string => fixed(value, 2);

export const speedupText = (value: number | null): string =>
  value === null || !Number.isFinite(value) ? absent : `${fixed(value, 2)}×`;

export const rateText = (tokensPerSecond: number | null): string =>
  fixed(tokensPerSecond, tokensPerSecond !== null && tokensPerSecond < 10 ? 1 : 0);

/** 0.314 -> "31 %" */
export function percentText(share: number | null, digits = 0): string {
  return share === null || !Number.isFinite(share) ? absent : `${fixed(share * 100, digits)} %`;
}

/** A change with its sign: 0.314 -> "+31 %", -0.25 -> "−25 %". */
export function changeText(share: number | null, digits = 0): string {
  const text = percentText(share, digits);
  return /^[^−–]*[1-9]/.test(text) ? `+${text}` : text;
}

/** "33 % more", "4 % fewer" or "as many": of things that are counted. */
export function moreText(ratio: number | null): string {
  if (ratio === null || !Number.isFinite(ratio)) return absent;
  const text = percentText(Math.abs(ratio - 1));
  return text === '0 %' ? 'as many' : `${text} ${ratio > 1 ? 'more' : 'fewer'}`;
}

/** Natural-log divergences: three digits, and "< 0.001" rather than a zero that is none. */
export function divergenceText(nats: number | null): string {
  return nats !== null && nats > 0 && nats < 0.001 ? '< 0.001' : fixed(nats, 3);
}

/** "p = 0.031" or "p < 0.001" */
export function pValueText(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return `p ${absent}`;
  return value < 0.001 ? 'p < 0.001' : `p = ${fixed(value, 3)}`;
}

/** Perplexities span orders of magnitude: 1.31, 31.4, 18 400, 1.8e+7. */
export function perplexityText(value: number | null): string {
  if (value === null || Number.isNaN(value)) return absent;
  if (value >= 1e6) return Number.isFinite(value) ? value.toExponential(1) : '∞';
  if (value < 10) return fixed(value, 2);
  if (value < 100) return fixed(value, 1);
  return groupThousands(Number(value.toPrecision(3)));
}

export function groupThousands(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f') : absent;
}

export function parameterText(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toPrecision(3)} billion parameters`;
  return count >= 1e6
    ? `${(count / 1e6).toPrecision(3)} million parameters`
    : `${groupThousands(count)} parameters`;
}

export function durationText(milliseconds: number): string {
  if (!Number.isFinite(milliseconds)) return absent;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 60) return `${fixed(milliseconds / 1000, 1)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes} min ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function countText(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`;
  return `${count} ${noun}${/(s|x|ch|sh)$/.test(noun) ? 'es' : 's'}`;
}

/** "18.3": passes are counted, but their mean over prompts is not whole. */
/** The first few, and how many more there are. */
export function listFirst<Item>(
  items: readonly Item[],
  max: number,
  show: (item: Item) => string = String,
): string {
  const shown = items.slice(0, max).map(show).join(', ');
  return items.length > max ? `${shown} and ${items.length - max} more` : shown;
}

export const passesText = (passes: number | null): string => fixed(passes, 1);

/** Sizes in bytes with units: GB is 1000^3, GiB is 1024^3. */
const units = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** Undefined if the text is not a size. A unit is required: 50 could mean bytes or GB. */
export function parseBytes(text: string): number | undefined {
  const [, digits, prefix, binary] = /^\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B\s*$/i.exec(text) ?? [];
  if (digits === undefined || prefix === undefined) return undefined;
  if (binary !== '' && prefix === '') return undefined;
  const power = units.findIndex((unit) => unit === `${prefix.toUpperCase()}B`);
  const bytes = Math.round(Number(digits) * (binary === '' ? 1000 : 1024) ** power);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** 12_345_678 -> 12.3 MB */
export function formatBytes(value: number): string {
  let scaled = value;
  let unit = 0;
  // Three digits of 999.9 would be 1.00e+3.
  while (scaled >= 999.5 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  if (unit === 0) return `${scaled} bytes`;
  return `${scaled >= 999.5 ? scaled.toFixed(0) : scaled.toPrecision(3)} ${units[unit]!}`;
}
