import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { roundToHalf } from '../../core/half-floats.js';
import { createRandom } from '../../core/random.js';
import type { StateStoreOptions } from './state-store.js';
import { StateStore } from './state-store.js';

const folder = makeTemporaryFolder();
afterAll(() => {
  folder.remove();
});
let count = 0;
const freshPath = (): string => join(folder.path, `states-${(count += 1)}.bin`);

const random = createRandom(4);
const randomStates = (length: number): Float32Array =>
  Float32Array.from({ length }, () => 20 * random.next() - 10);
const samples = ['a', 'bé', 'c'].map((id, index) => {
  const shape = [3 + index, 4] as const;
  return { id, shape, states: randomStates(shape[0] * shape[1]) };
});
const rounded = (states: Float32Array): Float32Array => states.map((value) => roundToHalf(value, 'float16'));

function withStore<Result>(
  path: string,
  use: (store: StateStore) => Result,
  options: Partial<StateStoreOptions> = {},
): Result {
  const store = StateStore.open(path, { limitBytes: 1e6, ...options });
  try {
    return use(store);
  } finally {
    store.close();
  }
}

const fill = (path: string): void => {
  withStore(path, (store) => {
    for (const { id, states, shape } of samples) store.put(id, states, shape);
  });
};

/** What the store gives for each sample: the right states, or nothing. */
const readBack = (path: string): readonly boolean[] =>
  withStore(path, (store) =>
    samples.map(({ id, states }) => {
      const found = store.get(id);
      if (found !== undefined) expect(found).toEqual(rounded(states));
      return found !== undefined;
    }),
  );

describe('the store of states', () => {
  it('gives back what put said, in the same process and in the next', () => {
    const path = freshPath();
    withStore(path, (store) => {
      for (const { id, states, shape } of samples) {
        expect(store.get(id)).toBeUndefined();
        expect(store.put(id, states, shape)).toEqual(rounded(states));
        expect(store.get(id)).toEqual(rounded(states));
      }
    });
    expect(readBack(path)).toEqual([true, true, true]);
  });

  it('writes an example once', () => {
    const path = freshPath();
    fill(path);
    const bytes = readFileSync(path);
    fill(path);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it('stays below its limit, says so once, and goes on with the same numbers', () => {
    const path = freshPath();
    fill(path);
    const full = statSync(path).size;
    for (const limitBytes of [0, full - 1, full]) {
      const own = freshPath();
      const notices: string[] = [];
      const options = { limitBytes, onNotice: (message: string) => notices.push(message) };
      withStore(
        own,
        (store) => {
          for (const { id, states, shape } of [...samples, ...samples])
            expect(store.put(id, states, shape)).toEqual(rounded(states));
        },
        options,
      );
      expect(notices.length).toBe(limitBytes < full ? 1 : 0);
      expect(notices.join()).toMatch(limitBytes < full ? /No more states are kept in .*limit/ : /^$/);
      expect(statSync(own).size).toBeLessThanOrEqual(limitBytes);
      expect(readBack(own)).toEqual([limitBytes > 0, limitBytes > 0, limitBytes === full]);
    }
  });

  it.each(['', '.jsonl'])('loses no more than what was torn of the file%s, and takes it again', (ending) => {
    const path = freshPath();
    fill(path);
    const files = [path, `${path}.jsonl`].map((file) => ({ file, bytes: readFileSync(file) }));
    const torn = `${path}${ending}`;
    let most = 0;
    for (let cut = 0; cut <= statSync(torn).size; cut++) {
      truncateSync(torn, cut);
      const found = readBack(path);
      const whole = found.filter(Boolean).length;
      expect(found).toEqual([0, 1, 2].map((index) => index < whole));
      expect(whole).toBeGreaterThanOrEqual(most);
      most = whole;
      fill(path);
      for (const { file, bytes } of files) expect(readFileSync(file).equals(bytes)).toBe(true);
    }
    expect(most).toBe(3);
  });

  it('leaves out what follows a damaged line', () => {
    const path = freshPath();
    fill(path);
    writeFileSync(`${path}.jsonl`, readFileSync(`${path}.jsonl`, 'utf8').replace('"bé",4', '"bé",-4'));
    expect(readBack(path)).toEqual([true, false, false]);
  });

  it('leaves states alone that float16 cannot hold', () => {
    const notices: string[] = [];
    const onNotice = (message: string): number => notices.push(message);
    withStore(
      freshPath(),
      (store) => {
        for (const value of [70_000, -1e9, NaN, Infinity]) {
          const states = Float32Array.of(1.0001, value);
          expect(store.put('large', states, [1, 2])).toBe(states);
          expect(store.get('large')).toBeUndefined();
        }
        expect(store.put('edge', Float32Array.of(65_504, 2 ** -24), [1, 2])).toEqual(
          Float32Array.of(65_504, 2 ** -24),
        );
        expect(store.has('edge')).toBe(true);
      },
      { onNotice },
    );
    expect(notices).toEqual([expect.stringContaining('do not fit float16')]);
  });

  it('refuses a folder that is not there', () => {
    const absent = join(folder.path, 'absent', 'states.bin');
    expect(() => StateStore.open(absent, { limitBytes: 1 })).toThrow(/states\.bin/);
  });
});
