import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { AnsweredConversation } from './answers-file.js';
import type { Example } from './examples.js';
import { createExamples, splitExamples } from './examples.js';

type Turn = readonly [kept: number, prompt: readonly number[], answer: readonly number[]];

const conversation = (id: string, ...turns: readonly Turn[]): AnsweredConversation => ({
  id,
  cut: false,
  turns: turns.map(([kept, prompt, answer]) => ({
    ...{ kept, prompt: Int32Array.from(prompt), answer: Int32Array.from(answer), ended: 'stop' },
  })),
});

const show = ({ id, tokens, isLearnt }: Example) => [id, Array.from(tokens).join(' '), isLearnt.join('')];

describe('examples of conversations', () => {
  it('learn the answers and read the prompts', () => {
    const { examples, counts } = createExamples(
      [conversation('a', [0, [1, 2], [3, 4]], [4, [5], [6]]), conversation('b', [0, [7], [8]])],
      { maxTokens: 99 },
    );
    expect(examples.map(show)).toEqual([
      ['a', '1 2 3 4 5 6', '001101'],
      ['b', '7 8', '01'],
    ]);
    expect(counts).toEqual({ examples: 2, tokens: 8, learntTokens: 4, cut: 0, withoutLearnt: 0 });
  });

  it('begin anew where a prompt leaves what was said, and learn no answer twice', () => {
    const { examples } = createExamples(
      [conversation('a', [0, [1, 2], [3, 4]], [3, [9], [6]], [5, [7], [8]], [2, [5], [5]])],
      { maxTokens: 99 },
    );
    expect(examples.map(show)).toEqual([
      ['a', '1 2 3 4', '0011'],
      ['a#2', '1 2 3 9 6 7 8', '0000101'],
      ['a#3', '1 2 5 5', '0001'],
    ]);
    expect(new Set(examples.map(({ conversationId }) => conversationId))).toEqual(new Set(['a']));
  });

  it('are cut at their end, and left out where nothing is learnt', () => {
    const { examples, counts } = createExamples(
      [
        conversation('cut in an answer', [0, [1, 2], [3, 4, 5, 6]]),
        conversation('cut in a prompt', [0, [1], [2]], [2, [3, 4, 5], [6]]),
        conversation('cut before all', [0, [1, 2, 3, 4, 5], [6]]),
        conversation('empty'),
        conversation('as long as may be', [0, [1], [2, 3, 4]]),
      ],
      { maxTokens: 4 },
    );
    expect(examples.map(show)).toEqual([
      ['cut in an answer', '1 2 3 4', '0011'],
      ['cut in a prompt', '1 2', '01'],
      ['as long as may be', '1 2 3 4', '0111'],
    ]);
    expect(counts).toEqual({ examples: 3, tokens: 10, learntTokens: 6, cut: 3, withoutLearnt: 2 });
  });

  it('refuse an id that is there twice', () => {
    const twice = [conversation('a', [0, [1], [2]]), conversation('a', [0, [1], [2]])];
    expect(() => createExamples(twice, { maxTokens: 9 })).toThrow(/Two examples have the id a/);
  });
});

describe('the split', () => {
  const examples = Array.from({ length: 400 }, (_, index): Example => ({
    id: `e${index}`,
    tokens: Int32Array.of(1, 2),
    isLearnt: Uint8Array.of(0, 1),
    conversationId: `c${index >> 1}`,
  }));
  const idsOf = (list: readonly Example[]): string[] => list.map(({ id }) => id);

  it('is the same in whatever order examples come', () => {
    const shuffled = [...examples];
    createRandom(5).shuffle(shuffled);
    expect(idsOf(shuffled)).not.toEqual(idsOf(examples));
    for (const validation of [0, 0.1, 25])
      expect(splitExamples(shuffled, { validation, seed: 1 })).toEqual(
        splitExamples(examples, { validation, seed: 1 }),
      );
  });

  it('keeps conversations whole, and every example once', () => {
    const { training, validation } = splitExamples(examples, { validation: 25, seed: 1 });
    expect(validation).toHaveLength(50);
    expect([...idsOf(training), ...idsOf(validation)].sort()).toEqual(idsOf(examples).sort());
    const groups = (list: readonly Example[]) => new Set(list.map(({ conversationId }) => conversationId));
    expect([...groups(training)].filter((group) => groups(validation).has(group))).toEqual([]);
  });

  it('holds out about the share asked for, another with another seed', () => {
    const held = splitExamples(examples, { validation: 0.1, seed: 1 }).validation;
    expect(held.length).toBeGreaterThan(10);
    expect(held.length).toBeLessThan(90);
    expect(idsOf(splitExamples(examples, { validation: 0.1, seed: 2 }).validation)).not.toEqual(idsOf(held));
    expect(splitExamples(examples, { validation: 0, seed: 1 }).validation).toEqual([]);
    expect(splitExamples(examples, { validation: 1e-9, seed: 1 }).validation).toHaveLength(2);
  });

  it('leaves what was held out by share where it was when data is added', () => {
    const few = splitExamples(examples.slice(0, 200), { validation: 0.1, seed: 1 });
    const all = splitExamples(examples, { validation: 0.1, seed: 1 });
    const held = new Set(idsOf(all.validation));
    expect(idsOf(few.validation).filter((id) => !held.has(id))).toEqual([]);
    expect(idsOf(few.training).filter((id) => held.has(id))).toEqual([]);
  });

  it('refuses what leaves nothing to train on', () => {
    expect(() => splitExamples(examples, { validation: 200, seed: 1 })).toThrow(/none would be left/);
  });
});
