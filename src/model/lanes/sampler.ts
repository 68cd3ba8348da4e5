/**
 * The sampler on the device: draws tokens and judges draft trees from rows of scores that stay there. Only token ids and a
 * few numbers per row come back. Random numbers come from the host, so a seed gives the same tokens as the sampler on
 * the host (core/sampling.ts, core/random.ts, decode/verification/node-chances.ts).
 */
import { lazilyBy } from '../../core/promises.js';
import { checkSamplingOptions, type SamplingOptions } from '../../core/sampling.js';
import { draw, gatherRows, keepLikeliest, oneHot, pick } from '../../graph/operations/indexing.js';
import { cast, divide, greater, maximum, select, subtract } from '../../graph/operations/elementwise.js';
import { countElements } from '../../graph/dimension.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
import { softmax, sum } from '../../graph/operations/reductions.js';
import { broadcast, concatenate, reshape, slice, transpose } from '../../graph/operations/shaping.js';
import type { MixedValues, NamedTensors, NamedValues, Runtime } from '../../runtime/program.js';
import { bufferOf, float32, floatsOf, int32, integersOf, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { KeptScores } from '../forward.js';
import { lanes, row } from './lane-graph.js';
import { compileLanes, type LaneProgram, type PassScheduler } from './lane-program.js';

/** A drafter may know only some of the target's tokens. */
export interface Vocabularies {
  readonly targetSize: number;
  readonly draftSize: number;
  readonly targetTokens?: Int32Array | undefined; // [draft token]
}

/**
 * The sampling distribution (core/sampling.ts) as a graph. Temperature, top-k and top-p are inputs per lane, so one
 * program serves all requests.
 */
export function declareDistribution(
  vocabularies: Vocabularies,
): (scores: Tensor /* [row, lanes, draft vocabulary] */) => Tensor /* [row, lanes, target vocabulary] */ {
  const temperature = reshape(input('temperature', [1, lanes]), [1, lanes, 1]);
  const [topK, topP] = [input('topK', [1, lanes], 'int32'), input('topP', [1, lanes])];
  return (scores) => {
    const rows = scores.shape.slice(0, -1);
    const scaled = divide(spreadTokens(scores, vocabularies), temperature);
    return softmax(keepLikeliest(scaled, broadcast(topK, rows), broadcast(topP, rows)));
  };
}

/** -Infinity for tokens that cannot be proposed. [..., draft] -> [..., target] */
export function spreadTokens(logits: Tensor, { targetSize, draftSize, targetTokens }: Vocabularies): Tensor {
  if (targetTokens === undefined) return logits;
  const places = new Array<number>(targetSize).fill(draftSize);
  targetTokens.forEach((token, place) => (places[token] = place));
  const leading = logits.shape.slice(0, -1);
  const rows = countElements(leading);
  const columns = transpose(reshape(logits, [rows, draftSize]), [1, 0]);
  const nothing = broadcast(constant(-Infinity), [1, rows]);
  const table = constant(places, [targetSize], 'int32');
  const spread = gatherRows(concatenate([columns, nothing], 0), table);
  return reshape(transpose(spread, [1, 0]), [...leading, targetSize]);
}

export function samplingInputs(sampling: SamplingOptions, vocabularySize: number): NamedValues {
  const { temperature, topK = vocabularySize, topP = 1 } = checkSamplingOptions(sampling);
  return {
    temperature: float32(Float32Array.of(temperature), [1]),
    topK: int32([Math.min(topK, vocabularySize)]),
    topP: float32(Float32Array.of(topP), [1]),
  };
}

export interface NodesToJudge {
  /** [node] In the order of judging. */
  readonly trials: readonly (readonly { readonly token: number; readonly isCertain: boolean }[])[];
  /** Draws the token after a node, if all its trials are rejected. */
  readonly uniform: number;
  /** What a node's drawn children were drawn from; absent if all tokens were certain. [node, vocabulary] */
  readonly drafted?: RowBuffer | undefined;
}

/** Trials in what those before them leave of the target's distribution and of the draft's. */
export interface JudgedNodes {
  /** Places of each node. */
  readonly most: number;
  readonly targetProbabilities: Float32Array; // [node * most]
  readonly draftProbabilities: Float32Array; // [node * most]
  readonly draftMasses: Float32Array; // [node * most]
  readonly drawn: Int32Array; // [node]
}

/** Smaller residuals are rounding noise; the target's distribution is used instead. */
export const minResidualMass = 1e-12;

export interface DrawnTokens {
  /** [row] Distinct; fewer than uniforms if no more were possible. */
  readonly tokens: readonly Int32Array[];
  /** [row, vocabulary] */
  readonly distributions: RowBuffer;
  /** [row] Sums of the scores, which show NaN and infinities. */
  readonly totals: Float32Array;
}

export class Sampler {
  private readonly compile: (key: string) => Promise<LaneProgram>;

  constructor(
    private readonly runtime: Runtime,
    private readonly vocabularies: Vocabularies,
  ) {
    this.compile = lazilyBy((key) => compileLanes(runtime, this.build(key), []));
  }

  /** For judging. */
  async prepare(): Promise<void> {
    await Promise.all(['certain 0', 'certain 1', 'drawn 1'].map((key) => this.compile(key)));
  }

  /** Zeros, for distributions. [count, vocabulary] */
  newRows(count: number): RowBuffer {
    return this.runtime.allocate(count, this.vocabularies.targetSize);
  }

  /** Without replacement, a token for each uniform number of a row. */
  async draw(
    scores: RowBuffer, // [row, draft vocabulary]
    uniforms: readonly (readonly number[])[], // [row]
    sampling: SamplingOptions,
    scheduler: PassScheduler,
  ): Promise<DrawnTokens> {
    const most = placesFor(uniforms);
    const padded = new Float32Array(uniforms.length * most);
    uniforms.forEach((own, row) => {
      padded.set(own, row * most);
    });
    const inputs = {
      ...this.inputs(scores, sampling),
      uniforms: float32(padded, [uniforms.length, most]),
    };
    const names = ['tokens', 'possible', 'total', 'distributions'];
    const outputs = await scheduler.run(await this.compile(`draw ${most}`), { inputs }, names);
    const [tokens, possible] = [integersOf(outputs, 'tokens'), integersOf(outputs, 'possible')];
    return {
      tokens: uniforms.map((own, row) => {
        const [start, end] = [row * most, row * most + own.length];
        return tokens.subarray(start, end).filter((_, place) => possible[start + place] === 1);
      }),
      distributions: bufferOf(outputs, 'distributions'),
      totals: floatsOf(outputs, 'total'),
    };
  }

  async judge(
    scores: KeptScores,
    sampling: SamplingOptions,
    { trials, uniform, drafted }: NodesToJudge,
    scheduler: PassScheduler,
  ): Promise<JudgedNodes> {
    const most = placesFor(trials);
    const count = trials.length;
    const tokens = new Int32Array(count * most);
    const kinds = new Float32Array(count * most); // 0 where no trial is
    trials.forEach((own, node) => {
      own.forEach(({ token, isCertain }, place) => {
        tokens[node * most + place] = token;
        kinds[node * most + place] = isCertain ? certainKind : drawnKind;
      });
    });
    const inputs = {
      ...this.inputs(scores.rows, sampling),
      ...(most === 0 ? {} : { children: int32(tokens, [count, most]), kinds: float32(kinds, [count, most]) }),
      uniforms: float32(new Float32Array(count).fill(uniform), [count]),
      ...(drafted === undefined ? {} : { drafted: resident(drafted) }),
    };
    const names = ['drawn', 'total', ...(most === 0 ? [] : ['target', 'draft', 'mass'])];
    const key = `${drafted === undefined ? 'certain' : 'drawn'} ${most}`;
    const outputs = await scheduler.run(await this.compile(key), { inputs }, names);
    scores.release(floatsOf(outputs, 'total'));
    const values = (name: string): Float32Array => (most === 0 ? noValues : floatsOf(outputs, name));
    return {
      most,
      targetProbabilities: values('target'),
      draftProbabilities: values('draft'),
      draftMasses: values('mass'),
      drawn: integersOf(outputs, 'drawn'),
    };
  }

  private inputs(scores: RowBuffer, sampling: SamplingOptions): MixedValues {
    return { scores: resident(scores), ...samplingInputs(sampling, this.vocabularies.targetSize) };
  }

  private build(key: string): NamedTensors {
    const [kind, most] = key.split(' ');
    const scores = input('scores', [row, lanes, this.vocabularies.draftSize]);
    const whole = declareDistribution(this.vocabularies)(scores);
    const outputs =
      kind === 'draw'
        ? { ...drawTokens(whole, Number(most)), distributions: whole }
        : judgeTrials(whole, Number(most), kind === 'drawn');
    // NaN and infinities show in the sum.
    return { ...outputs, total: sum(scores, [-1]) };
  }
}

/** Of a row, rounded up: few programs for many trees. */
function placesFor(rows: readonly { readonly length: number }[]): number {
  const widest = Math.max(0, ...rows.map(({ length }) => length));
  return widest === 0 ? 0 : 2 ** Math.ceil(Math.log2(widest));
}

/** [row, lanes, most] -> [row, lanes] each */
const partPlaces = (x: Tensor, most: number): readonly Tensor[] =>
  Array.from({ length: most }, (_, place) => reshape(slice(x, -1, place, place + 1), [row, lanes]));

const joinPlaces = (parts: readonly Tensor[]): Tensor =>
  concatenate(
    parts.map((part) => reshape(part, [row, lanes, 1])),
    -1,
  );

/** Each from what those before it leave. */
function drawTokens(whole: Tensor, most: number): NamedTensors {
  let left = whole;
  const drawn = partPlaces(input('uniforms', [row, lanes, most]), most).map((uniform) => {
    const isPossible = greater(sum(left, [-1]), 0);
    const token = draw(select(isPossible, left, whole), uniform);
    left = select(greater(oneHot(token, whole.shape.at(-1) as number), 0), 0, left);
    return { token, possible: cast(isPossible, 'int32') };
  });
  return {
    tokens: joinPlaces(drawn.map(({ token }) => token)),
    possible: joinPlaces(drawn.map(({ possible }) => possible)),
  };
}

const noValues = new Float32Array(0);
const [drawnKind, certainKind] = [1, 2];

function declareTrials(most: number) {
  if (most === 0) return [];
  const kinds = input('kinds', [row, lanes, most]);
  return partPlaces(input('children', [row, lanes, most], 'int32'), most).map((token, place) => {
    const kind = slice(kinds, -1, place, place + 1);
    return { token, isThere: greater(kind, 0), isCertain: greater(kind, drawnKind) };
  });
}

/**
 * The rule of decode/verification/node-chances.ts for all nodes at once: a rejected trial leaves norm(max(0, p - q)),
 * where q is the law without the tokens tried before it, renormalized, or all mass on a certain token.
 */
function judgeTrials(whole: Tensor, most: number, hasLaws: boolean): NamedTensors {
  const law = hasLaws ? input('drafted', whole.shape) : undefined;
  const [targets, drafts, masses]: [Tensor[], Tensor[], Tensor[]] = [[], [], []];
  let left = whole;
  let untried = law;
  let untriedMass: Tensor | undefined;
  for (const { token, isThere, isCertain } of declareTrials(most)) {
    const certain = oneHot(token, whole.shape.at(-1) as number);
    const probability = law && pickColumn(law, token);
    const mass = probability && maximum(untriedMass ?? 1, probability);
    targets.push(pickColumn(left, token));
    drafts.push(probability === undefined ? onesLike(isCertain) : select(isCertain, 1, probability));
    masses.push(mass === undefined ? onesLike(isCertain) : select(isCertain, 1, mass));
    const draft = law === undefined ? certain : select(isCertain, certain, divide(law, mass!));
    const excess = maximum(subtract(left, draft), 0);
    const excessMass = sum(excess, [-1]);
    const rest = select(greater(excessMass, minResidualMass), divide(excess, excessMass), whole);
    left = select(isThere, rest, left);
    if (untried === undefined) continue;
    // Summed again: after a likely child, a difference would be rounding noise.
    untried = select(isCertain, untried, select(greater(certain, 0), 0, untried));
    untriedMass = sum(untried, [-1]);
  }
  const drawn = draw(left, input('uniforms', [row, lanes]));
  if (most === 0) return { drawn };
  return { drawn, target: joinPlaces(targets), draft: joinPlaces(drafts), mass: joinPlaces(masses) };
}

const pickColumn = (x: Tensor, token: Tensor): Tensor => reshape(pick(x, token), [row, lanes, 1]);
const onesLike = (x: Tensor): Tensor => broadcast(constant(1), x.shape);
