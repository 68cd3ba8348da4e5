/** The bundled target as a GGUF file: its own answers from the types that hold its weights, near ones from quantized types. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import type { Target } from '../../src/decode/target.js';
import { encodePrompt, openTarget } from '../../src/decode/target.js';
import { generateText } from '../../src/decode/generate.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { describeTokenizer } from '../support/checkpoint/gguf-tokenizer.js';
import type { WritableType } from '../support/checkpoint/gguf-values.js';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { writeGguf } from '../support/checkpoint/write-gguf.js';
import { bundledCache, referenceTarget } from '../support/model-folders.js';

const temporary = makeTemporaryFolder();
const runtime = createOnnxRuntime({ threads: 1 });
afterAll(async () => {
  await runtime.dispose();
  temporary.remove();
});

const prompts = [
  'Write a Python function that returns the factorial of a number.',
  'A farmer has 17 sheep and buys 5 more. How many sheep does he have now?',
];
const metadata = describeTokenizer(referenceTarget, { kind: 'llama', ids: { bos: 1, eos: 2, unknown: 0 } });

async function openAs(type: WritableType, interleaves = true): Promise<Target> {
  const path = join(temporary.path, `${type}-${interleaves}.gguf`);
  await writeGguf(await openCheckpoint(referenceTarget), path, { type, metadata, interleaves });
  return openTarget(path, { runtime, cacheFolder: join(temporary.path, 'cache') });
}

const original = await openTarget(referenceTarget, { runtime, cacheFolder: bundledCache });
const expected: {
  readonly promptIds: number[];
  readonly tokenIds: readonly number[];
  readonly text: string;
}[] = [];
for (const prompt of prompts) {
  const promptIds = await encodePrompt(original, prompt);
  const { tokenIds, text } = await generateText(original, prompt, { maxNewTokens: 24 });
  expected.push({ promptIds, tokenIds, text });
}

/** The share of an answer's tokens that the target would choose too. */
async function agreement(target: Target): Promise<number> {
  let [same, total] = [0, 0];
  for (const { promptIds, tokenIds } of expected) {
    const tokens = Int32Array.from([...promptIds, ...tokenIds]);
    const cache = target.model.createCache();
    const { argmax } = await target.model.forward({ tokens, cache, want: ['argmax'] });
    tokenIds.forEach((id, index) => {
      same += argmax![promptIds.length - 1 + index] === id ? 1 : 0;
      total += 1;
    });
  }
  return same / total;
}

describe('the bundled target as GGUF', () => {
  it('in 32 bits gives its own prompts and answers', async () => {
    const target = await openAs('F32');
    for (const [index, prompt] of prompts.entries()) {
      expect(await encodePrompt(target, prompt)).toEqual(expected[index]!.promptIds);
      const { tokenIds, text } = await generateText(target, prompt, { maxNewTokens: 24 });
      expect({ tokenIds, text }).toEqual({
        tokenIds: expected[index]!.tokenIds,
        text: expected[index]!.text,
      });
    }
  });

  it('in 8 bits gives nearly its own answers', async () => {
    expect(await agreement(await openAs('Q8_0'))).toBeGreaterThan(0.95);
  });

  it('gives other answers if the order of queries and keys is not restored', async () => {
    expect(await agreement(await openAs('Q8_0', false))).toBeLessThan(0.6);
  });
});
