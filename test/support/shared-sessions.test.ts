import { afterAll, expect, it, vi } from 'vitest';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { findNativeApi } from '../../src/runtime/onnx/native-api.js';
import { tiny } from './tiny-checkpoints.js';
import { TinyModels } from './tiny-pair.js';

const api = findNativeApi();
afterAll(() => void vi.restoreAllMocks());

it.runIf(api !== undefined)('a second runtime takes the sessions that a first one had created', async () => {
  const created = vi.spyOn(api!.call, 'CreateSessionFromArray');
  const countCreated = (): number => created.mock.calls.length;
  // Sizes that no other test has.
  const sizes = { ...tiny, contextLength: 37, vocabularySize: 19 };
  const load = async (): Promise<void> => {
    const models = new TinyModels(sizes, createOnnxRuntime({ threads: 1 }));
    const { target } = await models.loadTarget();
    await target.prepare();
    await models.dispose();
  };
  await load();
  const atFirst = countCreated();
  expect(atFirst).toBeGreaterThan(0);
  await load();
  expect(countCreated()).toBe(atFirst);
});
