/**
 * Trains a drafter batch by batch: the target reads the texts, one program accumulates the gradients of a batch, and
 * another updates all parameters in place. Only losses are copied to the host.
 */
import { createRandom } from '../../core/random.js';
import { cutEarly } from '../../graph/cut-early.js';
import { add } from '../../graph/operations/elementwise.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { feedWeights, listWeights, weightGradients } from '../../graph/gradient.js';
import { requireGraph } from '../../draft/reading/checks.js';
import type { MixedValues, NamedTensors, Program } from '../../runtime/program.js';
import { float32, floatsOf, int32, integersOf } from '../../runtime/program.js';
import type { AdamOptions, ParameterValues } from './adamw.js';
import {
  allSlots,
  buildUpdate,
  countValues,
  keptSlots,
  ParameterBuffers,
  slotName,
  updateInputs,
} from './adamw.js';
import { shareFrozenProducts } from './frozen-products.js';
import type { LossParts, Objective, Pair } from './losses.js';
import { buildChoices, buildLoss, contextInputs, labelInputs, lossParts } from './losses.js';
import type { StateStore } from './state-store.js';
import { freeStates, TeacherStates } from './teacher-states.js';
import { findTrainable } from '../../draft/systems.js';
import { tieWeights } from './parameters.js';
import { type TextBatch, positionsInTexts } from '../data/batches.js';

export interface TrainerOptions {
  readonly objective: Objective;
  readonly adam: AdamOptions;
  readonly seed: number;
  readonly freezeVocabulary?: boolean | undefined;
  /** Without it, states are computed for every batch. */
  readonly store?: StateStore | undefined;
}

export interface BatchLoss {
  readonly count: number;
  readonly loss: number;
  readonly levels: readonly number[];
  readonly rows: readonly number[];
  readonly parts: LossParts<number>;
}

export class Trainer {
  readonly buffers: ParameterBuffers;
  private readonly choosers = new Map<number, Promise<Program>>(); // [depth]
  private learnt = 0; // tokens in the sums of gradients

  private constructor(
    private readonly pair: Pair,
    private readonly options: TrainerOptions,
    private readonly teacher: TeacherStates,
    private readonly gradients: Program,
    private readonly updater: Program,
    private readonly parts: readonly (keyof LossParts<number>)[],
    shapes: ReadonlyMap<string, readonly number[]>,
    /** [trained weight] Name of its parameter. */
    private readonly ties: ReadonlyMap<string, string>,
  ) {
    this.buffers = new ParameterBuffers(pair.target.runtime, shapes);
  }

  /** `values`: the drafter's own weights; those in the loss are trained. */
  static async create(
    pair: Pair,
    values: ReadonlyMap<string, ParameterValues>,
    options: TrainerOptions,
  ): Promise<Trainer> {
    const { loss, levels, rows, parts } = buildLoss(pair, options.objective);
    const names = listWeights([loss])
      .map(({ attributes }) => attributes.name)
      .filter((name) => values.has(name) && !isFrozen(name, pair, options));
    const tied = tieWeights(values, findTrainable(pair.drafter.system)?.training.repeatedBlocks);
    const ties = new Map(names.map((name) => [name, tied.get(name)!]));
    const own = [...new Set(ties.values())];
    const shapes = new Map(own.map((name) => [name, values.get(name)!.shape]));
    const plain = { loss, ...nameLevels('level', levels), ...nameLevels('rows', rows), ...parts };
    // Measured on the CPU only.
    const isShared = pair.target.runtime.name === 'onnx';
    const losses = isShared ? shareFrozenProducts(cutEarly(plain), new Set(names)) : plain;
    const outputs = { ...losses, ...sumGradients(losses.loss, ties) };
    const trainer = new Trainer(
      pair,
      options,
      await TeacherStates.create(pair, options.store),
      await compileFed(pair, outputs, ties),
      await pair.target.runtime.compile(buildUpdate(shapes, options.adam)),
      lossParts.filter((part) => part in parts),
      shapes,
      ties,
    );
    trainer.buffers.write(new Map(own.map((name) => [slotName('parameter', name), values.get(name)!.data])));
    return trainer;
  }

  async accumulate(batch: TextBatch, step: number): Promise<BatchLoss> {
    const { objective, seed } = this.options;
    const states = await this.teacher.read(batch);
    const { noise } = objective;
    const { shape } = states.features!;
    const random = createRandom(seed, `noise ${step}`);
    // Uniform, as EAGLE was trained.
    const drawn = new Float32Array(noise > 0 ? countValues(shape) : 0);
    for (let index = 0; index < drawn.length; index++) drawn[index] = (random.next() - 0.5) * noise;
    const inputs = {
      ...this.batchInputs(batch),
      ...states,
      ...labelInputs(this.pair, batch),
      ...(noise > 0 ? { noise: float32(drawn, shape) } : {}),
      ...this.buffers.residents(['parameter', 'gradient']),
    };
    const levels = levelNames('level', objective.depth);
    const rows = levelNames('rows', objective.depth);
    const outputs = await this.gradients.run(pickInputs(this.gradients, inputs), {
      ...Object.fromEntries(
        ['loss', ...levels, ...rows, ...this.parts].map((name) => [name, 'host' as const]),
      ),
      ...this.buffers.destinations(['gradient']),
    });
    freeStates(states);
    const count = batch.weights.reduce((sum, weight) => sum + weight, 0);
    this.learnt += count;
    return {
      count,
      loss: floatsOf(outputs, 'loss')[0]!,
      levels: levels.map((name) => floatsOf(outputs, name)[0]!),
      rows: rows.map((name) => floatsOf(outputs, name)[0]!),
      parts: Object.fromEntries(this.parts.map((name) => [name, floatsOf(outputs, name)[0]!])),
    };
  }

  /** Returns the norm of the mean gradient before clipping. */
  async update(update: number, rate: number): Promise<number> {
    const scalars = updateInputs({ rate, update, count: Math.max(1, this.learnt) }, this.options.adam);
    const inputs = { ...scalars, ...this.buffers.residents(allSlots) };
    const outputs = await this.updater.run(inputs, {
      norm: 'host' as const,
      ...this.buffers.destinations(keptSlots),
    });
    this.forgetGradients();
    return floatsOf(outputs, 'norm')[0]!;
  }

  forgetGradients(): void {
    this.buffers.clearGradients();
    this.learnt = 0;
  }

  /** [level] the most likely draft at each row, in the drafter's vocabulary. [batch, row - 2 - level] */
  async choose(batch: TextBatch, depth: number): Promise<readonly Int32Array[]> {
    const program = await this.compileChooser(depth);
    const states = await this.teacher.read(batch);
    const inputs = { ...this.batchInputs(batch), ...states, ...this.buffers.residents(['parameter']) };
    const names = levelNames('level', depth);
    const outputs = await program.run(pickInputs(program, inputs), names);
    freeStates(states);
    return names.map((name) => integersOf(outputs, name));
  }

  async readWeights(): Promise<ReadonlyMap<string, Float32Array>> {
    const parameters = await this.buffers.read(['parameter']);
    return new Map(
      [...this.ties].map(([name, tied]) => [name, parameters.get(slotName('parameter', tied))!]),
    );
  }

  async dispose(): Promise<void> {
    const choosers = await Promise.all(this.choosers.values());
    for (const program of [this.gradients, this.updater, ...choosers]) await program.dispose();
    await this.teacher.dispose();
    this.buffers.free();
  }

  private batchInputs(batch: TextBatch): MixedValues {
    const { tokens, weights, shape } = batch;
    const attention = this.pair.drafter.graph?.attention;
    return {
      tokens: int32(tokens, shape),
      weights: float32(weights, shape),
      positions: float32(positionsInTexts(batch), shape),
      ...(attention === undefined ? {} : contextInputs('draft.', attention.rotary, batch, attention.window)),
    };
  }

  private compileChooser(depth: number): Promise<Program> {
    const known = this.choosers.get(depth);
    if (known !== undefined) return known;
    const program = compileFed(this.pair, nameLevels('level', buildChoices(this.pair, depth)), this.ties);
    this.choosers.set(depth, program);
    return program;
  }
}

/** Heads use the target's embeddings. If a head has its own copy, it is frozen, as its authors do. */
function isFrozen(name: string, { drafter }: Pair, { freezeVocabulary = false }: TrainerOptions): boolean {
  const isEmbedding = name.endsWith('embed_tokens.weight');
  if (freezeVocabulary && (isEmbedding || name.endsWith('lm_head.weight'))) return true;
  return drafter.reads !== 'tokens' && isEmbedding;
}

function sumGradients(loss: Tensor, ties: ReadonlyMap<string, string>): NamedTensors {
  const sums: Record<string, Tensor> = {};
  for (const [name, gradient] of weightGradients(loss, [...ties.keys()])) {
    const slot = slotName('gradient', ties.get(name)!);
    sums[slot] = add(sums[slot] ?? input(slot, gradient.shape), gradient);
  }
  return sums;
}

/** Trained weights come from buffers, the others from their stores. */
function compileFed(
  { target, drafter }: Pair,
  outputs: NamedTensors,
  ties: ReadonlyMap<string, string>,
): Promise<Program> {
  const fed = new Map([...ties].map(([name, tied]) => [name, slotName('parameter', tied)]));
  const stores = [...new Set([target.weights, ...requireGraph(drafter).weights])];
  return target.runtime.compile(feedWeights(outputs, fed), stores);
}

const levelNames = (what: string, depth: number): string[] =>
  Array.from({ length: depth }, (_, level) => `${what}${level}`);

const nameLevels = (what: string, tensors: readonly Tensor[]): NamedTensors =>
  Object.fromEntries(tensors.map((tensor, level) => [`${what}${level}`, tensor]));

/** A drafter may not use all inputs of a batch. */
function pickInputs(program: Program, given: MixedValues): MixedValues {
  return Object.fromEntries(program.inputs.map(({ name }) => [name, given[name]!]));
}
