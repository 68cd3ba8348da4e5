import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import { keptSlots, ParameterBuffers, slotName } from './adamw.js';
import { freshProgress, loadState, saveState } from './training-state.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
const path = join(temporary.path, 'state.safetensors');
const progress = { update: 3, best: { update: 2, length: 1.75 }, sinceBest: 1, elapsedMs: 12.5 };
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

describe('a saved state', () => {
  it('comes back as it was', async () => {
    const values = new Map([['parameter.w', Float32Array.of(1, -2, 1e-30)]]);
    await saveState(path, { progress, values });
    expect(await loadState(path)).toEqual({ progress, values });
    expect(await loadState(join(temporary.path, 'none'))).toBeUndefined();
  });

  it.each([
    [{ ...progress, update: -1 }, /progress is wrong at "update", .*\.$/],
    [{ ...progress, more: 1 }, /progress is wrong, Unrecognized key: "more"\.$/],
    [{ ...progress, best: { update: 1 } }, /progress is wrong at "best\.length", /],
  ])('is refused in one sentence where its progress is none: %j', async (wrong, sentence) => {
    await saveState(path, { progress: wrong as typeof progress, values: new Map() });
    const refusal = await loadState(path).catch((cause: unknown) => cause as Error);
    expect((refusal as Error).message).toMatch(sentence);
    expect((refusal as Error).message).not.toContain('\n');
  });

  it('is refused where it is something else', async () => {
    writeFileSync(path, 'no state');
    await expect(loadState(path)).rejects.toThrow(/cannot be resumed/);
    await saveState(path, { progress: freshProgress, values: new Map() });
    expect((await loadState(path))?.progress).toEqual(freshProgress);
  });
});

describe('restoring it', () => {
  let buffers: ParameterBuffers;
  beforeAll(() => {
    buffers = new ParameterBuffers(runtime, new Map([['w', [2, 3]]]));
  });
  afterAll(() => {
    buffers.free();
  });
  const state = (): Map<string, Float32Array> =>
    new Map(keptSlots.map((slot, index) => [slotName(slot, 'w'), new Float32Array(6).fill(index + 1)]));

  it('takes values and both moments', async () => {
    buffers.restore(state());
    expect(await buffers.read()).toEqual(state());
  });

  it.each(keptSlots)('refuses a state without %s, and leaves what was there', async (slot) => {
    buffers.restore(state());
    const half = new Map([...state()].map(([name, data]) => [name, data.map(() => 9)]));
    half.delete(slotName(slot, 'w'));
    expect(() => {
      buffers.restore(half);
    }).toThrow(`The saved state has no values for "${slot}.w".`);
    expect(await buffers.read()).toEqual(state());
  });
});
