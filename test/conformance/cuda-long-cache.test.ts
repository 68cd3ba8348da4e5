/** Keys and values of 32 layers and 8,192 positions are moved on a device: half a million rows in one copy. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { gatherCaches } from '../../src/model/cache/cache-pool.js';
import { KvCache } from '../../src/model/cache/kv-cache.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';

const sizes = { layerCount: 32, keyValueHeadCount: 1, headSize: 2 };
const slots = 2 * sizes.layerCount;
const positions = 8192;

describeEmulated('a long KV cache', () => {
  let runtime: Runtime | undefined;
  beforeAll(() => {
    runtime = createCudaRuntime(createEmulatedDevice());
  });
  afterAll(() => runtime?.dispose());

  /** The value of a row tells its slot and its position. */
  const valueAt = (slot: number, position: number): number => slot * positions + position;

  function fill(count: number): KvCache {
    const cache = new KvCache(sizes, runtime!);
    const rows = runtime!.allocate(slots * count, sizes.headSize);
    const values = new Float32Array(slots * count * sizes.headSize);
    for (let slot = 0; slot < slots; slot++)
      for (let position = 0; position < count; position++)
        values.fill(
          valueAt(slot, position),
          2 * (slot * count + position),
          2 * (slot * count + position + 1),
        );
    rows.write(values);
    cache.appendAll(rows, count);
    return cache;
  }

  it('is filled, forked, moved beside another and read back', async () => {
    const long = fill(positions);
    const fork = long.fork();
    const short = fill(3);
    // Both leave their pools: the fork copies all rows of its prefix.
    const pool = gatherCaches([fork, short]);
    expect(pool.lanes).toBe(2);
    for (const slot of [0, 1, slots - 1]) {
      const read = await fork.view(slot).buffer.read();
      expect(read).toHaveLength(sizes.headSize * (positions + 1));
      // The first row is the dummy.
      for (const position of [0, 1, 4095, positions - 1])
        expect(read[sizes.headSize * (position + 1)]).toBe(valueAt(slot, position));
    }
    expect((await short.view(slots - 1).buffer.read()).at(-1)).toBe(valueAt(slots - 1, 2));
  });
});
