import { beforeAll, describe, expect, it } from 'vitest';
import { input } from '../../graph/tensor.js';
import { KvCache } from '../../model/cache/kv-cache.js';
import { type LaneProgram, type PassScheduler, compileLanes } from '../../model/lanes/lane-program.js';
import { lanes, row } from '../../model/lanes/lane-graph.js';
import { createRotary } from '../../model/rotary/rotary.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { type MixedValues, bufferOf, int32, integersOf, resident } from '../../runtime/program.js';
import { type RowBuffer, allocateHostRows, hostDataOf, HostRows } from '../../runtime/row-buffer.js';
import { DraftMemory } from './draft-memory.js';

const runtime = createInterpreter();
const sizes = { layerCount: 1, keyValueHeadCount: 1, headSize: 2 };
const rotary = createRotary({ headSize: 2, rotaryBase: 10_000, rotaryScaling: { kind: 'none' } });

/** Only handed on: what a run gives is the scheduler's affair. */
let program: LaneProgram;
beforeAll(async () => {
  program = await compileLanes(runtime, { rows: input('kept', [2, row, lanes, 1, 2]) }, []);
});

interface Reading {
  readonly tokens: readonly number[];
  readonly states: readonly number[];
  readonly selected: number;
  readonly past: number;
}

/** A memory whose runs are written down; rows that they leave in the cache are zeros. */
function startMemory(stateWidth: number, cache = new KvCache(sizes, runtime)) {
  const readings: Reading[] = [];
  const scheduler: PassScheduler = {
    isAlone: false,
    run(_, { inputs, cache: place }) {
      const tokens = [...integersOf(inputs, 'tokens')];
      readings.push({
        tokens,
        states: stateWidth === 0 ? [] : [...hostDataOf(bufferOf(inputs, 'states'))],
        selected: integersOf(inputs, 'select')[0]!,
        past: place!.length,
      });
      return Promise.resolve({
        rows: resident(allocateHostRows(2 * tokens.length, 2), [2, tokens.length, 1, 2]),
      });
    },
  };
  const inputsOf = (states: RowBuffer, tokens: Int32Array): MixedValues => ({
    tokens: int32(tokens),
    ...(stateWidth === 0 ? {} : { states: resident(states) }),
  });
  const memory = new DraftMemory({ cache, rotary, stateWidth, inputsOf, scheduler });
  return { memory, cache, readings };
}

const observed = (tokens: readonly number[], next: number, states: readonly number[] = []) => ({
  tokens: Int32Array.from(tokens),
  states: states.length === 0 ? undefined : new HostRows(Float32Array.from(states), 1),
  next,
});

describe('a memory of tokens alone', () => {
  it('begins with the first token and ends with the root', async () => {
    const { memory, readings } = startMemory(0);
    memory.observe(observed([5, 6, 7], 8));
    expect(memory.length).toBe(4);
    await memory.read(program, ['rows']);
    expect(readings).toEqual([{ tokens: [5, 6, 7, 8], states: [], selected: 3, past: 0 }]);
  });

  it('reads no token twice: a root that was read stays', async () => {
    const { memory, cache, readings } = startMemory(0);
    memory.observe(observed([5, 6], 7));
    await memory.read(program, ['rows']);
    memory.observe(observed([7, 8, 9], 4));
    await memory.read(program, ['rows']);
    expect(readings.map(({ tokens, past }) => ({ tokens, past }))).toEqual([
      { tokens: [5, 6, 7], past: 0 },
      { tokens: [8, 9, 4], past: 3 },
    ]);
    expect([cache.length, memory.length]).toEqual([6, 6]);
  });

  it('goes on behind a cache that holds what came before', async () => {
    const { memory, cache } = startMemory(0);
    memory.observe(observed([5, 6], 7));
    await memory.catchUp(program);
    expect(cache.length).toBe(2);
    const later = startMemory(0, cache);
    later.memory.observe(observed([7, 8], 9));
    await later.memory.catchUp(program);
    expect(later.readings).toEqual([{ tokens: [7, 8], states: [], selected: 1, past: 2 }]);
  });
});

describe('a memory of states', () => {
  it('pairs every state with the token behind it', async () => {
    const { memory, readings } = startMemory(1);
    memory.observe(observed([5, 6], 7, [50, 60]));
    memory.observe(observed([7], 8, [70]));
    await memory.read(program, ['rows']);
    expect(readings).toEqual([{ tokens: [6, 7, 8], states: [50, 60, 70], selected: 2, past: 0 }]);
  });

  it('leaves the newest row to the draft when it catches up', async () => {
    const { memory, readings } = startMemory(1);
    memory.observe(observed([5, 6], 7, [50, 60]));
    await memory.catchUp(program);
    expect(memory.length).toBe(2);
    await memory.read(program, ['rows']);
    expect(readings.map(({ tokens }) => tokens)).toEqual([[6], [7]]);
    await memory.catchUp(program);
    expect(readings).toHaveLength(2);
  });
});

describe('a long text', () => {
  it('is read in chunks, the last of which begins the draft', async () => {
    const { memory, readings } = startMemory(1);
    const tokens = Array.from({ length: 600 }, (_, at) => at);
    memory.observe(observed(tokens, 600, tokens));
    const finished: number[] = [];
    const last = await memory.read(program, [], (inputs, count) => {
      finished.push(count);
      return memory.run(program, { ...inputs, select: int32([count - 1]) }, ['rows']);
    });
    expect(readings.map(({ past, selected }) => [past, selected])).toEqual([
      [0, 255],
      [256, 255],
      [512, 87],
    ]);
    expect(readings.flatMap(({ states }) => states)).toEqual(tokens);
    expect(finished).toEqual([88]);
    expect(last.rows!.shape).toEqual([2, 88, 1, 2]);
  });

  it('is read before a draft, but for the newest rows, which the draft reads itself', async () => {
    const { memory, readings } = startMemory(1);
    const behind = (inputs: MixedValues): MixedValues => ({ ...inputs, select: int32([0]) });
    for (const count of [20, 8]) {
      const tokens = Array.from({ length: count }, (_, at) => at);
      memory.observe(observed(tokens, count, tokens));
      await memory.draft(program, program, [], behind);
    }
    expect(readings.map(({ past, tokens }) => [past, tokens.length])).toEqual([
      [0, 12],
      [12, 8],
      [20, 8],
    ]);
  });

  it('forgets the rows of the last tree before it reads on', async () => {
    const { memory, cache, readings } = startMemory(1);
    memory.observe(observed([5, 6], 7, [50, 60]));
    await memory.read(program, ['rows']);
    memory.attention.keepDrafted(allocateHostRows(4, 2), [1, 2]);
    expect([cache.length, memory.length]).toEqual([4, 2]);
    memory.observe(observed([7], 8, [70]));
    await memory.read(program, ['rows']);
    expect(readings.at(-1)!.past).toBe(2);
  });

  it('gives its lane back when it is closed', () => {
    const { memory, cache } = startMemory(1);
    memory.close();
    expect(cache.pool.owners).toEqual([undefined]);
  });
});
