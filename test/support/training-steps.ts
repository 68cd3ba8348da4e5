/**
 * Two updates of a drafter on one batch, written down so that another implementation can be held beside it: losses, the
 * gradients of the checkpoint's own tensors, and some of their entries before and after. What PyTorch makes of the same
 * batch (bench/torch/training.py) comes in the same shape.
 */
import { openCheckpoint } from '../../src/checkpoint/open-checkpoint.js';
import { cutPart } from '../../src/checkpoint/weight-recipe.js';
import type { WeightRecipe } from '../../src/checkpoint/weight-recipe.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter, recogniseCheckpoint } from '../../src/draft/systems.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import type { AdamOptions, ParameterSlot } from '../../src/train/loop/adamw.js';
import type { Objective } from '../../src/train/loop/losses.js';
import { slotName } from '../../src/train/loop/adamw.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { Trainer } from '../../src/train/loop/trainer.js';
import type { TextBatch, TextPlace } from '../../src/train/data/batches.js';

export interface StepSettings {
  readonly objective: Objective;
  readonly adam: AdamOptions & { readonly rate: number };
}

/** Flat place in the published tensor, the gradient there, and the weight after one and after two updates. */
export type StepEntry = readonly [place: number, gradient: number, once: number, twice: number];

export interface TensorSteps {
  /** Of the gradient, summed over the learnt tokens. */
  readonly norm: number;
  readonly entries: readonly StepEntry[];
}

export interface StepRecord {
  readonly loss: number;
  readonly levels: readonly number[];
  /** Of all gradients together, as a mean over the learnt tokens, before clipping. */
  readonly norm: number;
  /** [published name] */
  readonly tensors: Readonly<Record<string, TensorSteps>>;
}

/** One text in each row, as long as the row. */
export function wholeRows([count, length]: readonly [number, number]): readonly TextPlace[] {
  return Array.from({ length: count }, (_, row) => ({ id: `row ${row}`, row, start: 0, length }));
}

/** What is trained, and what a check of it needs. */
export interface Apprentice {
  readonly drafter: Drafter;
  readonly recipes: readonly WeightRecipe[];
}

export async function loadApprentice(folder: string, target: CausalModel): Promise<Apprentice> {
  const checkpoint = await openCheckpoint(folder);
  const { recipes } = recogniseCheckpoint(checkpoint).system!.describe(checkpoint);
  return { drafter: await loadDrafter(folder, { target }), recipes };
}

/** `places`: [published name] flat places of the entries that are written down. */
export async function recordSteps(
  target: CausalModel,
  { drafter, recipes }: Apprentice,
  batch: TextBatch,
  { objective, adam }: StepSettings,
  places: Readonly<Record<string, readonly number[]>>,
): Promise<StepRecord> {
  const values = await readParameters(drafter);
  const trainer = await Trainer.create({ target, drafter }, values, { objective, adam, seed: 0 });
  const read = (slot: ParameterSlot) => readTensors(trainer, recipes, slot);
  const { loss, levels } = await trainer.accumulate(batch, 0);
  const gradients = await read('gradient');
  const norm = await trainer.update(0, adam.rate);
  const once = await read('parameter');
  await trainer.accumulate(batch, 1);
  await trainer.update(1, adam.rate);
  const twice = await read('parameter');
  await trainer.dispose();
  const tensors = [...gradients].map(([name, gradient]): [string, TensorSteps] => {
    const entries = (places[name] ?? []).map((place): StepEntry => [
      place,
      gradient[place]!,
      once.get(name)![place]!,
      twice.get(name)![place]!,
    ]);
    return [name, { norm: lengthOf(gradient), entries }];
  });
  return { loss, levels, norm, tensors: Object.fromEntries(tensors) };
}

/** [published name] values as the checkpoint lays them out. */
async function readTensors(
  { buffers }: Trainer,
  recipes: readonly WeightRecipe[],
  slot: ParameterSlot,
): Promise<ReadonlyMap<string, Float32Array>> {
  const values = await buffers.read([slot]);
  const tensors = new Map<string, Float32Array>();
  for (const name of buffers.shapes.keys()) {
    const recipe = recipes.find((recipe) => recipe.name === name)!;
    recipe.parts.forEach(({ tensor }, place) => {
      tensors.set(tensor, cutPart(values.get(slotName(slot, name))!, recipe, place));
    });
  }
  return tensors;
}

export interface StepDifferences {
  readonly loss: number;
  /** Cross-entropies of the levels. */
  readonly levels: number;
  readonly norms: number;
  /** Relative to the largest gradient that is written down of the same tensor. */
  readonly entries: number;
  /** Relative to the rate, which is about how far an update moves a weight. */
  readonly weights: number;
}

/** The largest relative differences. Infinity where not the same tensors are trained. */
export function compareSteps(
  found: StepRecord,
  expected: StepRecord,
  { adam: { rate } }: StepSettings,
): StepDifferences {
  const names = Object.keys(expected.tensors);
  const isSame = names.length === Object.keys(found.tensors).length;
  const pairs = names.map((name) => [found.tensors[name], expected.tensors[name]!] as const);
  const worst = (measure: (found: TensorSteps, expected: TensorSteps) => number): number =>
    Math.max(...pairs.map(([own, other]) => (own === undefined || !isSame ? Infinity : measure(own, other))));
  return {
    loss: apart(found.loss, expected.loss),
    levels: Math.max(...expected.levels.map((level, index) => apart(found.levels[index]!, level))),
    norms: Math.max(
      apart(found.norm, expected.norm),
      worst((own, other) => apart(own.norm, other.norm)),
    ),
    entries: worst((own, other) => farthest(own, other, [1]) / largestGradient(other)),
    weights: worst((own, other) => farthest(own, other, [2, 3]) / rate),
  };
}

const apart = (found: number, expected: number): number => Math.abs(found / expected - 1);

/** Largest difference in the given columns of the entries. */
function farthest(own: TensorSteps, other: TensorSteps, columns: readonly (1 | 2 | 3)[]): number {
  const distances = other.entries.flatMap((entry, row) =>
    columns.map((column) => Math.abs((own.entries[row]?.[column] ?? NaN) - entry[column])),
  );
  return Math.max(...distances);
}

const largestGradient = ({ entries }: TensorSteps): number =>
  Math.max(...entries.map(([, gradient]) => Math.abs(gradient)));

/** Math.hypot takes its values as arguments, of which there are too many. */
const lengthOf = (values: Float32Array): number =>
  Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
