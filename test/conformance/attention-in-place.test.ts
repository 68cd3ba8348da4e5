import { afterAll, describe, expect, it } from 'vitest';
import { prefill } from '../../src/decode/prompt-reading.js';
import { bundledTarget } from '../../src/core/package-files.js';
import { symbol } from '../../src/graph/dimension.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { input } from '../../src/graph/tensor.js';
import { type CausalModel, loadModel } from '../../src/model/causal-model.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import { float32, resident } from '../../src/runtime/program.js';
import { createInterpreter } from '../oracle/interpreter.js';

const native = createOnnxRuntime({ threads: 1 });
const script = createOnnxRuntime({ threads: 1, binding: 'script' });
afterAll(() => Promise.all([native.dispose(), script.dispose()]));

const numbers = (count: number, seed: number): Float32Array =>
  Float32Array.from({ length: count }, (_, index) => Math.sin(1 + index * seed));

describe.skipIf(native.attendsInPlace?.(8) !== true)('attention in place', () => {
  const [heads, keyValueHeads, size, room] = [4, 2, 8, 16];
  const row = symbol('row');
  const side = (name: string) => input(name, [1, keyValueHeads, symbol('room'), size]);
  const own = (name: string) => input(name, [1, row, keyValueHeads, size]);
  const angles = (name: string) => input(name, [row, size / 2]);
  const graph = {
    mixed: attention(
      rotate(input('queries', [1, row, heads, size]), angles('cosine'), angles('sine')),
      [
        { kind: 'cache', keys: side('pastKeys'), values: side('pastValues') },
        { kind: 'own', keys: own('keys'), values: own('values') },
      ],
      input('mask', [1, 1, row, symbol('seen')]),
      { heads, keyValueHeads, scale: 0.3 },
    ),
  };

  it.each([1, 3])('sees what it means, and writes %i rows behind the past', async (rows) => {
    const past = 5;
    const mask = new Float32Array(rows * (past + rows));
    for (let at = 0; at < rows; at++)
      mask.fill(-1e30, at * (past + rows) + past + at + 1, (at + 1) * (past + rows));
    mask[2] = -1e30;
    const caches = [0.3, 0.7].map((seed) => {
      const buffer = native.allocate(keyValueHeads * room, size);
      buffer.write(numbers(keyValueHeads * room * size, seed));
      return buffer;
    });
    const rest = {
      queries: float32(numbers(rows * heads * size, 0.2), [1, rows, heads, size]),
      cosine: float32(numbers((rows * size) / 2, 0.4), [rows, size / 2]),
      sine: float32(numbers((rows * size) / 2, 0.6), [rows, size / 2]),
      keys: float32(numbers(rows * keyValueHeads * size, 0.5), [1, rows, keyValueHeads, size]),
      values: float32(numbers(rows * keyValueHeads * size, 0.9), [1, rows, keyValueHeads, size]),
      mask: float32(mask, [1, 1, rows, past + rows]),
    };
    const shape = [1, keyValueHeads, room, size];
    const before = await Promise.all(caches.map((cache) => cache.read()));
    const oracle = await createInterpreter().compile(graph);
    const expected = await oracle.run({
      ...rest,
      pastKeys: float32(before[0]!, shape),
      pastValues: float32(before[1]!, shape),
    });
    const program = await native.compile(graph);
    const given = { ...rest, pastKeys: resident(caches[0]!, shape), pastValues: resident(caches[1]!, shape) };
    const { mixed } = await program.run(given);
    mixed!.data.forEach((value, index) => {
      expect(value).toBeCloseTo(expected.mixed!.data[index]!, 5);
    });
    for (const [index, name] of (['keys', 'values'] as const).entries()) {
      const after = await caches[index]!.read();
      for (let head = 0; head < keyValueHeads; head++) {
        for (let at = 0; at < rows; at++) {
          const place = (head * room + past + at) * size;
          const from = (at * keyValueHeads + head) * size;
          expect(after.slice(place, place + size)).toEqual(rest[name].data.slice(from, from + size));
        }
      }
    }
  });

  it('gives the answers of onnxruntime-node, after rejected rows too', async () => {
    const models = await Promise.all(
      [native, script].map((runtime) => loadModel(bundledTarget, { runtime })),
    );
    const decode = async (model: CausalModel): Promise<readonly number[]> => {
      const cache = model.createCache();
      const prompt = Array.from({ length: 40 }, (_, index) => 300 + index * 7);
      let token = (await prefill(model, cache, prompt, { want: ['argmax'] }))!.argmax!.at(-1)!;
      const answer = [token];
      for (let step = 0; step < 30; step++) {
        // Two wrong branches beside the token, of which every third step keeps one for a while.
        const parents = Int32Array.of(-1, -1, 1);
        const tokens = Int32Array.of(900 + step, token, 901 + step);
        const { rows, argmax } = await model.forward({ tokens, cache, parents, want: ['argmax'] });
        cache.append(rows, step % 3 === 0 ? [1, 2] : [1]);
        if (step % 3 === 0) cache.truncate(cache.length - 1);
        answer.push((token = argmax![1]!));
      }
      return answer;
    };
    expect(await decode(models[0]!)).toEqual(await decode(models[1]!));
  });
});
