import { afterAll, describe, expect, it } from 'vitest';
import { input } from '../../graph/tensor.js';
import { type NamedValues, float32 } from '../../runtime/program.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import { readScores, repeatRow, scoreNames, scoreOutputs } from './scores.js';
import { type ScoreDetail, detailFor } from '../tree/draft-scores.js';

const runtime = createOnnxRuntime({ threads: 1 });
afterAll(() => runtime.dispose());

const logits = [
  [0.1, 2, -1, 0.5],
  [3, -2, 1, 0],
];

async function run(rows: readonly (readonly number[])[], want: ScoreDetail): Promise<NamedValues> {
  const width = rows[0]!.length;
  const program = await runtime.compile(scoreOutputs(input('x', [rows.length, width])));
  return program.run({ x: float32(Float32Array.from(rows.flat()), [rows.length, width]) }, scoreNames(want));
}

function logSoftmax(row: readonly number[], token: number): number {
  return row[token]! - Math.log(row.reduce((total, logit) => total + Math.exp(logit), 0));
}

describe('readScores', () => {
  const same = { targetSize: 4, draftSize: 4 };
  const mapped = { targetSize: 9, draftSize: 4, targetTokens: Int32Array.of(1, 4, 5, 8) };

  it('ranks the tokens of every row with their log-probabilities', async () => {
    const scores = readScores(await run(logits, 'top'), 'top', same);
    const best = scores.top(1, 3);
    expect([...Array.from(best.tokens)]).toEqual([0, 2, 3]);
    [0, 2, 3].forEach((token, rank) => {
      expect(best.logProbabilities[rank]).toBeCloseTo(logSoftmax(logits[1]!, token), 5);
    });
    expect(Array.from(scores.top(0, 1).tokens)).toEqual([1]);
  });

  it('gives no more tokens than there are', async () => {
    const scores = readScores(await run(logits, 'top'), 'top', same);
    expect(scores.top(0, 7).tokens).toHaveLength(4);
  });

  it("speaks of the target's tokens where the drafter has its own", async () => {
    const scores = readScores(await run(logits, 'logits'), 'logits', mapped);
    expect(Array.from(scores.top(0, 4).tokens)).toEqual([4, 8, 1, 5]);
    const row = scores.logits(0);
    expect(row).toHaveLength(9);
    [1, 4, 5, 8].forEach((token, draft) => {
      expect(row[token]).toBeCloseTo(logits[0]![draft]!, 6);
    });
    expect([0, 2, 3, 6, 7].map((token) => row[token])).toEqual(Array<number>(5).fill(-Infinity));
  });

  it('ranks beyond ten from whole rows, which must be asked for', async () => {
    const wide = [Array.from({ length: 16 }, (_, token) => ((token * 7) % 16) / 4)];
    const sizes = {
      targetSize: 20,
      draftSize: 16,
      targetTokens: Int32Array.from({ length: 16 }, (_, t) => t + 4),
    };
    expect(detailFor(10)).toBe('top');
    expect(detailFor(11)).toBe('logits');
    const whole = readScores(await run(wide, 'logits'), 'logits', sizes);
    const short = whole.top(0, 10);
    const long = whole.top(0, 13);
    expect(Array.from(long.tokens).slice(0, 10)).toEqual(Array.from(short.tokens));
    expect(long.tokens).toHaveLength(13);
    Array.from(long.tokens).forEach((token, rank) => {
      expect(long.logProbabilities[rank]).toBeCloseTo(logSoftmax(wide[0]!, token - 4), 5);
    });
    const top = readScores(await run(wide, 'top'), 'top', sizes);
    expect(() => top.top(0, 13)).toThrow('not asked for');
    expect(() => top.logits(0)).toThrow('not asked for');
  });

  it.each([Number.NaN, Infinity])('refuses scores that hold %s', async (wrong) => {
    const outputs = await run([logits[0]!, [0, wrong, 1, 2]], 'top');
    expect(() => readScores(outputs, 'top', same)).toThrow('finite ones were expected');
  });

  it('repeats one row for nodes that share it', async () => {
    const scores = repeatRow(readScores(await run(logits, 'logits'), 'logits', same), 1, runtime);
    expect(Array.from(scores.top(5, 2).tokens)).toEqual([0, 2]);
    expect(scores.logits(3)[0]).toBe(3);
  });
});
