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
import { compileLanes, type LaneProgram, type PassScheduler } from '../../model/lanes/lane-program.js';
import { declareSampling, distributionOf, samplingInputs } from '../../model/lanes/token-draws.js';
import type { NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, float32, floatsOf, integersOf, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { DrawnSiblings, SiblingDrawer } from '../drafter.js';
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
      const drawn = await runDraws(await compile(most), scheduler, {
        scores: resident(scores),
        uniforms: float32(uniforms, [counts.length, most]),
        ...samplingInputs(sampling, targetSize),
      });
      const tokens = counts.map((count, node) => readTokens(drawn, node * most, count));
      if (tokens.every(({ length }, node) => length === counts[node])) return { ...drawn, tokens };
      // Fewer were possible, so fewer random numbers were used.
      random.restore(before);
      return { ...drawn, tokens: await drawOnHost(drawn.distributions, counts, random) };
    },
  });
}

interface DrawnRows {
  readonly places: Int32Array; // [node, most]
  readonly possible: Int32Array;
  readonly distributions: RowBuffer; // [node, vocabulary]
}

async function runDraws(
  program: LaneProgram,
  scheduler: PassScheduler,
  inputs: Parameters<PassScheduler['run']>[1]['inputs'],
): Promise<DrawnRows> {
  const outputs = await scheduler.run(program, { inputs }, [
    'siblings',
    'possible',
    'total',
    'distributions',
  ]);
  floatsOf(outputs, 'total').forEach(requireScore);
  return {
    places: integersOf(outputs, 'siblings'),
    possible: integersOf(outputs, 'possible'),
    distributions: bufferOf(outputs, 'distributions'),
  };
}

function readTokens({ places, possible }: DrawnRows, start: number, count: number): number[] {
  const tokens: number[] = [];
  for (let place = start; place < start + count && possible[place] === 1; place++)
    tokens.push(places[place]!);
  return tokens;
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
