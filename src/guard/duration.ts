/** Times with units, as in a settings file. */
const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** In milliseconds; undefined where the text is not a time. Only 0 may have no unit. */
export function parseDuration(text: string): number | undefined {
  if (text.trim() === '0') return 0;
  const [, digits, unit] = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const value = Math.round(Number(digits) * units[unit as keyof typeof units]);
  return value <= 3650 * units.d ? value : undefined;
}

/** 90_000 -> 90s */
export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return '0';
  const [name, factor] = Object.entries(units)
    .reverse()
    .find(([, each]) => milliseconds % each === 0) ?? ['ms', 1];
  return `${milliseconds / factor}${name}`;
}
