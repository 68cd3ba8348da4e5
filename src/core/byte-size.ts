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
