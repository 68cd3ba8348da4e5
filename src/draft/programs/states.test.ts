import { describe, expect, it } from 'vitest';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { hostDataOf, HostRows } from '../../runtime/row-buffer.js';
import { PendingStates } from './states.js';

const width = 2;
const runtime = createInterpreter();

/** Rows whose values say which they are. */
function verified(first: number, tokens: readonly number[], next: number) {
  const states = Float32Array.from(tokens.flatMap((_, row) => [first + row, -(first + row)]));
  return { tokens: Int32Array.from(tokens), states: new HostRows(states, width), next };
}

async function drainAll(pending: PendingStates, chunk: number) {
  const chunks: { states: number[]; next: number[] }[] = [];
  await pending.drain(chunk, (states, next) => {
    chunks.push({ states: [...hostDataOf(states)], next: [...next] });
    return Promise.resolve();
  });
  return chunks;
}

describe('PendingStates', () => {
  it('pairs every state with the token behind it, across pushes', async () => {
    const pending = new PendingStates(runtime, width);
    pending.push(verified(0, [10, 11], 12));
    pending.push(verified(2, [12], 13));
    expect(pending.count).toBe(3);
    expect(await drainAll(pending, 10)).toEqual([{ states: [0, -0, 1, -1, 2, -2], next: [11, 12, 13] }]);
    expect(pending.count).toBe(0);
  });

  it('hands rows over in chunks, oldest first, and starts anew afterwards', async () => {
    const pending = new PendingStates(runtime, width);
    for (let row = 0; row < 5; row++) pending.push(verified(row, [row], row + 1));
    const chunks = await drainAll(pending, 2);
    expect(chunks.map(({ next }) => next)).toEqual([[1, 2], [3, 4], [5]]);
    expect(chunks.map(({ states }) => states[0])).toEqual([0, 2, 4]);
    pending.push(verified(9, [9], 10));
    expect(await drainAll(pending, 2)).toEqual([{ states: [9, -9], next: [10] }]);
  });

  it('leaves the newest rows where that is asked for', async () => {
    const pending = new PendingStates(runtime, width);
    for (let row = 0; row < 5; row++) pending.push(verified(row, [row], row + 1));
    const seen: number[] = [];
    await pending.drain(
      2,
      (_, next) => {
        seen.push(...next);
        return Promise.resolve();
      },
      1,
    );
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(await drainAll(pending, 2)).toEqual([{ states: [4, -4], next: [5] }]);
    await pending.drain(2, () => Promise.reject(new Error('there is nothing to read')), 1);
  });

  it('gives the newest state alone', () => {
    const pending = new PendingStates(runtime, width);
    pending.push(verified(0, [1, 2, 3], 4));
    pending.push(verified(3, [4], 5));
    expect([...hostDataOf(pending.takeLast())]).toEqual([3, -3]);
    expect(pending.count).toBe(0);
  });

  it('keeps its own copy of what it is given', async () => {
    const pending = new PendingStates(runtime, width);
    const rows = verified(0, [1], 2);
    pending.push(rows);
    rows.states.data.fill(99);
    expect(await drainAll(pending, 1)).toEqual([{ states: [0, -0], next: [2] }]);
  });

  it('takes no token where there is no state', async () => {
    const pending = new PendingStates(runtime, width);
    pending.push(verified(0, [], 7));
    expect(pending.count).toBe(0);
    expect(await drainAll(pending, 4)).toEqual([]);
  });
});
