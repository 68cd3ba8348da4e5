import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { decodePlain } from '../../src/decode/plain.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { writeDecoder } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

it('a cache folder may be named relative to where the command runs', async () => {
  const folder = writeDecoder(join(temporary.path, 'target'));
  const cache = join(temporary.path, 'cache');
  const model = await loadModel(folder, { runtime, cacheFolder: relative(process.cwd(), cache) });
  expect(existsSync(cache)).toBe(true);
  const request = {
    promptIds: [1, 2, 3],
    maxNewTokens: 4,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: [],
  };
  expect((await decodePlain(model, request)).tokenIds).toHaveLength(4);
});
