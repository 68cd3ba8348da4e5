/**
 * Programs over logits on the device: they draw tokens and judge draft trees. Only token ids and a few numbers per
 * row come back. Random numbers come from the host, so a seed gives the same tokens as on the host (core/sampling.ts,
 * decode/verification/verification.ts).
 */
import { lazilyBy } from '../../core/promises.js';
import { checkSamplingOptions, type SamplingOptions } from '../../core/sampling.js';
import { draw, keepLikeliest, oneHot, pick } from '../../graph/operations/indexing.js';
import { divide, greater, maximum, multiply, select, subtract } from '../../graph/operations/elementwise.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { softmax, sum } from '../../graph/operations/reductions.js';
import { broadcast, concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import type { MixedValues, NamedTensors, NamedValues, Runtime } from '../../runtime/program.js';
import { float32, floatsOf, int32, integersOf, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { KeptScores } from '../forward.js';
import { lanes, row } from './lane-graph.js';
import { compileLanes, type LaneProgram, type PassScheduler } from './lane-program.js';

/** [1, lanes] each. */
interface SamplingTensors {
  readonly temperature: Tensor;
  readonly topK: Tensor;
  readonly topP: Tensor;
}

/**
 * The sampling distribution (core/sampling.ts) as a graph. Temperature, top-k and top-p are inputs per lane, so one
 * program serves all requests.
 */
export function declareSampling(): SamplingTensors {
  return {
    temperature: input('temperature', [1, lanes]),
    topK: input('topK', [1, lanes], 'int32'),
    topP: input('topP', [1, lanes]),
  };
}

/** [row, lanes, vocabulary] */
export function distributionOf(logits: Tensor, { temperature, topK, topP }: SamplingTensors): Tensor {
  const rows = logits.shape.slice(0, -1);
  const scaled = divide(logits, reshape(temperature, [1, lanes, 1]));
  return softmax(keepLikeliest(scaled, broadcast(topK, rows), broadcast(topP, rows)));
}

export function samplingInputs(sampling: SamplingOptions, vocabularySize: number): NamedValues {
  const { temperature, topK = vocabularySize, topP = 1 } = checkSamplingOptions(sampling);
  return {
    temperature: float32(Float32Array.of(temperature), [1]),
    topK: int32([Math.min(topK, vocabularySize)]),
    topP: float32(Float32Array.of(topP), [1]),
  };
}

export type JudgedOrigin = 'sampled' | 'deterministic';

export interface NodesToJudge {
  readonly origin: JudgedOrigin;
  /** [node] In the order of judging. */
  readonly children: readonly (readonly number[])[];
  /** [node] Random number for the token after it, if all children are rejected. */
  readonly uniforms: ArrayLike<number>;
  /** [node, vocabulary] Draft distributions, if children were drawn. */
  readonly drafted?: RowBuffer | undefined;
}

export interface JudgedNodes {
  readonly most: number;
  /** [node, most] In what rejected siblings leave of the target's distribution. */
  readonly targetProbabilities: Float32Array;
  /** [node, most] Empty if nothing was drawn. */
  readonly draftProbabilities: Float32Array;
  /** [node, most] The drafter's mass without the children up to this one; empty if nothing was drawn. */
  readonly untriedMasses: Float32Array;
  readonly drawn: Int32Array;
}

/** Smaller residuals are rounding noise; the target's distribution is used instead. */
export const minResidualMass = 1e-12;

export class TokenDraws {
  private readonly compile: (key: string) => Promise<LaneProgram>;

  constructor(
    runtime: Runtime,
    private readonly vocabularySize: number,
  ) {
    this.compile = lazilyBy((key) => compileLanes(runtime, 'draw', this.build(key), []));
  }

  async prepare(): Promise<void> {
    await Promise.all(['draw', 'sampled 1', 'deterministic 1'].map((key) => this.compile(key)));
  }

  async draw(
    scores: KeptScores,
    sampling: SamplingOptions,
    uniforms: readonly number[],
    scheduler: PassScheduler,
  ): Promise<Int32Array> {
    const outputs = await scheduler.run(
      await this.compile('draw'),
      {
        inputs: {
          ...this.inputs(scores, sampling),
          uniforms: float32(Float32Array.from(uniforms), [uniforms.length]),
        },
      },
      ['drawn', 'total'],
    );
    scores.release(floatsOf(outputs, 'total'));
    return integersOf(outputs, 'drawn');
  }

  async judge(
    scores: KeptScores,
    sampling: SamplingOptions,
    { origin, children, uniforms, drafted }: NodesToJudge,
    scheduler: PassScheduler,
  ): Promise<JudgedNodes> {
    const widest = Math.max(1, ...children.map(({ length }) => length));
    const most = 2 ** Math.ceil(Math.log2(widest)); // few programs for many trees
    const count = children.length;
    const tokens = new Int32Array(count * most);
    const isChild = new Float32Array(count * most);
    children.forEach((own, node) => {
      tokens.set(own, node * most);
      isChild.fill(1, node * most, node * most + own.length);
    });
    const isSampled = origin === 'sampled';
    const inputs = {
      ...this.inputs(scores, sampling),
      children: int32(tokens, [count, most]),
      isChild: float32(isChild, [count, most]),
      uniforms: float32(Float32Array.from(uniforms), [count]),
      ...(isSampled ? { drafted: resident(drafted!) } : {}),
    };
    const names = ['drawn', 'total', 'target', ...(isSampled ? ['draft', 'untried'] : [])];
    const outputs = await scheduler.run(await this.compile(`${origin} ${most}`), { inputs }, names);
    scores.release(floatsOf(outputs, 'total'));
    const none = new Float32Array(0);
    return {
      most,
      targetProbabilities: floatsOf(outputs, 'target'),
      draftProbabilities: isSampled ? floatsOf(outputs, 'draft') : none,
      untriedMasses: isSampled ? floatsOf(outputs, 'untried') : none,
      drawn: integersOf(outputs, 'drawn'),
    };
  }

  private inputs({ rows }: KeptScores, sampling: SamplingOptions): MixedValues {
    return { scores: resident(rows), ...samplingInputs(sampling, this.vocabularySize) };
  }

  private build(key: string): NamedTensors {
    const [kind, most] = key.split(' ');
    const scores = input('scores', [row, lanes, this.vocabularySize]);
    const whole = distributionOf(scores, declareSampling());
    // NaN and infinities show in the sum.
    const total = sum(scores, [-1]);
    if (kind === 'sampled') return { ...judgeSampled(whole, Number(most)), total };
    if (kind === 'deterministic') return { ...judgeDeterministic(whole, Number(most)), total };
    return { drawn: draw(whole, input('uniforms', [row, lanes])), total };
  }
}

function* declareChildren(most: number) {
  const children = input('children', [row, lanes, most], 'int32');
  const isChild = input('isChild', [row, lanes, most]);
  for (let place = 0; place < most; place++) {
    const token = reshape(slice(children, -1, place, place + 1), [row, lanes]);
    yield { token, isThere: slice(isChild, -1, place, place + 1) };
  }
}

const pickColumn = (x: Tensor, token: Tensor): Tensor => reshape(pick(x, token), [row, lanes, 1]);

/** [row, lanes, vocabulary] */
function markToken(token: Tensor, isThere: Tensor, like: Tensor): Tensor {
  return multiply(oneHot(token, like.shape.at(-1) as number), isThere);
}

/** A rejected child leaves norm(max(0, p - q / mass)) with the mass of untried tokens. */
function judgeSampled(whole: Tensor, most: number): NamedTensors {
  const drafted = input('drafted', whole.shape);
  let left = whole;
  let untriedDraft = drafted;
  let mass: Tensor | undefined;
  const targets: Tensor[] = [];
  const drafts: Tensor[] = [];
  const masses: Tensor[] = [];
  for (const { token, isThere } of declareChildren(most)) {
    const draftProbability = pickColumn(drafted, token);
    targets.push(pickColumn(left, token));
    drafts.push(draftProbability);
    const excess = maximum(subtract(left, divide(drafted, maximum(mass ?? 1, draftProbability))), 0);
    const excessMass = sum(excess, [-1]);
    const rest = select(greater(excessMass, minResidualMass), divide(excess, excessMass), whole);
    left = select(greater(isThere, 0), rest, left);
    // Summed again: after a likely child, a difference would be rounding noise.
    untriedDraft = select(greater(markToken(token, isThere, whole), 0), 0, untriedDraft);
    mass = sum(untriedDraft, [-1]);
    masses.push(mass);
  }
  return {
    target: concatenate(targets, -1),
    draft: concatenate(drafts, -1),
    untried: concatenate(masses, -1),
    drawn: draw(left, input('uniforms', [row, lanes])),
  };
}

/** A rejected child is removed from the target's distribution. */
function judgeDeterministic(whole: Tensor, most: number): NamedTensors {
  let rest = whole;
  const targets: Tensor[] = [];
  for (const { token, isThere } of declareChildren(most)) {
    targets.push(pickColumn(whole, token));
    rest = select(greater(markToken(token, isThere, whole), 0), 0, rest);
  }
  const isUsable = greater(sum(rest, [-1]), minResidualMass);
  return {
    target: concatenate(targets, -1),
    drawn: draw(select(isUsable, rest, whole), input('uniforms', [row, lanes])),
  };
}
