/**
 * Programs over scores that stayed with the runtime: they draw tokens, and say of draft trees what verification needs to
 * know of them. Token ids and a few numbers a row come back, never a row. Random numbers come from the host's streams, so
 * that a seed gives the tokens that the host's rules give (core/sampling.ts, decode/verification/verification.ts).
 */
import { lazilyBy } from '../../core/lazy.js';
import type { SamplingOptions } from '../../core/sampling.js';
import { draw } from '../../graph/operations/drawing.js';
import { divide, greater, maximum, multiply, select, subtract } from '../../graph/operations/elementwise.js';
import { oneHot, pick } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import { sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { MixedValues, NamedTensors, Runtime } from '../../runtime/program.js';
import { float32, floatsOf, int32, integersOf, resident } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { KeptScores } from '../forward.js';
import { lanes, row } from './lane-graph.js';
import type { LaneProgram } from './lane-program.js';
import { compileLanes } from './lane-program.js';
import type { PassScheduler } from './pass-scheduler.js';
import { declareSampling, distributionOf, samplingInputs } from './sampling-graph.js';

/** How siblings were chosen decides what a rejected one leaves: see decode/verification/verification.ts. */
export type JudgedOrigin = 'sampled' | 'deterministic';

export interface NodesToJudge {
  readonly origin: JudgedOrigin;
  /** [node] tokens of its children, in the order in which they are tried. */
  readonly children: readonly (readonly number[])[];
  /** [node] the random number by which the token behind it is drawn, should none of its children be accepted. */
  readonly uniforms: ArrayLike<number>;
  /** [node, vocabulary] what the children were drawn from, where they were drawn. */
  readonly drafted?: RowBuffer | undefined;
}

/** What the rules ask of each node. */
export interface JudgedNodes {
  /** Children that a row has room for. */
  readonly most: number;
  /** [node, most] of a child in what its rejected siblings leave of the target's distribution */
  readonly targetProbabilities: Float32Array;
  /** [node, most] of a child in the drafter's distribution; empty where nothing was drawn. */
  readonly draftProbabilities: Float32Array;
  /** [node, most] the drafter's mass without the children up to this one; empty where nothing was drawn. */
  readonly untriedMasses: Float32Array;
  /** [node] */
  readonly drawn: Int32Array;
}

/** Below this a residual is rounding noise and the target's distribution takes its place. */
export const minResidualMass = 1e-12;

export class TokenDraws {
  private readonly compile: (key: string) => Promise<LaneProgram>;

  constructor(
    runtime: Runtime,
    private readonly vocabularySize: number,
  ) {
    this.compile = lazilyBy((key) => compileLanes(runtime, 'draw', this.build(key), []));
  }

  /** Compiles ahead what draws single tokens and judges chains. */
  async prepare(): Promise<void> {
    await Promise.all(['draw', 'sampled 1', 'deterministic 1'].map((key) => this.compile(key)));
  }

  /** A token for each row. */
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
    // One NaN or infinity anywhere in a row shows in its sum.
    const total = sum(scores, [-1]);
    if (kind === 'sampled') return { ...judgeSampled(whole, Number(most)), total };
    if (kind === 'deterministic') return { ...judgeDeterministic(whole, Number(most)), total };
    return { drawn: draw(whole, input('uniforms', [row, lanes])), total };
  }
}

/** The children of all nodes, one after the other. */
function* declareChildren(most: number) {
  const children = input('children', [row, lanes, most], 'int32');
  const isChild = input('isChild', [row, lanes, most]);
  for (let place = 0; place < most; place++) {
    const token = reshape(slice(children, -1, place, place + 1), [row, lanes]);
    yield { token, isThere: slice(isChild, -1, place, place + 1) };
  }
}

const pickColumn = (x: Tensor, token: Tensor): Tensor => reshape(pick(x, token), [row, lanes, 1]);

/** Ones at the tokens that are there. [row, lanes, vocabulary] */
function markToken(token: Tensor, isThere: Tensor, like: Tensor): Tensor {
  return multiply(oneHot(token, like.shape.at(-1) as number), isThere);
}

/** Each rejected child leaves norm(max(0, p - q / mass)), where q's mass is that of the tokens not tried before. */
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
    // Summed anew: behind a likely child, a difference would be no more than rounding.
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

/** Each rejected child is struck from the target's distribution. */
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
