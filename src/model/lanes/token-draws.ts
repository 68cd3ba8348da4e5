/**
 * Programs over logits on the device: they draw tokens and judge draft trees. Only token ids and a few numbers per
 * row come back. Random numbers come from the host, so a seed gives the same tokens as on the host (core/sampling.ts,
 * decode/verification/verification.ts).
 */
import { lazilyBy } from '../../core/promises.js';
import { checkSamplingOptions, type SamplingOptions } from '../../core/sampling.js';
import { draw, keepLikeliest, oneHot, pick } from '../../graph/operations/indexing.js';
import { divide, greater, maximum, select, subtract } from '../../graph/operations/elementwise.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
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

export interface NodesToJudge {
  /** [node] In the order of judging. */
  readonly trials: readonly (readonly { readonly token: number; readonly isCertain: boolean }[])[];
  /** Draws the token after a node, if all its trials are rejected. */
  readonly uniform: number;
  /** What a node's drawn children were drawn from; absent if all tokens were certain. [node, vocabulary] */
  readonly drafted?: RowBuffer | undefined;
}

/** A trial in what those before it leave of the target's distribution and of the draft's. */
export interface JudgedTrial {
  readonly targetProbability: number;
  readonly draftProbability: number;
  readonly draftMass: number;
}

export interface JudgedNodes {
  /** Places of each node. */
  readonly most: number;
  trials(place: number): JudgedTrial;
  readonly drawn: Int32Array; // [node]
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
    await Promise.all(['certain 0', 'certain 1', 'drawn 1'].map((key) => this.compile(key)));
  }

  async judge(
    scores: KeptScores,
    sampling: SamplingOptions,
    { trials, uniform, drafted }: NodesToJudge,
    scheduler: PassScheduler,
  ): Promise<JudgedNodes> {
    const widest = Math.max(0, ...trials.map(({ length }) => length));
    const most = widest === 0 ? 0 : 2 ** Math.ceil(Math.log2(widest)); // few programs for many trees
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
      ...this.inputs(scores, sampling),
      ...(most === 0 ? {} : { children: int32(tokens, [count, most]), kinds: float32(kinds, [count, most]) }),
      uniforms: float32(new Float32Array(count).fill(uniform), [count]),
      ...(drafted === undefined ? {} : { drafted: resident(drafted) }),
    };
    const names = ['drawn', 'total', ...(most === 0 ? [] : ['target', 'draft', 'mass'])];
    const key = `${drafted === undefined ? 'certain' : 'drawn'} ${most}`;
    const outputs = await scheduler.run(await this.compile(key), { inputs }, names);
    scores.release(floatsOf(outputs, 'total'));
    const values = (name: string): Float32Array => (most === 0 ? noValues : floatsOf(outputs, name));
    const [target, draft, mass] = [values('target'), values('draft'), values('mass')];
    return {
      most,
      trials: (place) => ({
        targetProbability: target[place]!,
        draftProbability: draft[place]!,
        draftMass: mass[place]!,
      }),
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
    return { ...judgeTrials(whole, Number(most), kind === 'drawn'), total: sum(scores, [-1]) };
  }
}

const noValues = new Float32Array(0);
const [drawnKind, certainKind] = [1, 2];

function* declareTrials(most: number) {
  const children = most === 0 ? undefined : input('children', [row, lanes, most], 'int32');
  const kinds = most === 0 ? undefined : input('kinds', [row, lanes, most]);
  for (let place = 0; place < most; place++) {
    const token = reshape(slice(children!, -1, place, place + 1), [row, lanes]);
    const kind = slice(kinds!, -1, place, place + 1);
    yield { token, isThere: greater(kind, 0), isCertain: greater(kind, drawnKind) };
  }
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
  const joined = (parts: readonly Tensor[]): Tensor => concatenate(parts, -1);
  return { drawn, target: joined(targets), draft: joined(drafts), mass: joined(masses) };
}

const pickColumn = (x: Tensor, token: Tensor): Tensor => reshape(pick(x, token), [row, lanes, 1]);
const onesLike = (x: Tensor): Tensor => broadcast(constant(1), x.shape);
