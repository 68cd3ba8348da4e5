import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { bundledDrafterFolder, bundledTarget } from '../../src/core/package-files.js';
import { generateSpeculatively } from '../../src/decode/generate.js';
import { generateText } from '../../src/decode/generate.js';
import { openTarget } from '../../src/decode/target.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';

const temporary = makeTemporaryFolder();
const cacheFolder = join(temporary.path, 'cache');
afterAll(() => {
  temporary.remove();
});

const prompts = ['Write a short poem about a river.'];

interface Answers {
  readonly plain: readonly (readonly number[])[];
  readonly drafted: readonly (readonly number[])[];
  readonly acceptedLengths: readonly number[];
}

async function answer(runtime: Runtime): Promise<Answers> {
  try {
    const target = await openTarget(bundledTarget, { runtime, cacheFolder });
    const folder = bundledDrafterFolder('eagle3');
    const drafter = await loadDrafter(folder, { target: target.model, cacheFolder });
    const results = [];
    for (const prompt of prompts) {
      const plain = await generateText(target, prompt, { maxNewTokens: 24 });
      const drafted = await generateSpeculatively(target, drafter, prompt, {
        maxNewTokens: 24,
        policy: 'chain:3',
      });
      results.push({ plain, drafted });
    }
    return {
      plain: results.map(({ plain }) => plain.tokenIds),
      drafted: results.map(({ drafted }) => drafted.tokenIds),
      acceptedLengths: results.map(({ drafted }) => drafted.acceptance.accepted),
    };
  } finally {
    await runtime.dispose();
  }
}

describe('weights packed in the cache', () => {
  it('give the bundled target’s and a drafter’s tokens, as weights packed in memory and plain ones do', async () => {
    const countFiles = (): number =>
      readdirSync(cacheFolder).filter((name) => name.endsWith('.weights')).length;
    const inMemory = await answer(createOnnxRuntime({ threads: 1 }));
    const unpackedFiles = countFiles();
    const mapped = await answer(createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 }));
    expect(countFiles()).toBeGreaterThan(unpackedFiles);
    expect(mapped).toEqual(inMemory);
    const runtime = createOnnxRuntime({ threads: 1 });
    const plain = await answer({
      name: runtime.name,
      allocate: (...size) => runtime.allocate(...size),
      compile: (outputs, weights) => runtime.compile(outputs, weights),
      dispose: () => runtime.dispose(),
    });
    expect(mapped).toEqual(plain);
  });

  it('and the plain ones take at most three times the size of a 16-bit checkpoint', async () => {
    const folder = join(temporary.path, 'sizes');
    const runtime = createOnnxRuntime({ threads: 1, packedWeightLimitBytes: 0 });
    try {
      const target = await openTarget(bundledTarget, { runtime, cacheFolder: folder });
      await generateText(target, prompts[0]!, { maxNewTokens: 2 });
    } finally {
      await runtime.dispose();
    }
    const sizeOf = (path: string, ending: string): number =>
      readdirSync(path)
        .filter((name) => name.endsWith(ending))
        .reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
    expect(sizeOf(folder, '.weights')).toBeLessThan(3 * sizeOf(bundledTarget, '.safetensors'));
  });
});
