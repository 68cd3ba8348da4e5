import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { ngram } from '../../draft/ngram/ngram.js';
import type { CausalModel } from '../../model/causal-model.js';
import { AdaptivePolicy } from './adaptive-policy.js';

const hybrid = {
  ...{ maximumDepth: Infinity, vocabularySize: 100, parameterCount: 1000 },
  lookups: [ngram.create('ngram:1,16', { configuration: { vocabularySize: 100 } } as CausalModel)],
};

interface World {
  readonly lanes?: number;
  /** Acceptance of a token of the drafter. */
  readonly drafted: number;
  /** How likely each of 8 tokens of a text's lookup is, at a step of a sequence; 0 if it has none. */
  readonly found: (step: number, lane: number) => number;
  readonly levelMs?: number;
}

/** What is drafted, [step][lane]: `lookup:3`, `drafter:2`, or `plain`; and tokens for each millisecond. */
function decode({ lanes = 1, drafted, found, levelMs = 0.1 }: World, steps: number) {
  const policy = new AdaptivePolicy(hybrid);
  const random = createRandom(1, 'lookups');
  const drafts: string[][] = [];
  let [tokens, spentMs] = [0, 0];
  for (let step = 0; step < steps; step++) {
    const rates = Array.from({ length: lanes }, (_, lane) => found(step, lane));
    const choices = rates.map((rate) => {
      const survival = rate === 0 ? [] : Array.from({ length: 8 }, (_, level) => rate ** (level + 1));
      return policy.choose({
        suggest: (length) => ({
          tokens: survival.slice(0, length).map(() => 1),
          survival: survival.slice(0, length),
        }),
      });
    });
    const outcomes = choices.map(({ policy: chosen, source }, lane) => {
      const levels = chosen === undefined ? 0 : chosen.kind === 'chain' ? chosen.length : 3;
      const rate = source === 'lookup' ? rates[lane]! : drafted;
      const depth = source === 'lookup' && rate === 0 ? 0 : levels;
      let accepted = 0;
      while (accepted < depth && random.next() < rate) accepted += 1;
      return { proposed: chosen?.kind === 'dynamic' ? chosen.total - 1 : depth, accepted, depth };
    });
    const rows = 1 + Math.max(...outcomes.map(({ proposed }) => proposed));
    const levels = choices.map(({ source }, lane) => (source === 'lookup' ? 0 : outcomes[lane]!.depth));
    const draftMs = Math.max(...levels) === 0 ? 0 : 0.2 + levelMs * Math.max(...levels);
    const stepMs = 1 + 0.05 * lanes * (rows - 1) + draftMs;
    spentMs += stepMs;
    tokens += outcomes.reduce((sum, { accepted }) => sum + accepted + 1, 0);
    choices.forEach((choice, lane) => {
      const batch = { pass: step, batchSize: lanes, rows, stepMs };
      policy.learn(choice, { ...outcomes[lane]!, draftMs, verifyMs: stepMs - draftMs, batch });
    });
    drafts.push(
      choices.map(({ source }, lane) => {
        const { depth } = outcomes[lane]!;
        return depth === 0 ? 'plain' : `${source ?? 'drafter'}:${depth}`;
      }),
    );
  }
  return { drafts, speed: tokens / spentMs };
}

const share = (drafts: readonly string[][], matches: (draft: string) => boolean): number =>
  drafts.flat().filter(matches).length / drafts.flat().length;

describe('auto with a lookup beside the drafter', () => {
  it('takes long lookups where the text repeats, and drafts elsewhere', () => {
    const { drafts } = decode({ drafted: 0.8, found: (step) => (step % 2 === 0 ? 0.95 : 0.2) }, 600);
    const late = drafts.slice(200);
    const [sure, unsure] = [0, 1].map((half) => late.filter((_, step) => step % 2 === half));
    expect(share(sure!, (draft) => draft === 'lookup:8')).toBeGreaterThan(0.8);
    expect(share(unsure!, (draft) => draft.startsWith('drafter'))).toBeGreaterThan(0.8);
  });

  it('takes as much of a lookup as pays', () => {
    const { drafts } = decode({ drafted: 0.1, found: () => 0.4 }, 600);
    expect(share(drafts.slice(200), (draft) => /^lookup:[123]$/.test(draft))).toBeGreaterThan(0.9);
  });

  it('leaves a drafter that fails to lookups and plain steps', () => {
    const { drafts, speed } = decode({ drafted: 0, found: (step) => (step % 3 === 0 ? 0.8 : 0) }, 2000);
    const late = drafts.slice(500);
    expect(share(late, (draft) => draft.startsWith('drafter'))).toBeLessThan(0.05);
    expect(share(late, (draft) => draft.startsWith('lookup'))).toBeGreaterThan(0.3);
    expect(speed).toBeGreaterThan(1.3);
  });

  it('is faster than with either of them alone', () => {
    const found = (step: number): number => (step % 2 === 0 ? 0.9 : 0.1);
    const good = { drafted: 0.9, levelMs: 0.05 };
    const both = decode({ ...good, found }, 1500).speed;
    expect(both / decode({ ...good, drafted: 0, found }, 1500).speed).toBeGreaterThan(1.1);
    expect(both / decode({ ...good, found: () => 0 }, 1500).speed).toBeGreaterThan(1.1);
  });

  it('lets each sequence of a batch take its own lookup', () => {
    const { drafts } = decode({ lanes: 4, drafted: 0.7, found: (_, lane) => (lane === 0 ? 0.95 : 0) }, 600);
    const late = drafts.slice(200);
    const first = late.map(([draft]) => [draft!]);
    const others = late.map((lanes) => lanes.slice(1));
    // The rest are trials and trees.
    expect(share(first, (draft) => draft.startsWith('lookup'))).toBeGreaterThan(0.7);
    expect(share(others, (draft) => draft.startsWith('drafter'))).toBeGreaterThan(0.8);
  });

  it('uses lookups in a batch where the drafter does not pay', () => {
    const { drafts } = decode({ lanes: 4, drafted: 0.05, found: () => 0.8 }, 600);
    expect(share(drafts.slice(200), (draft) => draft.startsWith('lookup'))).toBeGreaterThan(0.9);
  });
});
