import { describe, expect, it } from 'vitest';
import { listPrompts, takeRound } from './hardening-rounds.js';
import type { Conversation } from '../data/conversations.js';
import type { Example } from '../data/examples.js';

describe('listPrompts', () => {
  const conversations = ['a', 'b', 'c', 'd', 'e', 'f'].map((id): Conversation => ({
    id,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: `What is ${id}?` },
      { role: 'assistant', content: 'A letter.' },
      { role: 'user', content: 'And then?' },
    ],
  }));
  const trainedOn = (ids: readonly string[]): Example[] =>
    ids.map((id) => ({
      ...{ id: `${id}/1`, conversationId: id },
      ...{ tokens: Int32Array.of(1), isLearnt: Uint8Array.of(1) },
    }));

  it('takes the first question of each conversation that is trained on, and of no other', () => {
    const prompts = listPrompts(conversations, trainedOn(['a', 'c', 'e']), 0);
    expect(new Set(prompts.map(({ text }) => text))).toEqual(
      new Set(['What is a?', 'What is c?', 'What is e?']),
    );
  });

  it('puts them into an order that follows from the seed', () => {
    const idsOf = (seed: number): string =>
      listPrompts(conversations, trainedOn(['a', 'b', 'c', 'd', 'e', 'f']), seed)
        .map(({ id }) => id)
        .join('');
    expect(idsOf(1)).toBe(idsOf(1));
    expect(new Set([0, 1, 2, 3, 4].map(idsOf)).size).toBeGreaterThan(1);
  });
});

describe('takeRound', () => {
  it('gives each round prompts of its own, and begins anew where there are too few', () => {
    const prompts = ['a', 'b', 'c', 'd', 'e'];
    expect([0, 1, 2].map((round) => takeRound(prompts, round, 2))).toEqual([
      ...[
        ['a', 'b'],
        ['c', 'd'],
        ['e', 'a'],
      ],
    ]);
    expect(takeRound(prompts, 1, 9)).toEqual(prompts);
  });
});
