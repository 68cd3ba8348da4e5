import { describe, expect, it } from 'vitest';
import { formatRehearsal } from './rehearse.js';

describe('a rehearsal in words', () => {
  const stage = (spoiledShare: number, meanAcceptedLength: number, tokensPerSecond: number) => ({
    ...{ spoiledShare, meanAcceptedLength, tokensPerSecond, requests: 4, alerts: [] },
    verdicts: Array.from({ length: 4 }, () => ({ name: 'normal' as const, reason: 'Fine.' })),
    stepMs: { draft: 4.25, verify: 15.5 },
  });
  const verdicts = [{ name: 'collapsed' as const, reason: 'Drafting did not pay.' }];

  it('compares stages with usual and with plain decoding', () => {
    const text = formatRehearsal({
      usual: stage(0, 3, 200),
      plainTokensPerSecond: 100,
      stages: [stage(0.5, 2, 150), { ...stage(1, 1, 50), verdicts }],
      breakEven: 1.5,
      areAnswersKept: true,
    });
    expect(text).toMatch(/50 % replaced +2\.00 +4\.3 \+ 15\.5 ms +150 +0\.75x +1\.50x +0 of 4/);
    expect(text).toMatch(/100 % replaced +1\.00 +4\.3 \+ 15\.5 ms +50 +0\.25x +0\.50x +1 of 1/);
    expect(text).toMatch(/none \(plain\) +1\.00 +10\.0 ms +100/);
    expect(text).toContain('first with 100 % replaced (collapsed): Drafting did not pay.');
    expect(text).toContain('breakEven: 1.50');
  });

  it('says when nothing was noticed, and when answers changed', () => {
    const text = formatRehearsal({
      ...{ usual: stage(0, 3, 200), plainTokensPerSecond: 100, stages: [stage(1, 1, 50)], breakEven: 2 },
      areAnswersKept: false,
    });
    expect(text).toContain('The guard called no request collapsed or low.');
    expect(text).toContain('Look into this first.');
  });
});
