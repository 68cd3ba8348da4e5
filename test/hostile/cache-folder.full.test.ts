/** A cache folder with tens of thousands of files that are not weights. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { verifyCache } from '../../src/checkpoint/cache/cache-contents.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { run } from '../../src/cli/program.js';
import { loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { writeDecoder } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

it('is used, verified and cleared', async () => {
  const cacheFolder = join(temporary.path, 'cache');
  mkdirSync(cacheFolder);
  for (let index = 0; index < 40_000; index += 1) {
    const name = index % 2 === 0 ? `${index}.txt` : `${index.toString(16).padStart(32, '0')}.hash.json`;
    writeFileSync(join(cacheFolder, name), '');
  }
  const target = writeDecoder(join(temporary.path, 'target'));
  const runtime = createOnnxRuntime({ threads: 1 });
  const notices: string[] = [];
  const onNotice = (message: string) => notices.push(message);
  await loadModel(target, { runtime, cacheFolder, onNotice, cacheLimitBytes: 1e9 });
  await runtime.dispose();
  expect(notices).toEqual([]);
  expect((await verifyCache(cacheFolder)).map(({ result }) => result)).toEqual(['whole']);
  expect(await run(['cache', 'clear', '--cache-dir', cacheFolder], createFakeTerminal())).toBe(0);
  expect(readdirSync(cacheFolder).filter((name) => name.endsWith('.txt'))).toHaveLength(20_000);
  expect(readdirSync(cacheFolder).filter((name) => name.endsWith('.hash.json'))).toHaveLength(0);
});
