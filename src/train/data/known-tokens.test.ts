import { expect, it } from 'vitest';
import { refuseUnknownTokens } from './examples.js';

const textOf = (id: string, ...tokens: number[]) => ({
  ...{ id, tokens: Int32Array.from(tokens), isLearnt: Uint8Array.from(tokens, () => 1) },
});

it('texts of known tokens pass, and the first that is of none is named', () => {
  const known = [textOf('a', 0, 23), textOf('b', 5)];
  expect(refuseUnknownTokens(known, 24, 'answers.jsonl')).toBe(known);
  expect(() => refuseUnknownTokens([...known, textOf('c', 1, 24)], 24, 'answers.jsonl')).toThrow(
    'answers.jsonl has the token 24 in the text c, but the target has 24 tokens.',
  );
  expect(() => refuseUnknownTokens([textOf('d', -1)], 24, 'x')).toThrow(/token -1 in the text d/);
});
