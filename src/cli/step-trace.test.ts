import { describe, expect, it } from 'vitest';
import { chainTree, joinTrees } from '../draft/tree/token-tree.js';
import type { StepTrace } from '../decode/request.js';
import { formatStep, serializeStep } from './step-trace.js';

const law = Float32Array.of(0.5, 0.5);
const certain = chainTree(0, [1, 2]);
const drawn = chainTree(0, [1, 3, 4], [law, law, law]);
const times = { draftMs: 1.26, readMs: 12, judgeMs: 0.04 };
const joined: StepTrace = {
  ...{ tree: joinTrees([certain, drawn, chainTree(0, [5])]), verdict: { path: [1, 3], nextToken: 6 } },
  ...times,
};
const tokenizer = { tokenText: (id: number) => ['def', '▁re', '"', 'verse', '\n', 'x', '\u001b[2J'][id]! };

describe('a traced step', () => {
  it('shows paths, what was drawn, what was accepted, and times', () => {
    expect(formatStep(7, joined, tokenizer)).toBe(
      [
        'step 7 "def": 2 of 5, then "\\u001b[2J" · draft 1.3 read 12.0 judge 0.0 ms',
        '  +"▁re"~ -"\\""',
        '    +"verse"~ -"\\n"~',
        '  -"x"',
        '',
      ].join('\n'),
    );
  });

  it('shows a step without a draft', () => {
    const plain: StepTrace = { tree: chainTree(0, []), verdict: { path: [], nextToken: 3 }, ...times };
    expect(formatStep(1, plain, tokenizer)).toBe(
      'step 1 "def": no draft, then "verse" · draft 1.3 read 12.0 judge 0.0 ms\n',
    );
  });

  it('fits 80 columns', () => {
    const long = { tokenText: () => 'a token of many letters' };
    const lines = formatStep(1000, joined, long).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBe(80);
    expect(lines[0]).toMatch(/…$/);
  });

  it('is one JSON object', () => {
    expect(JSON.parse(serializeStep('a', 7, joined, tokenizer))).toEqual({
      ...{ id: 'a', step: 7, tokenIds: [0, 1, 2, 3, 4, 5], parents: [-1, 0, 1, 1, 3, 0] },
      ...{ texts: ['def', '▁re', '"', 'verse', '\n', 'x'], drawn: [1, 3, 4], accepted: [1, 3] },
      ...{ nextTokenId: 6, ...times },
    });
  });
});
