import { expect, it } from 'vitest';
import type { EngineCounters } from '../engines/counters.js';
import { Attribution } from './upstream-facts.js';

const counters = (drafts: number): readonly EngineCounters[] => [
  {
    engine: 'vllm',
    model: 'm',
    drafts,
    draftTokens: drafts * 3,
    acceptedTokens: drafts,
    outputTokens: null,
    draftLength: 3,
    recentLength: null,
  },
];

function observe(attribution: Attribution, steps: number, proposed: number | null): void {
  attribution.add({
    upstream: 'speculative',
    speculation: {
      evidence: 'reported',
      steps,
      accepted: 0,
      proposed,
      histogram: null,
      perStepAccepted: null,
      perStepProposed: null,
      draftLength: null,
      isTree: false,
    },
  });
}

it('gives the share of drafting that no observed request explains', () => {
  const attribution = new Attribution();
  expect(attribution.compare(counters(5000))).toBeNull();
  observe(attribution, 400, 1200);
  expect(attribution.compare(counters(5400))).toBe(0);
  observe(attribution, 400, 1200);
  expect(attribution.compare(counters(6400))).toBeCloseTo(1 - 800 / 1400);
});

it('compares steps where requests do not count draft tokens', () => {
  const attribution = new Attribution();
  attribution.compare(counters(0));
  observe(attribution, 150, null);
  expect(attribution.compare(counters(200))).toBeCloseTo(0.25);
});

it('starts again when the engine restarts, and says nothing about little traffic', () => {
  const attribution = new Attribution();
  attribution.compare(counters(1000));
  expect(attribution.compare(counters(10))).toBeNull();
  expect(attribution.compare(counters(20))).toBeNull();
  expect(attribution.compare(counters(210))).toBe(1);
});
