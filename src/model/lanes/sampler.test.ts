import { afterAll, describe, expect, it } from 'vitest';
import { createRandom, drawWithoutReplacement } from '../../core/random.js';
import { type SamplingOptions, toDistribution } from '../../core/sampling.js';
import { createOnnxRuntime } from '../../runtime/onnx/onnx-runtime.js';
import { runDirectly } from './lane-program.js';
import { Sampler, type Vocabularies } from './sampler.js';

const runtime = createOnnxRuntime({ threads: 1 });
afterAll(() => runtime.dispose());

const rowCount = 12;
const whole: Vocabularies = { targetSize: 40, draftSize: 40 };
const some: Vocabularies = {
  targetSize: 40,
  draftSize: 7,
  targetTokens: Int32Array.of(3, 4, 9, 17, 22, 31, 39),
};
const samplings: readonly SamplingOptions[] = [
  { temperature: 1 },
  { temperature: 0.6, topP: 0.8 },
  { temperature: 1.5, topK: 3 },
  { temperature: 1e-3 },
];

describe.each([
  ['all tokens of the target', whole],
  ['some of them', some],
])('drawing without replacement from scores of %s', (_, vocabularies) => {
  const sampler = new Sampler(runtime, vocabularies);

  it.each(samplings)('gives the tokens and distributions of the host: %j', async (sampling) => {
    const { draftSize, targetSize, targetTokens } = vocabularies;
    const random = createRandom('scores', JSON.stringify(sampling));
    const scores = Float32Array.from({ length: rowCount * draftSize }, () => 6 * random.next());
    const counts = Array.from({ length: rowCount }, (_, row) => 1 + (row % 6));
    const rows = runtime.allocate(rowCount, draftSize);
    rows.write(scores);
    const [device, host] = [createRandom('siblings'), createRandom('siblings')];
    const uniforms = counts.map((length) => Array.from({ length }, () => device.next()));
    const { tokens, distributions, totals } = await sampler.draw(rows, uniforms, sampling, runDirectly);
    const drawn = await distributions.read();
    let missing = 0;
    counts.forEach((count, row) => {
      const own = scores.subarray(row * draftSize, (row + 1) * draftSize);
      const logits = new Float32Array(targetSize).fill(-Infinity);
      own.forEach((score, token) => (logits[targetTokens?.[token] ?? token] = score));
      const law = toDistribution(logits, sampling);
      const expected = drawWithoutReplacement(law, count, host);
      missing += count - expected.length;
      expect(Array.from(tokens[row]!)).toEqual(expected);
      law.forEach((probability, token) => {
        expect(drawn[row * targetSize + token]).toBeCloseTo(probability, 6);
      });
      expect(totals[row]).toBeCloseTo(
        own.reduce((total, score) => total + score, 0),
        3,
      );
    });
    // Fewer are possible than asked for, and the next row still gets its own random numbers.
    if (sampling.topK === 3) expect(missing).toBeGreaterThan(0);
  });
});
