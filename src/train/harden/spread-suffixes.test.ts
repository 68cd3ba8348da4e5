import { describe, expect, it } from 'vitest';
import type { Example } from '../data/examples.js';
import type { SuffixedPrompt } from './suffix-hunt.js';
import { spreadSuffixes } from './suffixed-texts.js';

describe('spreadSuffixes', () => {
  const clean = (id: string, prompt: readonly number[], answer: readonly number[]): Example => ({
    ...{ id, conversationId: id, tokens: Int32Array.from([...prompt, ...answer]) },
    isLearnt: Uint8Array.from([...prompt.map(() => 0), ...answer.map(() => 1)]),
  });
  const own = clean('own', [1, 5, 6, 90, 91], [7, 8]);
  const other = clean('other', [1, 20, 21, 22, 90, 91], [30, 31, 32]);
  const found: SuffixedPrompt = {
    ...{ prompt: 'own', objective: 'margin', suffixLength: 2, skipped: null, elapsedMs: 0 },
    texts: [{ promptIds: [1, 5, 6, 50, 51, 90, 91], answerIds: [7, 8], length: 1 }],
  };
  const options = { round: 1, maxTokens: 100, count: 8, seed: 0 };

  it('puts a suffix where it stands, behind other questions and before their answers', () => {
    const made = spreadSuffixes([found], [own, other], options);
    expect(made).toHaveLength(8);
    expect(new Set(made.map(({ id }) => id)).size).toBe(8);
    const texts = new Map(
      made.map(({ tokens, isLearnt }) => [[...tokens].join(' '), [...isLearnt].join('')]),
    );
    expect(texts).toEqual(
      new Map([
        ['1 20 21 22 50 51 90 91 30 31 32', '00000000111'],
        ['1 5 6 50 51 90 91 7 8', '000000011'],
      ]),
    );
    expect(spreadSuffixes([found], [own, other], options)).toEqual(made);
    expect(spreadSuffixes([found], [own, other], { ...options, round: 2 })).not.toEqual(made);
  });

  it('cuts long texts, and leaves out what has nothing to learn', () => {
    const made = spreadSuffixes([found], [own, other], { ...options, maxTokens: 8 });
    expect(made.length).toBeLessThan(8);
    for (const { id, tokens } of made) {
      expect(tokens).toHaveLength(8);
      expect(id.startsWith('own+')).toBe(true);
    }
  });

  it('passes over conversations of several turns, and suffixes of questions that are not learnt from', () => {
    const turns = {
      ...other,
      isLearnt: Uint8Array.from(other.isLearnt, (learnt, at) => +(learnt > 0 && at !== 7)),
    };
    for (const { id } of spreadSuffixes([found], [own, turns], options))
      expect(id.startsWith('own+')).toBe(true);
    expect(spreadSuffixes([found], [other], options)).toEqual([]);
    expect(spreadSuffixes([found], [own], { ...options, count: 0 })).toEqual([]);
  });
});
