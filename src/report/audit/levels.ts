/** What a verdict may be called, and the limits between the levels. */
export type VerdictLevel = 'robust' | 'fragile' | 'collapsed' | 'inconclusive';

export const levelNames: Readonly<Record<VerdictLevel, string>> = {
  robust: 'Robust',
  fragile: 'Fragile',
  collapsed: 'Collapsed',
  inconclusive: 'Inconclusive',
};

/** From best to worst; the worst drafter gives a report its level. */
export const severity: readonly VerdictLevel[] = ['robust', 'inconclusive', 'fragile', 'collapsed'];

export const significanceLevel = 0.05;
export const collapseDrop = 0.3;
export const fragileDrop = 0.1;

/** Prompts with which a one-sided signed-rank test can reach the level at all, if so many drafters share it. */
export function fewestPrompts(drafters = 1): number {
  return Math.floor(Math.log2(drafters / significanceLevel)) + 1;
}
