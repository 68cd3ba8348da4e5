import { describe, expect, it } from 'vitest';
import { KvCache } from '../../model/cache/kv-cache.js';
import { createRotary } from '../../model/rotary/rotary.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import type { NamedValues } from '../../runtime/program.js';
import { floatsOf } from '../../runtime/program.js';
import { hostDataOf, HostRows } from '../../runtime/row-buffer.js';
import { DraftAttention } from './draft-memory.js';

const sizes = { layerCount: 1, keyValueHeadCount: 1, headSize: 2 };
const rotary = createRotary({ headSize: 2, rotaryBase: 10_000, rotaryScaling: { kind: 'none' } });

/** Keys and values that carry the row's number. [slot, row, head, size] */
function rows(...numbers: number[]): HostRows {
  const keys = numbers.flatMap((number) => [number, number]);
  return new HostRows(Float32Array.from([...keys, ...keys.map((value) => -value)]), sizes.headSize);
}

function start(verified: number) {
  const cache = new KvCache(sizes, createInterpreter());
  const attention = new DraftAttention(cache, rotary);
  const numbers = Array.from({ length: verified }, (_, row) => row);
  attention.keepVerified(rows(...numbers), verified);
  return { cache, attention };
}

/** Columns that each row sees, the dummy in column 0. */
function visible(inputs: NamedValues): number[][] {
  const [count, width] = inputs.mask!.shape as [number, number];
  const mask = floatsOf(inputs, 'mask');
  return Array.from({ length: count }, (_, row) =>
    Array.from({ length: width }, (_, column) => column).filter((column) => mask[row * width + column] === 0),
  );
}

function positions(inputs: NamedValues): number[] {
  const angles = [...floatsOf(inputs, 'sine')];
  return angles.map((sine) => [...Array(20).keys()].find((at) => Math.abs(Math.sin(at) - sine) < 1e-6)!);
}

/** A root with the children 1 and 2; 3 and 4 below 1, 5 below 2. */
const draft = {
  tokens: [7, 1, 2, 3, 4, 5],
  parents: [-1, 0, 0, 1, 1, 2],
  depths: [0, 1, 1, 2, 2, 2],
};

describe('DraftAttention', () => {
  it('shows verified rows the past and each other in order', () => {
    const { attention } = start(2);
    const inputs = attention.verifiedInputs(3);
    expect(visible(inputs)).toEqual([
      [1, 2, 3],
      [1, 2, 3, 4],
      [1, 2, 3, 4, 5],
    ]);
    expect(positions(inputs)).toEqual([2, 3, 4]);
  });

  it('shows a drafted node the verified rows, its drafted ancestors and itself', () => {
    const { attention } = start(3);
    const first = attention.draftedInputs(draft, [1, 2], 0);
    expect(visible(first)).toEqual([
      [1, 2, 3, 4],
      [1, 2, 3, 5],
    ]);
    expect(positions(first)).toEqual([3, 3]);
    attention.keepDrafted(rows(11, 12), [1, 2]);
    const second = attention.draftedInputs(draft, [5, 3, 4], 1);
    expect(visible(second)).toEqual([
      [1, 2, 3, 5, 6],
      [1, 2, 3, 4, 7],
      [1, 2, 3, 4, 8],
    ]);
    expect(positions(second)).toEqual([4, 4, 4]);
    expect(attention.verifiedLength).toBe(3);
  });

  it('forgets a tree and keeps what was verified', () => {
    const { attention, cache } = start(2);
    attention.keepDrafted(rows(11, 12), [1, 2]);
    expect(cache.length).toBe(4);
    attention.reset();
    expect(cache.length).toBe(2);
    attention.keepVerified(rows(2), 1);
    expect(attention.verifiedLength).toBe(3);
    const keys = hostDataOf(cache.view(0).buffer);
    expect([...keys.subarray(2)]).toEqual([0, 0, 1, 1, 2, 2]);
    expect(visible(attention.draftedInputs(draft, [1], 0))).toEqual([[1, 2, 3, 4]]);
  });
});
