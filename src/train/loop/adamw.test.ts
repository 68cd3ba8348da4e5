import { afterAll, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { createInterpreter } from '../../../test/oracle/interpreter.js';
import { floatsOf } from '../../runtime/program.js';
import type { AdamOptions } from './adamw.js';
import { allSlots, buildUpdate, keptSlots, ParameterBuffers, slotName, updateInputs } from './adamw.js';
import { learningRate } from './training-loop.js';

const runtime = createInterpreter();
afterAll(() => runtime.dispose());

const shapes = new Map([
  ['matrix', [3, 4]],
  ['vector', [5]],
]);
const sizes: Readonly<Record<string, number>> = { matrix: 12, vector: 5 };

/** The same in double precision, written out. */
function updateByHand(
  slots: Record<string, Float64Array>,
  gradients: Record<string, Float64Array>,
  { rate, update, options }: { rate: number; update: number; options: AdamOptions },
): number {
  const norm = Math.hypot(...Object.values(gradients).flatMap((values) => [...values]));
  const scale = Math.min(1, options.clip / norm);
  for (const name of Object.keys(gradients)) {
    const [p, m, v] = keptSlots.map((slot) => slots[slotName(slot, name)]!) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
    gradients[name]!.forEach((raw, index) => {
      const g = raw * scale;
      m[index] = options.firstDecay * m[index]! + (1 - options.firstDecay) * g;
      v[index] = options.secondDecay * v[index]! + (1 - options.secondDecay) * g * g;
      const mean = m[index] / (1 - options.firstDecay ** (update + 1));
      const square = v[index] / (1 - options.secondDecay ** (update + 1));
      const decay = name === 'matrix' ? options.weightDecay * p[index]! : 0;
      p[index] = p[index]! - rate * (mean / (Math.sqrt(square) + options.epsilon) + decay);
    });
  }
  return norm;
}

it('updates parameters and moments in place, as written out by hand, with and without clipping', async () => {
  for (const clip of [0.5, 1000]) {
    const options = { firstDecay: 0.9, secondDecay: 0.95, epsilon: 1e-8, weightDecay: 0.1, clip };
    const program = await runtime.compile(buildUpdate(shapes, options));
    const buffers = new ParameterBuffers(runtime, shapes);
    const random = createRandom(clip, 'adam');
    const draw = (count: number): Float32Array =>
      Float32Array.from({ length: count }, () => random.next() - 0.5);
    const slots: Record<string, Float64Array> = {};
    for (const name of shapes.keys()) {
      const start = draw(sizes[name]!);
      buffers.write(new Map([[slotName('parameter', name), start]]));
      slots[slotName('parameter', name)] = Float64Array.from(start);
      for (const slot of ['mean', 'square'] as const)
        slots[slotName(slot, name)] = new Float64Array(sizes[name]!);
    }
    for (let update = 0; update < 5; update++) {
      const count = 3; // the sums are of three tokens
      const sums = Object.fromEntries([...shapes.keys()].map((name) => [name, draw(sizes[name]!)]));
      sums.vector![0] = 0; // a parameter that nothing moved has a mean square of zero
      buffers.write(new Map(Object.entries(sums).map(([name, data]) => [slotName('gradient', name), data])));
      const rate = learningRate(update, { rate: 0.01, warmupSteps: 2, steps: 5, rateFloor: 0.1 });
      const inputs = { ...updateInputs({ rate, update, count }, options), ...buffers.residents(allSlots) };
      const outputs = await program.run(inputs, { norm: 'host', ...buffers.destinations(keptSlots) });
      const gradients = Object.fromEntries(
        Object.entries(sums).map(([name, data]) => [name, Float64Array.from(data, (value) => value / count)]),
      );
      const norm = updateByHand(slots, gradients, { rate, update, options });
      expect(floatsOf(outputs, 'norm')[0]).toBeCloseTo(norm, 5);
      for (const [key, values] of await buffers.read())
        values.forEach((value, index) => {
          expect(value, `${key} ${index}`).toBeCloseTo(slots[key]![index]!, 5);
        });
    }
  }
});

it('warms up, then falls along a cosine to its floor', () => {
  const schedule = { rate: 1, warmupSteps: 4, steps: 12, rateFloor: 0.1 };
  const rates = Array.from({ length: 14 }, (_, step) => learningRate(step, schedule));
  expect(rates.slice(0, 5)).toEqual([0.25, 0.5, 0.75, 1, 1]);
  expect(rates[8]).toBeCloseTo(0.55);
  expect(rates[12]).toBeCloseTo(0.1);
  expect(rates[13]).toBeCloseTo(0.1);
});

it('refuses the state of another drafter', () => {
  const buffers = new ParameterBuffers(runtime, shapes);
  expect(() => {
    buffers.write(new Map([['parameter.matrix', new Float32Array(8)]]));
  }).toThrow('which this drafter does not have in that size');
});
