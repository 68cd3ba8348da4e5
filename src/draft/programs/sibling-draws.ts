/**
 * Draws siblings on the device without replacement, with the host's random numbers. Only tokens come back.
 */
import { lazilyBy } from '../../core/promises.js';
import { drawWithoutReplacement, type Random } from '../../core/random.js';
import { draw, oneHot } from '../../graph/operations/indexing.js';
import { cast, greater, select } from '../../graph/operations/elementwise.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import { lanes, row } from '../../model/lanes/lane-graph.js';
import { compileLanes, type PassScheduler } from '../../model/lanes/lane-program.js';
import { declareSampling, distributionOf, samplingInputs } from '../../model/lanes/token-draws.js';
import type { NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, float32, floatsOf, integersOf, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { DrawnSiblings, SiblingDrawer } from '../tree/grow-tree.js';
import { requireScore, spreadTokens, type Vocabularies } from './scores.js';

/** One per drafter, so that sessions draw together. Undefined if the runtime does not draw in programs. */
export function createSiblingDraws(
  runtime: Runtime,
  vocabularies: Vocabularies,
): ((scheduler: PassScheduler) => SiblingDrawer) | undefined {
  if (runtime.drawsInPrograms !== true) return undefined;
  const compile = lazilyBy((most: number) =>
    compileLanes(runtime, 'draw', buildDraws(most, vocabularies), []),
  );
  const { targetSize } = vocabularies;
  return (scheduler) => ({
    newRows: (count) => runtime.allocate(count, targetSize),
    async draw(scores, counts, sampling, random) {
      const most = 2 ** Math.ceil(Math.log2(Math.max(...counts)));
      const before = random.state();
      const uniforms = new Float32Array(counts.length * most);
      counts.forEach((count, node) => {
        for (let place = 0; place < count; place++) uniforms[node * most + place] = random.next();
      });
      const inputs = {
        scores: resident(scores),
        uniforms: float32(uniforms, [counts.length, most]),
        ...samplingInputs(sampling, targetSize),
      };
      const names = ['siblings', 'possible', 'total', 'distributions'];
      const outputs = await scheduler.run(await compile(most), { inputs }, names);
      floatsOf(outputs, 'total').forEach(requireScore);
      const distributions = bufferOf(outputs, 'distributions');
      const [places, possible] = [integersOf(outputs, 'siblings'), integersOf(outputs, 'possible')];
      const ofNode = (all: Int32Array, node: number): Int32Array =>
        all.subarray(node * most, node * most + counts[node]!);
      if (counts.every((_, node) => !ofNode(possible, node).includes(0)))
        return { tokens: counts.map((_, node) => Array.from(ofNode(places, node))), distributions };
      // Fewer were possible, so fewer random numbers were used.
      random.restore(before);
      return { tokens: await drawOnHost(distributions, counts, random), distributions };
    },
  });
}

async function drawOnHost(
  distributions: RowBuffer,
  counts: readonly number[],
  random: Random,
): Promise<DrawnSiblings['tokens']> {
  const values = await distributions.read();
  const { width } = distributions;
  return counts.map((count, node) =>
    drawWithoutReplacement(values.subarray(node * width, (node + 1) * width), count, random),
  );
}

function buildDraws(most: number, vocabularies: Vocabularies): NamedTensors {
  const scores = input('scores', [row, lanes, vocabularies.draftSize]);
  const uniforms = input('uniforms', [row, lanes, most]);
  const whole = distributionOf(spreadTokens(scores, vocabularies), declareSampling());
  let left = whole;
  const drawn: Tensor[] = [];
  const possible: Tensor[] = [];
  for (let place = 0; place < most; place++) {
    const isPossible = greater(sum(left, [-1]), 0);
    const uniform = reshape(slice(uniforms, -1, place, place + 1), [row, lanes]);
    const token = draw(select(isPossible, left, whole), uniform);
    drawn.push(reshape(token, [row, lanes, 1]));
    possible.push(cast(isPossible, 'int32'));
    left = select(greater(oneHot(token, vocabularies.targetSize), 0), 0, left);
  }
  return {
    siblings: concatenate(drawn, -1),
    possible: concatenate(possible, -1),
    total: sum(scores, [-1]),
    distributions: whole,
  };
}
