/** A drafter's scores of the next token at each frontier node, over the target's vocabulary. */
import { MistletoeError } from '../../core/errors.js';
import { logSumExp, topIndices as findTop } from '../../core/vector.js';
import { topIndices, topValues } from '../../graph/operations/indexing.js';
import type { Tensor } from '../../graph/tensor.js';
import { logSoftmax } from '../../graph/operations/reductions.js';
import type { Vocabularies } from '../../model/lanes/sampler.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { bufferOf, floatsOf, integersOf, pickRows } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import { type DraftScores, rankedInGraph, type ScoreDetail, type TopTokens } from '../tree/draft-scores.js';

/** logits [row, draft vocabulary] */
export function scoreOutputs(
  logits: Tensor,
  { drawsInPrograms = false }: Pick<Runtime, 'drawsInPrograms'> = {},
): NamedTensors {
  const count = Math.min(rankedInGraph, logits.shape.at(-1) as number);
  const scores = logSoftmax(logits);
  return {
    logits,
    topScores: topValues(scores, count),
    topTokens: topIndices(scores, count),
    ...(drawsInPrograms ? { scores: logits } : {}),
  };
}

export function scoreNames(want: ScoreDetail): readonly string[] {
  if (want === 'kept') return ['scores'];
  return want === 'logits' ? ['topScores', 'topTokens', 'logits'] : ['topScores', 'topTokens'];
}

export function readScores(outputs: MixedValues, want: ScoreDetail, vocabularies: Vocabularies): DraftScores {
  const { draftSize, targetSize, targetTokens } = vocabularies;
  if (want === 'kept') return keptScores(bufferOf(outputs, 'scores').withWidth(draftSize));
  const tokens = integersOf(outputs, 'topTokens');
  const scores = floatsOf(outputs, 'topScores');
  const width = outputs.topTokens!.shape.at(-1)!;
  for (let best = 0; best < scores.length; best += width) requireScore(scores[best]!);
  const toTarget = (token: number): number => (targetTokens === undefined ? token : targetTokens[token]!);
  const rowOf = (row: number): Float32Array => {
    if (want !== 'logits') throw new Error('Whole rows were not asked for.');
    return floatsOf(outputs, 'logits').subarray(row * draftSize, (row + 1) * draftSize);
  };
  return {
    top(row, count) {
      if (count > width && width < draftSize) return rankRow(rowOf(row), count, toTarget);
      const start = row * width;
      const end = start + Math.min(count, width);
      return {
        tokens: Array.from(tokens.subarray(start, end), toTarget),
        logProbabilities: scores.subarray(start, end),
      };
    },
    logits(row) {
      const drafted = rowOf(row);
      if (targetTokens === undefined) return drafted;
      const whole = new Float32Array(targetSize).fill(-Infinity);
      drafted.forEach((logit, token) => (whole[targetTokens[token]!] = logit));
      return whole;
    },
  };
}

function keptScores(rows: RowBuffer): DraftScores {
  const refuse = (): never => {
    throw new Error('The scores stayed with the runtime.');
  };
  return { top: refuse, logits: refuse, kept: () => rows };
}

/** For drafters that score all levels in one run: each level repeats its row for all its nodes. */
export function scoreAtOnce(
  runtime: Runtime,
  vocabularies: Vocabularies,
  run: (names: readonly string[]) => Promise<MixedValues>,
) {
  let scores: DraftScores | undefined; // of all levels
  let rows: RowBuffer | undefined; // the same on the device, of which every level gets a copy
  const expand = async (
    { depths }: { readonly depths: readonly number[] },
    nodes: readonly number[],
    want: ScoreDetail,
  ): Promise<DraftScores> => {
    const depth = depths[nodes[0]!]!;
    // Deeper levels ask for no more detail than the first.
    if (depth === 0) {
      rows?.free();
      const outputs = await run(scoreNames(want));
      rows = want === 'kept' ? bufferOf(outputs, 'scores') : undefined;
      scores = readScores(outputs, want, vocabularies);
    }
    return repeatRow(scores!, depth, runtime);
  };
  return { expand, free: () => rows?.free() };
}

export function repeatRow(scores: DraftScores, row: number, runtime: Runtime): DraftScores {
  const kept = (nodes: number): RowBuffer =>
    pickRows(runtime, scores.kept!(nodes), new Int32Array(nodes).fill(row));
  return { top: (_, count) => scores.top(row, count), logits: () => scores.logits(row), kept };
}

export function rankRow(logits: Float32Array, count: number, toTarget: (token: number) => number): TopTokens {
  const best = findTop(logits, count);
  const total = logSumExp(logits);
  return {
    tokens: Array.from(best, toTarget),
    logProbabilities: Array.from(best, (token) => logits[token]! - total),
  };
}

export function requireScore(value: number): void {
  if (Number.isFinite(value)) return;
  throw new MistletoeError(
    'drafter',
    `The drafter gives scores that are no numbers (${value}); finite ones were expected.`,
    {
      hint: 'Its weights hold NaN or infinite values: the checkpoint is damaged, or overflowed when it was written as float16. Download it again, or take it in bfloat16 or float32.',
    },
  );
}
