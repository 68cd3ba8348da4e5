/** The one-sentence reasons of verdicts and alerts. */
import type { Cost } from './cost.js';
import type { Rank } from './rank.js';
import type { Finding } from './tenant.js';

const percent = (share: number): string => `${(100 * share).toFixed(share < 0.095 ? 1 : 0)} %`;
const length = (value: number): string => value.toFixed(2);

const seen = ({ acceptedLength, steps }: Cost): string =>
  `${length(acceptedLength)} tokens per step over ${steps} steps`;

export const reasons = {
  collapsed: (cost: Cost): string =>
    `Drafting did not pay: ${seen(cost)}, at most ${length(cost.upperBound)} with 95 % confidence, and break-even is ${length(cost.breakEven)}.`,
  low: (cost: Cost, { lowOrLower, samples }: Rank): string =>
    `${seen(cost)} is lower than all but ${percent(lowOrLower)} of ${samples} requests of this model and route.`,
  normal: (cost: Cost, { middle, samples }: Rank): string =>
    `${seen(cost)} is higher than ${percent(middle)} of ${samples} requests of this model and route.`,
  undrafted: (): string => 'The engine drafted nothing for this request, so drafting cost nothing.',
  learning: (cost: Cost, samples: number, minSamples: number): string =>
    `${seen(cost)} is not below break-even, and the baseline has ${samples} of the ${minSamples} requests it needs.`,
  plain: (): string => 'The request was answered without drafts.',
  failed: (status: number): string => `The request was not answered (status ${status}).`,
  silent: (): string => 'The engine reported no draft counts for this request.',
  empty: (): string => 'The response ended before the first verification step.',
  chunks: (): string =>
    'Only tokens per chunk are known, and this stream has not shown that a chunk is a step.',
} as const;

export function describeFinding({ cause, count, requests, probability, mean }: Finding): string {
  const chance = `probability without an attack ${probability.toExponential(0)}`;
  switch (cause) {
    case 'collapsed':
      return mean === null
        ? `Drafting did not pay for ${count} of the last ${requests} requests of this tenant (${chance}).`
        : `Drafting does not pay for this tenant: ${length(mean)} tokens per step over its last ${requests} requests.`;
    case 'low':
      return `${count} of the last ${requests} requests of this tenant are low (${chance}).`;
    case 'drift':
      return `The last ${requests} requests of this tenant are higher than only ${percent(mean ?? 0)} of requests on average (${chance}).`;
  }
}
